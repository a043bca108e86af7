// Pass join: layers whose values between them fit in the caches become one.

#ifndef PLAIT_PASSES_BLOCKED_JOIN_H_
#define PLAIT_PASSES_BLOCKED_JOIN_H_

#include "graph/graph.h"

namespace plait {

// By the rules for pairs of calls (JoinRule in graph/blocked_form.h), again and again:
// an inverted residual block in prediction becomes one node.
Graph JoinBlocked(const Graph& graph);

}  // namespace plait

#endif  // PLAIT_PASSES_BLOCKED_JOIN_H_
