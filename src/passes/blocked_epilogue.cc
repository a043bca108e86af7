// Pass blocked_epilogue.

#include "passes/blocked_epilogue.h"

#include <limits>
#include <optional>

#include "graph/blocked_form.h"

namespace plait {
namespace {

AttrValue FieldOf(const GraphNode& node, const char* name) {
  for (const Field& field : node.op->fields)
    if (field.name == name) return field.access->Get(node.params->get());
  return {};
}

// What a node does to its input number `input`.
std::optional<BlockedFinish> FinishOf(const Graph& graph, const GraphNode& node,
                                      size_t input) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  if (node.op->fn == Fn::kAdd && node.inputs.size() == 2) {
    const Spec &a = graph.spec(node.inputs[0]), &b = graph.spec(node.inputs[1]);
    if (!(a.shape == b.shape) || a.dtype != b.dtype) return {};
    return BlockedFinish{.other = true};
  }
  if (input != 0 || node.inputs.size() != 1) return {};
  if (node.op->fn == Fn::kRelu || (node.op->name == "Activation" &&
                                   FormatAttr(FieldOf(node, "act_type")) == "relu"))
    return BlockedFinish{.bounded = true, .low = 0, .high = kInfinity};
  if (node.op->name == "clip") {
    const double low = AttrCodec<double>::Decode(FieldOf(node, "a_min"), "clip");
    const double high = AttrCodec<double>::Decode(FieldOf(node, "a_max"), "clip");
    if (!(low <= high)) return {};
    return BlockedFinish{.bounded = true,
                         .low = static_cast<float>(low),
                         .high = static_cast<float>(high)};
  }
  return {};
}

}  // namespace

Graph JoinBlockedEpilogues(const Graph& graph) {
  std::vector<int> readers(graph.size(), 0);
  for (const GraphNode& node : graph.nodes) {
    for (GraphEntry e : node.inputs) ++readers[e.node];
  }
  for (GraphEntry e : graph.outputs) ++readers[e.node];
  // Nodes change in place: a convolution that has joined stands where the last one of
  // its followers stood, and prune takes the others away.
  Graph out = graph;
  for (GraphNode& node : out.nodes) {
    if (node.is_input()) continue;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const GraphEntry e = node.inputs[i];
      const GraphNode& from = out.nodes[e.node];
      if (from.is_input() || readers[e.node] != 1 || from.backward != node.backward)
        continue;
      const FinishRule* rule = FinishRuleOf(*from.op);
      if (rule == nullptr) continue;
      const std::optional<BlockedFinish> finish = FinishOf(out, node, i);
      if (!finish) continue;
      ParamsRef params = (*rule)(from.params->get(), *finish);
      if (!params) continue;
      SmallVector<GraphEntry, 3> inputs = from.inputs;
      if (finish->other) inputs.push_back(node.inputs[1 - i]);
      node.name = from.name + "+" + node.name;
      node.op = from.op;
      node.params = std::move(params);
      node.inputs = std::move(inputs);
      node.parsed = false;
      break;
    }
  }
  return out;
}

}  // namespace plait
