// Pass join.

#include "passes/blocked_join.h"

#include <optional>
#include <vector>

#include "graph/blocked_form.h"

namespace plait {
namespace {

Specs InputSpecs(const Graph& graph, const GraphNode& node) {
  Specs in;
  for (GraphEntry e : node.inputs) in.push_back(graph.spec(e));
  return in;
}

// Whether the node became one with the one before it, which nobody reads any more.
bool JoinWithInput(Graph& graph, GraphNode& node, const std::vector<int>& readers) {
  if (node.is_input() || node.inputs.empty() || node.inputs[0].index != 0) return false;
  const JoinRule* rule = JoinRuleOf(*node.op);
  if (rule == nullptr) return false;
  const int before = node.inputs[0].node;
  const GraphNode& first = graph.nodes[before];
  if (first.is_input() || readers[before] != 1 || first.backward != node.backward ||
      first.outputs.size() != 1)
    return false;
  const Specs first_in = InputSpecs(graph, first), in = InputSpecs(graph, node);
  const std::optional<JoinedForm> form = (*rule)(
      {first.op, first.params->get(), first_in}, {node.op, node.params->get(), in});
  if (!form) return false;
  SmallVector<GraphEntry, 3> inputs = first.inputs;
  for (size_t i = 1; i < node.inputs.size(); ++i) inputs.push_back(node.inputs[i]);
  node.name = first.name + "+" + node.name;
  node.op = form->op;
  node.params = form->params;
  node.parsed = false;
  node.inputs = std::move(inputs);
  return true;
}

}  // namespace

Graph JoinBlocked(const Graph& graph) {
  Graph out = graph;
  std::vector<int> readers(graph.size());  // of all outputs of a node
  for (const GraphNode& node : graph.nodes)
    for (GraphEntry e : node.inputs) ++readers[e.node];
  for (GraphEntry e : graph.outputs) ++readers[e.node];
  for (GraphNode& node : out.nodes)
    while (JoinWithInput(out, node, readers)) {
    }
  return out;
}

}  // namespace plait
