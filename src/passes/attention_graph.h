// What the parts of the pass attention share: questions to the graph, and what is
// found.

#ifndef PLAIT_PASSES_ATTENTION_GRAPH_H_
#define PLAIT_PASSES_ATTENTION_GRAPH_H_

#include <initializer_list>
#include <optional>
#include <string_view>
#include <vector>

#include "graph/graph.h"

namespace plait {

// What one operator replaces.
struct AttentionSite {
  GraphEntry q, k, v;
  GraphEntry mask, length;  // node < 0: none
  enum class Mask {
    kAdded,   // to the scores
    kHides,   // keys where it is 0
    kFilled,  // scores become `filled` where it is 0
  } mask_kind = Mask::kAdded;
  double filled = 0;
  GraphEntry factor;  // what the weights are multiplied with after the softmax
  double scale = 1;
  double dropout = 0;
  bool rows_first = false;  // q, k, v are (batch, length, heads, size)
  // Interleaved projections (q and k, and v, are arrays of several): how many heads;
  // 0: they are not.
  int64_t interleaved = 0;
  int anchor = -1;  // the node whose place it takes
  int named = -1;   // whose name it takes: of what drew random numbers
  Shape scores;     // (..., queries, keys)
};

class AttentionGraph {
 public:
  // `wanted`: of which inputs gradients will be. REQUIRES: the graph outlives this.
  AttentionGraph(const Graph& graph, const std::vector<bool>& wanted);

  const Graph& graph() const { return graph_; }
  const GraphNode& At(int id) const { return graph_.nodes[id]; }
  const Shape& ShapeOf(GraphEntry e) const { return graph_.spec(e).shape; }
  bool IsOp(int id, std::string_view name) const {
    return id >= 0 && !At(id).is_input() && At(id).op->name == name;
  }
  bool IsOneOf(int id, std::initializer_list<std::string_view> names) const;
  bool IsTracked(GraphEntry e) const { return tracked_[e.node]; }

  // How many read a node, outputs of the graph included; those that ask for its shape
  // alone do not count.
  size_t CountReaders(int id) const { return readers_[id].size(); }
  // The one reader of a node's first output, or -1.
  int OnlyReader(int id) const {
    return readers_[id].size() == 1 ? readers_[id][0] : -1;
  }
  // Past copies and casts between floats that nothing else reads.
  int SkipCasts(int id) const;
  GraphEntry BehindCasts(GraphEntry e) const;

  // The number that a node multiplies its input with.
  std::optional<double> FactorOf(int id) const;
  // The number that all elements of an array have.
  std::optional<double> ConstantOf(GraphEntry e) const;
  // Whether all its elements are 0 or 1.
  bool IsBoolean(GraphEntry e) const;

 private:
  const Graph& graph_;
  std::vector<std::vector<int>> readers_;  // -1: an output of the graph
  std::vector<bool> tracked_;              // gradients flow through it
};

// Takes `where(mask, scores, number)` as a mask and gives the scores; false where it is
// none.
bool FindWhere(const AttentionGraph& g, int where, AttentionSite& site,
               GraphEntry& scores);
// Whether a mask broadcasts to the scores and wants no gradient.
bool FitsAsMask(const AttentionGraph& g, const AttentionSite& site);
// An array that was repeated for each head and then had batch and heads as one axis, as
// it was before: (batch, 1, ...). `full`: (batch, heads, ...). Else node -1.
GraphEntry BeforeHeads(const AttentionGraph& g, GraphEntry e, const Shape& full);

}  // namespace plait

#endif  // PLAIT_PASSES_ATTENTION_GRAPH_H_
