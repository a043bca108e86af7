// Passes prune, identity and cse.

#include "passes/simplify.h"

#include <string>
#include <unordered_map>

#include "passes/rewriter.h"

namespace plait {
namespace {

// `x` is what the node reads. A copy may also stretch it.
bool IsIdentity(const GraphNode& node, const Spec& x) {
  if (node.is_input() || node.inputs.size() != 1) return false;
  return node.op->fn == Fn::kCopy && node.op->name != "_copyto" &&
         node.outputs[0].dtype == x.dtype && node.outputs[0].shape == x.shape;
}

}  // namespace

std::string KeyOfCall(const GraphNode& node) {
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
    const std::string key = KeyOfCall(node);
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
