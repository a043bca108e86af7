// Pass gradient: appends the nodes that compute gradients of the outputs.

#ifndef PLAIT_PASSES_GRADIENT_H_
#define PLAIT_PASSES_GRADIENT_H_

#include <vector>

#include "graph/graph.h"

namespace plait {

struct GradientRequest {
  std::vector<bool> wanted;      // by position in graph.inputs
  std::vector<bool> head_given;  // by output: a new input holds its head gradient;
                                 // else it is ones
  bool training = true;
  bool partials = false;  // to be told what each node gives to each of its inputs
};

struct GradientResult {
  // By position in graph.inputs as it was; node -1 where no gradient flows.
  std::vector<GraphEntry> gradients;
  // The new inputs, by output; -1 where the head gradient is ones.
  std::vector<int> head_inputs;
  struct Partial {
    int node;   // one that gradients flow through
    int input;  // by position in its inputs; floats only
    GraphEntry gradient;
  };
  std::vector<Partial> partials;
};

// REQUIRES: the graph is fully inferred. New nodes are marked `backward`. Throws
// kNotImplemented for operators on the way that have no gradient.
GradientResult AddGradients(Graph& graph, const GradientRequest& request);

}  // namespace plait

#endif  // PLAIT_PASSES_GRADIENT_H_
