// Pass blocked_epilogue.

#include "passes/blocked_epilogue.h"

#include <limits>
#include <optional>

#include "graph/blocked_form.h"
#include "passes/node_fields.h"

namespace plait {
namespace {

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
  if (IsRelu(node)) return BlockedFinish{.bounded = true, .low = 0, .high = kInfinity};
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

class Epilogues {
 public:
  explicit Epilogues(const Graph& graph)
      : out_(graph), readers_(graph.size()), moved_(graph.size()) {
    for (size_t id = 0; id < graph.size(); ++id)
      readers_[id].resize(graph.nodes[id].outputs.size());
    for (const GraphNode& node : graph.nodes)
      for (GraphEntry e : node.inputs) ++Readers(e);
    for (GraphEntry e : graph.outputs) ++Readers(e);
  }

  // Nodes change in place, and prune takes away what nobody reads any more.
  Graph Run() {
    for (size_t i = 0; i < out_.size(); ++i) {
      const int id = static_cast<int>(i);
      GraphNode& node = out_.nodes[i];
      for (GraphEntry& e : node.inputs) e = Moved(e);
      if (node.is_input()) continue;
      if (!Follow(id)) Mask(node);
    }
    for (GraphEntry& e : out_.outputs) e = Moved(e);
    return std::move(out_);
  }

 private:
  int& Readers(GraphEntry e) { return readers_[e.node][e.index]; }
  GraphEntry Moved(GraphEntry e) const {
    const GraphEntry to = moved_[e.node];
    return e.index == 0 && to.node >= 0 ? to : e;
  }

  // Whether the node becomes part of what it follows.
  bool Follow(int id) {
    GraphNode& node = out_.nodes[id];
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const GraphEntry e = node.inputs[i];
      GraphNode& from = out_.nodes[e.node];
      if (from.is_input() || e.index != 0 || Readers(e) != 1 ||
          from.backward != node.backward)
        continue;
      const FinishRule* rule = FinishRuleOf(*from.op);
      if (rule == nullptr) continue;
      const std::optional<BlockedFinish> finish = FinishOf(out_, node, i);
      if (!finish) continue;
      ParamsRef params = (*rule)(from.params->get(), *finish);
      if (!params) continue;
      from.parsed = node.parsed = false;
      if (from.outputs.size() > 1) {  // others read its further outputs
        from.params = std::move(params);
        from.name += "+" + node.name;
        moved_[id] = {e.node, 0};
        Readers(e) = Readers({id, 0});
        return true;
      }
      SmallVector<GraphEntry, 3> inputs = from.inputs;
      if (finish->other) inputs.push_back(node.inputs[1 - i]);
      node.name = from.name + "+" + node.name;
      node.op = from.op;
      node.params = std::move(params);
      node.inputs = std::move(inputs);
      return true;
    }
    return false;
  }

  // where(y > 0, dy, y), the gradient of a relu, before a gradient that can do it.
  void Mask(GraphNode& node) {
    const FinishRule* rule = FinishRuleOf(*node.op);
    if (rule == nullptr || node.inputs.empty() || Readers(node.inputs[0]) != 1) return;
    const GraphNode& where = out_.nodes[node.inputs[0].node];
    if (where.is_input() || where.op->name != "where" || where.inputs.size() != 3)
      return;
    const GraphEntry y = where.inputs[2];
    const GraphNode& sign = out_.nodes[where.inputs[0].node];
    if (sign.is_input() || sign.op->name != "_greater_scalar" ||
        !(sign.inputs[0] == y) ||
        AttrCodec<double>::Decode(FieldOf(sign, "scalar"), "scalar") != 0)
      return;
    ParamsRef params = (*rule)(node.params->get(), {.masked = true});
    if (!params) return;
    SmallVector<GraphEntry, 3> inputs;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (i == 2) inputs.push_back(y);
      inputs.push_back(i == 0 ? where.inputs[1] : node.inputs[i]);
    }
    node.params = std::move(params);
    node.inputs = std::move(inputs);
    node.parsed = false;
  }

  Graph out_;
  std::vector<SmallVector<int, 1>> readers_;
  std::vector<GraphEntry> moved_;  // by node: where its first output is now
};

}  // namespace

Graph JoinBlockedEpilogues(const Graph& graph) {
  return Epilogues(graph).Run();
}

}  // namespace plait
