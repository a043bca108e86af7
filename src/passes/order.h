// Pass order: an order of the nodes in which less memory is alive at once.

#ifndef PLAIT_PASSES_ORDER_H_
#define PLAIT_PASSES_ORDER_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "graph/graph.h"

namespace plait {

// The graph with its nodes in another order that needs clearly less memory by an
// estimate; nothing where none is known. Which part a node belongs to, the order of
// random numbers, of writes with what reads the same memory, and what comes before and
// after code of the host language stay as they are.
std::optional<Graph> Reorder(const Graph& graph);

// The estimate: the most bytes alive at once, of values between inputs and outputs.
int64_t EstimatePeak(const Graph& graph);

}  // namespace plait

#endif  // PLAIT_PASSES_ORDER_H_
