// Passes prune, identity and cse.

#include "passes/simplify.h"

#include <string>
#include <unordered_map>

namespace plait {
namespace {

// Copies a graph node by node, with values replaced by others on the way.
class Rewriter {
 public:
  explicit Rewriter(const Graph& from) : from_(from), moved_(from.size()) {}

  // The node with its inputs in the new graph.
  GraphNode Moved(int id) const {
    GraphNode node = from_.nodes[id];
    for (GraphEntry& e : node.inputs) e = moved_[e.node][e.index];
    return node;
  }
  void Keep(int id) { Keep(id, Moved(id)); }
  void Keep(int id, GraphNode node) {
    const int place = static_cast<int>(to_.size());
    for (int i = 0; i < static_cast<int>(node.outputs.size()); ++i)
      moved_[id].push_back({place, i});
    to_.Add(std::move(node));
  }
  void Replace(int id, SmallVector<GraphEntry, 1> values) {
    moved_[id] = std::move(values);
  }
  Graph Finish() {
    for (int id : from_.inputs) to_.inputs.push_back(moved_[id][0].node);
    for (GraphEntry e : from_.outputs) to_.outputs.push_back(moved_[e.node][e.index]);
    return std::move(to_);
  }
  const Graph& to() const { return to_; }

 private:
  const Graph& from_;
  Graph to_;
  std::vector<SmallVector<GraphEntry, 1>> moved_;
};

// `x` is what the node reads. A copy may also stretch it.
bool IsIdentity(const GraphNode& node, const Spec& x) {
  if (node.is_input() || node.inputs.size() != 1) return false;
  return node.op->fn == Fn::kCopy && node.op->name != "_copyto" &&
         node.outputs[0].dtype == x.dtype && node.outputs[0].shape == x.shape;
}

// A text that is equal for equal calls; empty for calls that must stay apart.
std::string KeyOf(const GraphNode& node) {
  if (node.is_input() || node.op->random || node.op->IsHost(*node.params) ||
      !node.mutates.empty())
    return "";
  if (node.op->fields.empty() && node.op->other_param) return "";
  std::string key = std::to_string(reinterpret_cast<uintptr_t>(node.op));
  for (GraphEntry e : node.inputs)
    key += ' ' + std::to_string(e.node) + '.' + std::to_string(e.index);
  // Parameters made by code, or with graphs, may differ in what no text shows.
  if (!node.parsed || node.op->finish)
    return key + '@' + std::to_string(reinterpret_cast<uintptr_t>(node.params.get()));
  for (const Field& field : node.op->fields)
    key += '|' + FormatAttr(field.access->Get(node.params->get()));
  return key;
}

}  // namespace

Graph Prune(const Graph& graph) {
  std::vector<bool> needed(graph.size(), false);
  for (GraphEntry e : graph.outputs) needed[e.node] = true;
  for (size_t id = graph.size(); id-- > 0;) {
    if (graph.nodes[id].is_input()) needed[id] = true;
    if (!needed[id]) continue;
    for (GraphEntry e : graph.nodes[id].inputs) needed[e.node] = true;
  }
  Rewriter rewriter(graph);
  for (size_t id = 0; id < graph.size(); ++id) {
    if (needed[id]) rewriter.Keep(static_cast<int>(id));
  }
  return rewriter.Finish();
}

Graph RemoveIdentities(const Graph& graph) {
  Rewriter rewriter(graph);
  for (size_t id = 0; id < graph.size(); ++id) {
    GraphNode node = rewriter.Moved(static_cast<int>(id));
    if (!node.inputs.empty() && IsIdentity(node, rewriter.to().spec(node.inputs[0]))) {
      rewriter.Replace(static_cast<int>(id), {node.inputs[0]});
    } else {
      rewriter.Keep(static_cast<int>(id), std::move(node));
    }
  }
  return rewriter.Finish();
}

Graph MergeEqual(const Graph& graph) {
  Rewriter rewriter(graph);
  std::unordered_map<std::string, int> known;
  for (size_t id = 0; id < graph.size(); ++id) {
    GraphNode node = rewriter.Moved(static_cast<int>(id));
    const std::string key = KeyOf(node);
    const int place = static_cast<int>(rewriter.to().size());
    if (!key.empty()) {
      const auto [it, fresh] = known.emplace(key, place);
      if (!fresh) {
        SmallVector<GraphEntry, 1> values;
        for (int i = 0; i < static_cast<int>(node.outputs.size()); ++i)
          values.push_back({it->second, i});
        rewriter.Replace(static_cast<int>(id), std::move(values));
        continue;
      }
    }
    rewriter.Keep(static_cast<int>(id), std::move(node));
  }
  return rewriter.Finish();
}

}  // namespace plait
