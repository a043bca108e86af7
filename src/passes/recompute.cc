// Pass recompute: candidates, and their copies.

#include "passes/recompute.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>

#include "passes/fuse.h"
#include "passes/memory_plan.h"

namespace plait {
namespace {

// Too dear to do twice.
bool IsDear(const GraphNode& node) {
  constexpr std::string_view kDear[] = {
      "Convolution", "Deconvolution", "FullyConnected", "RNN",   "dot",
      "batch_dot",   "Concat",        "SoftmaxOutput",  "linalg"};
  for (std::string_view name : kDear)
    if (node.op->name.find(name) != std::string::npos) return true;
  return false;
}

// In training it also moves its statistics; a copy takes those of the batch as given.
bool IsBatchNorm(const GraphNode& node) {
  return !node.is_input() && node.op->name == "BatchNorm" && node.outputs.size() == 3;
}

bool IsCheap(const GraphNode& node) {
  if (node.is_input() || node.backward || node.inputs.empty()) return false;
  if (node.op->random || node.op->host) return false;
  if (!node.mutates.empty() && !IsBatchNorm(node)) return false;
  return node.recompute || !IsDear(node);
}

class RecomputePass {
 public:
  explicit RecomputePass(const Graph& graph)
      : graph_(graph), kept_(graph.size(), false) {
    for (const GraphNode& node : graph.nodes) {
      if (!node.backward) continue;
      // The statistics of a BatchNorm are small and stay, whatever becomes of its
      // result.
      for (GraphEntry e : node.inputs) {
        if (e.index == 0 || !IsBatchNorm(graph.nodes[e.node])) kept_[e.node] = true;
      }
    }
    std::vector<bool> output(graph.size(), false);
    for (GraphEntry e : graph.outputs) output[e.node] = kept_[e.node] = true;
    for (size_t id = 0; id < graph.size(); ++id) {
      if (IsCheap(graph.nodes[id]) && kept_[id] && !output[id])
        candidates_.push_back(static_cast<int>(id));
    }
    // What the user marked comes first, then what saves most.
    std::stable_sort(candidates_.begin(), candidates_.end(), [&](int a, int b) {
      const bool first = graph.nodes[a].recompute, second = graph.nodes[b].recompute;
      return first != second ? first : BytesOf(a) > BytesOf(b);
    });
  }

  size_t candidates() const { return candidates_.size(); }
  size_t marked() const {
    return static_cast<size_t>(
        std::count_if(candidates_.begin(), candidates_.end(),
                      [&](int id) { return graph_.nodes[id].recompute; }));
  }

  Graph Apply(size_t count) const {
    const std::vector<bool> again = Choose(count);
    Graph out;
    std::vector<int> moved(graph_.size());
    std::unordered_map<int, int> copies;
    for (size_t id = 0; id < graph_.size(); ++id) {
      GraphNode node = graph_.nodes[id];
      for (GraphEntry& e : node.inputs) {
        const bool copied = node.backward && again[e.node] && e.index == 0;
        e.node = copied ? CopyOf(e.node, moved, copies, out) : moved[e.node];
      }
      moved[id] = static_cast<int>(out.size());
      out.Add(std::move(node));
    }
    for (int id : graph_.inputs) out.inputs.push_back(moved[id]);
    for (GraphEntry e : graph_.outputs) out.outputs.push_back({moved[e.node], e.index});
    return out;
  }

 private:
  int64_t BytesOf(int id) const { return graph_.Bytes({id, 0}); }

  // A value that is computed again must come from values that are kept: else a long
  // chain of them would come to life at once.
  std::vector<bool> Choose(size_t count) const {
    std::vector<bool> again(graph_.size(), false), needed(graph_.size(), false);
    for (size_t i = 0; i < count && i < candidates_.size(); ++i) {
      const int id = candidates_[i];
      if (needed[id]) continue;
      std::vector<int> stack{id}, leaves;
      bool fits = true;
      int64_t saved = BytesOf(id);  // without what has to be kept instead
      while (!stack.empty() && fits) {
        const int at = stack.back();
        stack.pop_back();
        for (GraphEntry e : graph_.nodes[at].inputs) {
          if (Passes(e.node)) {
            stack.push_back(e.node);
          } else {
            leaves.push_back(e.node);
            if (!kept_[e.node] && !needed[e.node] && !graph_.nodes[e.node].is_input())
              saved -= graph_.Bytes(e);
            fits &= !again[e.node] && leaves.size() < kMostLeaves;
          }
        }
      }
      if (!fits || (saved <= 0 && !graph_.nodes[id].recompute)) continue;
      again[id] = true;
      for (int leaf : leaves) needed[leaf] = true;
    }
    return again;
  }
  // Computed again with whatever reads it, as nobody else keeps it.
  bool Passes(int id) const { return !kept_[id] && IsCheap(graph_.nodes[id]); }

  // The copy of a node that is computed again, made with those that it reads first.
  int CopyOf(int id, const std::vector<int>& moved,
             std::unordered_map<int, int>& copies, Graph& out) const {
    std::vector<int> stack{id};
    while (!stack.empty()) {
      const int at = stack.back();
      if (copies.contains(at)) {
        stack.pop_back();
        continue;
      }
      bool ready = true;
      for (GraphEntry e : graph_.nodes[at].inputs) {
        if (Passes(e.node) && !copies.contains(e.node)) {
          stack.push_back(e.node);
          ready = false;
        }
      }
      if (!ready) continue;
      GraphNode node = Copied(at, moved, copies, out);
      copies[at] = static_cast<int>(out.size());
      out.Add(std::move(node));
      stack.pop_back();
    }
    return copies.at(id);
  }

  // May add nodes that it reads.
  GraphNode Copied(int id, const std::vector<int>& moved,
                   const std::unordered_map<int, int>& copies, Graph& out) const {
    GraphNode node = graph_.nodes[id];
    node.backward = true;
    node.name += "_again";
    for (GraphEntry& e : node.inputs)
      e.node = Passes(e.node) ? copies.at(e.node) : moved[e.node];
    if (!IsBatchNorm(node)) return node;
    // With the statistics of the batch given as if they were moving ones.
    node.mutates.clear();
    if (graph_.nodes[id].mutates[0] == 1) node.mutates.push_back(1);  // a fixed gamma
    node.inputs[3] = {moved[id], 1};
    node.inputs[4] = VarianceOf(id, moved[id], out);
    SmallVector<NamedAttr, 8> attrs;
    for (const Field& field : node.op->fields) {
      const bool given = field.name == "use_global_stats";
      attrs.push_back({field.name, given ? AttrValue{true}
                                         : field.access->Get(node.params->get())});
    }
    node.params = MakeParams(*node.op, attrs);
    return node;
  }

  // var = 1 / r^2 - eps, of the r = 1 / sqrt(var + eps) that a BatchNorm keeps.
  GraphEntry VarianceOf(int id, int batch_norm, Graph& out) const {
    const GraphNode& from = graph_.nodes[id];
    AttrValue eps;
    for (const Field& field : from.op->fields)
      if (field.name == "eps") eps = field.access->Get(from.params->get());
    const NamedAttr scalar[] = {{"scalar", eps}};
    GraphEntry value{batch_norm, 2};
    for (const char* name : {"square", "reciprocal", "_minus_scalar"}) {
      GraphNode node;
      node.op = &GetOp(name);
      node.params =
          node.op->fields.empty() ? node.op->defaults : MakeParams(*node.op, scalar);
      node.name = from.name + "_variance";
      node.inputs = {value};
      node.outputs.push_back(from.outputs[2]);
      node.backward = true;
      value = {static_cast<int>(out.size()), 0};
      out.Add(std::move(node));
    }
    return value;
  }

  static constexpr size_t kMostLeaves = 64;
  const Graph& graph_;
  std::vector<bool> kept_;       // read by the backward part, or an output
  std::vector<int> candidates_;  // those that save most first
};

}  // namespace

Graph Recompute(const Graph& graph, int64_t budget) {
  const RecomputePass pass(graph);
  const auto bytes = [&](size_t count) {
    return PlanMemory(Fuse(pass.Apply(count))).arena_bytes;
  };
  size_t low = pass.marked(), high = pass.candidates();
  if (budget == 0 || low == high || bytes(low) <= budget) return pass.Apply(low);
  while (high - low > 1) {
    const size_t middle = (low + high) / 2;
    (bytes(middle) <= budget ? high : low) = middle;
  }
  return pass.Apply(high);
}

}  // namespace plait
