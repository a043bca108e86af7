// Pass hoist.

#include "passes/hoist.h"

#include <algorithm>
#include <unordered_map>

#include "passes/parameters.h"

namespace plait {
namespace {

// Bytes of a kept value that need no reason.
constexpr int64_t kSmall = 4096;
// Of one that depends on nothing.
constexpr int64_t kMostOfConstant = 1 << 20;
constexpr int64_t kMostGrowth = 6;  // Winograd's filters take up to 5.3

bool IsWorthKeeping(const Graph& graph, int id, bool constant) {
  const GraphNode& node = graph.nodes[id];
  if (node.op->view) return false;
  int64_t in = 0, out = 0;
  for (GraphEntry e : node.inputs) {
    // Filters of half types may become transformed floats.
    in += graph.Bytes(e) * (IsHalf(graph.spec(e).dtype) ? 2 : 1);
  }
  for (int i = 0; i < static_cast<int>(node.outputs.size()); ++i)
    out += graph.Bytes({id, i});
  return out <= (constant ? kMostOfConstant : kMostGrowth * in + kSmall);
}

// Which nodes the prologue computes: those whose values are kept, and what they need.
std::vector<bool> Choose(const Graph& graph, const std::vector<bool>& candidates) {
  std::vector<bool> hoisted(graph.size(), false), read(graph.size(), false),
      needed(graph.size(), false), constant(graph.size(), false);
  for (size_t id = 0; id < graph.size(); ++id) {
    const auto& inputs = graph.nodes[id].inputs;
    constant[id] = !graph.nodes[id].is_input() &&
                   std::all_of(inputs.begin(), inputs.end(),
                               [&](GraphEntry e) { return constant[e.node]; });
  }
  for (GraphEntry e : graph.outputs) needed[e.node] = true;
  for (size_t i = graph.size(); i-- > 0;) {
    const int id = static_cast<int>(i);
    const GraphNode& node = graph.nodes[id];
    if (node.is_input()) continue;
    // `read`: by a node that stays.
    hoisted[id] = candidates[id] && !needed[id] &&
                  (!read[id] || IsWorthKeeping(graph, id, constant[id]));
    if (!hoisted[id]) {
      for (GraphEntry e : node.inputs) read[e.node] = true;
    }
  }
  return hoisted;
}

class Split {
 public:
  Split(const Graph& graph, const std::vector<bool>& hoisted)
      : graph_(graph),
        hoisted_(hoisted),
        moved_(graph.size(), -1),
        in_prologue_(graph.size(), -1) {}

  Hoisted Run() {
    for (size_t i = 0; i < graph_.inputs.size(); ++i)
      input_number_[graph_.inputs[i]] = static_cast<int>(i);
    for (size_t i = 0; i < graph_.size(); ++i) {
      const int id = static_cast<int>(i);
      if (hoisted_[id]) {
        AddToPrologue(id);
        continue;
      }
      GraphNode node = graph_.nodes[id];
      for (GraphEntry& e : node.inputs) e = Rest(e);
      moved_[id] = static_cast<int>(result_.graph.size());
      result_.graph.Add(std::move(node));
    }
    for (int id : graph_.inputs) result_.graph.inputs.push_back(moved_[id]);
    for (int id : kept_) result_.graph.inputs.push_back(id);
    for (GraphEntry e : graph_.outputs) result_.graph.outputs.push_back(Rest(e));
    return std::move(result_);
  }

 private:
  void AddToPrologue(int id) {
    GraphNode node = graph_.nodes[id];
    for (GraphEntry& e : node.inputs) {
      if (in_prologue_[e.node] < 0) AddSource(e.node);
      e.node = in_prologue_[e.node];
    }
    in_prologue_[id] = static_cast<int>(result_.prologue.size());
    result_.prologue.Add(std::move(node));
  }

  void AddSource(int input) {
    in_prologue_[input] = static_cast<int>(result_.prologue.size());
    result_.prologue.inputs.push_back(in_prologue_[input]);
    result_.prologue.Add(graph_.nodes[input]);
    result_.sources.push_back(input_number_[input]);
  }

  // The value in the rest of the graph: of the prologue, an input.
  GraphEntry Rest(GraphEntry e) {
    if (!hoisted_[e.node]) return {moved_[e.node], e.index};
    const int64_t key = static_cast<int64_t>(e.node) << 8 | e.index;
    const auto [it, fresh] =
        inputs_of_.emplace(key, static_cast<int>(result_.graph.size()));
    if (fresh) {
      GraphNode input;
      input.name = graph_.nodes[e.node].name;
      input.outputs.push_back(graph_.spec(e));
      kept_.push_back(it->second);
      result_.graph.Add(std::move(input));
      result_.prologue.outputs.push_back({in_prologue_[e.node], e.index});
    }
    return {it->second, 0};
  }

  const Graph& graph_;
  const std::vector<bool>& hoisted_;
  std::vector<int> moved_, in_prologue_;
  std::unordered_map<int, int> input_number_;
  std::unordered_map<int64_t, int> inputs_of_;
  std::vector<int> kept_;  // nodes of the rest
  Hoisted result_;
};

}  // namespace

Hoisted Hoist(const Graph& graph, const std::vector<bool>& parameters) {
  const std::vector<bool> hoisted = Choose(graph, FromParameters(graph, parameters));
  return Split(graph, hoisted).Run();
}

}  // namespace plait
