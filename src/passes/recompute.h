// Pass recompute: forward values are computed again in the backward part, not kept.
//
// Training keeps what gradients read: its memory grows with the depth of a network.
// Values that are cheap to compute from others that are kept can be left out instead
// (Chen et al., "Training Deep Nets with Sublinear Memory Cost", 2016).

#ifndef PLAIT_PASSES_RECOMPUTE_H_
#define PLAIT_PASSES_RECOMPUTE_H_

#include <cstdint>

#include "graph/graph.h"

namespace plait {

// Copies of cheap forward nodes stand before the backward nodes that read them: those
// that the user marked (`__force_mirroring__`), and as many others, those that save
// most first, as it takes to fit the arena of the plan into `budget` bytes (all, if
// even that does not do). 0: no others. What draws random numbers, writes inputs (but
// BatchNorm), a convolution, a product of matrices or a loss is computed once, unless
// it is marked.
Graph Recompute(const Graph& graph, int64_t budget);

}  // namespace plait

#endif  // PLAIT_PASSES_RECOMPUTE_H_
