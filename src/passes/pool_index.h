// Pass pool_index: max pooling's gradient from the places of the maxima.
//
// The gradient of max pooling looks for the maxima again in the pooled array, which is
// then kept for the backward part: in a convolutional network, half of all activations.
// Where nothing else of the backward part needs that array, the forward part notes the
// places, a byte each, instead. A relu before the pooling needs its result's sign: that
// of the pooled value does as well, since only maxima get a gradient.

#ifndef PLAIT_PASSES_POOL_INDEX_H_
#define PLAIT_PASSES_POOL_INDEX_H_

#include "graph/graph.h"

namespace plait {

Graph NotePoolIndices(const Graph& graph);

}  // namespace plait

#endif  // PLAIT_PASSES_POOL_INDEX_H_
