// Pass channels: networks with channels last compute with channels first.
//
// A convolution whose layout has channels last becomes a transpose, one with channels
// first, and a transpose back. What follows and does not care for the order (BatchNorm,
// pooling, concatenation along channels, pointwise calls) takes the array before it was
// transposed back, so that transposes are left at the edges only; all other passes then
// see what they know. Where an array needs no copy, a reshape stands for a transpose.

#ifndef PLAIT_PASSES_CHANNELS_FIRST_H_
#define PLAIT_PASSES_CHANNELS_FIRST_H_

#include "graph/graph.h"

namespace plait {

// Before gradients are appended. REQUIRES: the graph is fully inferred.
Graph PutChannelsFirst(const Graph& graph);

}  // namespace plait

#endif  // PLAIT_PASSES_CHANNELS_FIRST_H_
