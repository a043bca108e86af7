// Pass casts: conversions between dtypes that change nothing go away.

#ifndef PLAIT_PASSES_CASTS_H_
#define PLAIT_PASSES_CASTS_H_

#include "graph/graph.h"

namespace plait {

// Casts to the dtype that is there already go, also those that take back a cast to a
// wider type; amp_multicast becomes a cast for each array that needs one.
Graph SimplifyCasts(const Graph& graph);

}  // namespace plait

#endif  // PLAIT_PASSES_CASTS_H_
