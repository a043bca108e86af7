// GraphVariant: inference, gradients, and the passes.

#include "run/graph_variant.h"

#include <algorithm>
#include <utility>

#include "graph/math.h"
#include "graph/trace.h"
#include "passes/attention.h"
#include "passes/channels_first.h"
#include "passes/gradient.h"
#include "passes/infer.h"

namespace plait {

std::shared_ptr<const GraphVariant> CompileVariant(
    Graph graph, Specs specs, bool training, const std::vector<bool>& wanted,
    const std::string& name, std::shared_ptr<PrologueSet> prologues) {
  auto variant = std::make_shared<GraphVariant>();
  variant->training = training;
  variant->wanted = wanted;
  for (size_t i = 0; i < specs.size(); ++i)
    graph.nodes[graph.inputs[i]].outputs[0] = specs[i];
  variant->specs = std::move(specs);
  Infer(graph);
  std::string missing;
  Check(FullyInferred(graph, &missing), name,
        ": shapes do not follow from the inputs; ", missing, " are unknown");
  CompileOptions options;
  options.training = training;
  options.prologues = std::move(prologues);
  graph = PutChannelsFirst(FuseAttention(graph, wanted));
  if (!wanted.empty()) {
    GradientRequest request;
    request.wanted = wanted;
    request.training = training;
    request.head_given.assign(graph.outputs.size(), true);
    const std::vector<int> inputs = graph.inputs;
    const GradientResult result = AddGradients(graph, request);
    for (int head : result.head_inputs) {
      const auto it = std::find(graph.inputs.begin(), graph.inputs.end(), head);
      variant->heads.push_back(head < 0 ? -1
                                        : static_cast<int>(it - graph.inputs.begin()));
    }
    Tracer tracer(&graph);
    tracer.backward = true;
    for (size_t i = 0; i < wanted.size(); ++i) {
      if (!wanted[i]) continue;
      GraphEntry gradient = result.gradients[i];
      if (gradient.node < 0) {
        const Spec spec = graph.spec({inputs[i], 0});
        gradient = tracer.EntryOf(zeros(spec).array());
      }
      graph.outputs.push_back(gradient);
      variant->gradient_of.push_back(static_cast<int>(i));
    }
  }
  variant->compiled = CompiledGraph::Compile(std::move(graph), options);
  return variant;
}

}  // namespace plait
