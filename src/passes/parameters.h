// Parameters: which inputs of a graph are its parameters, and what follows from them.

#ifndef PLAIT_PASSES_PARAMETERS_H_
#define PLAIT_PASSES_PARAMETERS_H_

#include <vector>

#include "graph/graph.h"

namespace plait {

// By input of the graph: whether it only feeds weights, biases, scales and statistics
// of operators, perhaps through casts, products and the like. A guess about how seldom
// it changes, from the names of the operators' inputs; nothing may depend on it but
// speed. All are false where the graph writes an input.
std::vector<bool> ParameterInputs(const Graph& graph);

// By node: whether its values follow from parameters (or from nothing at all), the same
// each time: no random numbers, no code of the host language, no gradients.
std::vector<bool> FromParameters(const Graph& graph,
                                 const std::vector<bool>& parameters);

}  // namespace plait

#endif  // PLAIT_PASSES_PARAMETERS_H_
