// Pass fold_bn: BatchNorm by known statistics becomes part of what it reads.

#ifndef PLAIT_PASSES_FOLD_BATCH_NORM_H_
#define PLAIT_PASSES_FOLD_BATCH_NORM_H_

#include <vector>

#include "graph/graph.h"

namespace plait {

// BatchNorm that takes the moving statistics, and whose statistics nobody reads, is a
// scale and an offset of each channel. Where it alone reads a convolution, a
// deconvolution or a FullyConnected, these go into weight and bias; else it becomes
// pointwise nodes. `from_parameters`, by node, tells which weights may be scaled once
// and kept (see hoist): others are scaled only where they are smaller than the result.
// REQUIRES: fully inferred.
Graph FoldBatchNorms(const Graph& graph, bool training,
                     const std::vector<bool>& from_parameters);

}  // namespace plait

#endif  // PLAIT_PASSES_FOLD_BATCH_NORM_H_
