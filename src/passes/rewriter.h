// Rewriter: copies a graph node by node, with values replaced by others on the way.

#ifndef PLAIT_PASSES_REWRITER_H_
#define PLAIT_PASSES_REWRITER_H_

#include <utility>
#include <vector>

#include "graph/graph.h"

namespace plait {

// Every node of the old graph is kept or replaced, in order. REQUIRES: `from` outlives
// it.
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
  // For what appends nodes of its own.
  Graph* target() { return &to_; }
  // The new value of an old one.
  GraphEntry Moved(GraphEntry e) const { return moved_[e.node][e.index]; }

 private:
  const Graph& from_;
  Graph to_;
  std::vector<SmallVector<GraphEntry, 1>> moved_;
};

}  // namespace plait

#endif  // PLAIT_PASSES_REWRITER_H_
