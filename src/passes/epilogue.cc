// Pass epilogue.

#include "passes/epilogue.h"

#include "passes/node_fields.h"

namespace plait {
namespace {

// What a node becomes with a relu behind it; null: it has no such form.
const OpDef* WithRelu(const GraphNode& node) {
  static const OpDef& convolution = GetOp("_convolution_relu");
  static const OpDef& dense = GetOp("_fully_connected_relu");
  if (node.is_input()) return nullptr;
  if (node.op->name == "Convolution") return &convolution;
  if (node.op->name == "FullyConnected") return &dense;
  return nullptr;
}

}  // namespace

Graph JoinEpilogues(const Graph& graph) {
  std::vector<int> readers(graph.size(), 0);
  for (const GraphNode& node : graph.nodes) {
    for (GraphEntry e : node.inputs) ++readers[e.node];
  }
  for (GraphEntry e : graph.outputs) ++readers[e.node];
  const auto joins = [&](const GraphNode& relu) {
    if (relu.is_input() || !IsRelu(relu)) return false;
    const GraphNode& from = graph.nodes[relu.inputs[0].node];
    return WithRelu(from) != nullptr && from.backward == relu.backward &&
           readers[relu.inputs[0].node] == 1;
  };
  Graph out;
  std::vector<int> moved(graph.size(), -1);
  for (size_t id = 0; id < graph.size(); ++id) {
    GraphNode node = graph.nodes[id];
    if (joins(node)) {
      // It stands where the relu stood; prune takes the other one away.
      const GraphNode& from = graph.nodes[node.inputs[0].node];
      node.op = WithRelu(from);
      node.params = from.params;
      node.inputs = from.inputs;
      node.name = from.name + "+" + node.name;
      node.parsed = from.parsed;
    }
    for (GraphEntry& e : node.inputs) e.node = moved[e.node];
    moved[id] = static_cast<int>(out.size());
    out.Add(std::move(node));
  }
  for (int id : graph.inputs) out.inputs.push_back(moved[id]);
  for (GraphEntry e : graph.outputs) out.outputs.push_back({moved[e.node], e.index});
  return out;
}

}  // namespace plait
