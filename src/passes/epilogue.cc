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

// What a node becomes with a cast to float32 behind it.
const OpDef* WithCast(const GraphNode& node) {
  static const OpDef& wide = GetOp("_dot_float32");
  if (node.is_input() || node.op->name != "dot") return nullptr;
  return IsHalf(node.outputs[0].dtype) ? &wide : nullptr;
}

bool IsCastToFloat(const GraphNode& node) {
  return (node.op->name == "Cast" || node.op->name == "amp_cast") &&
         node.outputs[0].dtype == DType::kFloat32;
}

}  // namespace

Graph JoinEpilogues(const Graph& graph) {
  std::vector<int> readers(graph.size(), 0);
  for (const GraphNode& node : graph.nodes) {
    for (GraphEntry e : node.inputs) ++readers[e.node];
  }
  for (GraphEntry e : graph.outputs) ++readers[e.node];
  // The operator that does the work of a node and of the one before it, or null.
  const auto joined = [&](const GraphNode& last) -> const OpDef* {
    if (last.is_input() || last.inputs.empty()) return nullptr;
    const GraphNode& from = graph.nodes[last.inputs[0].node];
    if (readers[last.inputs[0].node] != 1 || from.backward != last.backward)
      return nullptr;
    if (IsRelu(last)) return WithRelu(from);
    return IsCastToFloat(last) ? WithCast(from) : nullptr;
  };
  Graph out;
  std::vector<int> moved(graph.size(), -1);
  for (size_t id = 0; id < graph.size(); ++id) {
    GraphNode node = graph.nodes[id];
    if (const OpDef* op = joined(node)) {
      // It stands where the last one stood; prune takes the other one away.
      const GraphNode& from = graph.nodes[node.inputs[0].node];
      node.op = op;
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
