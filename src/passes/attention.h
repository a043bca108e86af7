// Pass attention: softmax(q k^T) v by one operator that keeps no array of all weights.
//
// Finds batch_dot, factors, a mask, softmax (with lengths or without), Dropout and
// batch_dot, as models are written, and puts dot_product_attention in their place; the
// transposes that bring heads together before and after go with them. The interleaved
// products of contrib become _interleaved_attention. Where nothing else reads what lies
// between, and no gradient by the mask is wanted. Numbers differ by rounding only:
// Dropout's draws stay the same, as long as nothing else draws between it and the
// second product. Queries that see no key give 0 instead of NaN.

#ifndef PLAIT_PASSES_ATTENTION_H_
#define PLAIT_PASSES_ATTENTION_H_

#include <vector>

#include "graph/graph.h"

namespace plait {

// Before gradients are appended. `wanted`: by position in graph.inputs, of which
// gradients will be; empty: none. REQUIRES: the graph is fully inferred.
Graph FuseAttention(const Graph& graph, const std::vector<bool>& wanted);

}  // namespace plait

#endif  // PLAIT_PASSES_ATTENTION_H_
