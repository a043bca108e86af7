// Pass blocked: parts of a graph run on blocks of channels (graph/blocked_form.h).

#ifndef PLAIT_PASSES_BLOCKED_H_
#define PLAIT_PASSES_BLOCKED_H_

#include <optional>

#include "graph/blocked_form.h"
#include "graph/graph.h"

namespace plait {

// Nodes that can run on blocks and hang together do so where that makes convolutions
// faster; arrays are copied from one layout to the other at the borders.
// `block`: channels of a block. With 0 the graph stays as it is. With `prepare`, what
// kernels make of filters first becomes nodes of its own, which pass `hoist` can keep.
Graph UseBlocks(const Graph& graph, int64_t block, bool prepare);

// The blocked form of one call: by its operator's rule, or because it is pointwise.
// REQUIRES: all specs are known; a pointwise call writes no input.
std::optional<BlockedForm> FindBlockedForm(const OpDef& op, const ParamsRef& params,
                                           const Specs& in, const Specs& out,
                                           int64_t block);

}  // namespace plait

#endif  // PLAIT_PASSES_BLOCKED_H_
