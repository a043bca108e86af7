// Pass order: two heuristics and an estimate that chooses between them.

#include "passes/order.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <unordered_map>

#include "graph/fused.h"

namespace plait {
namespace {

// Larger graphs keep their order.
constexpr size_t kMostNodes = 5000;
// Nor is the best of ever so many looked for.
constexpr size_t kMostReady = 256;
// A new order needs at most so many hundredths of the memory.
constexpr int64_t kGain = 97;

using Ints = SmallVector<int, 4>;

void AddOnce(Ints& list, int item) {
  if (std::find(list.begin(), list.end(), item) == list.end()) list.push_back(item);
}

class Orders {
 public:
  explicit Orders(const Graph& graph) : graph_(graph), nodes_(graph.size()) {
    FindMemory();
    FindParts();
    for (size_t id = 0; id < graph.size(); ++id) {
      for (GraphEntry e : graph.nodes[id].inputs) AddEdge(e.node, static_cast<int>(id));
    }
    KeepOrderOfEffects();
  }

  // The most bytes alive at once.
  int64_t Peak(const std::vector<int>& order) const {
    std::vector<int> uses = uses_;
    int64_t live = 0, peak = 0;
    for (int id : order) {
      const Change change = ChangeOf(id, uses);
      peak = std::max(peak, live + change.while_it_runs);
      live += change.after;
      for (int m : nodes_[id].reads) --uses[m];
    }
    return peak;
  }

  // Of the nodes that are ready, the one that frees most.
  std::vector<int> Greedy() const {
    std::vector<int> uses = uses_, missing(nodes_.size()), ready, order;
    for (size_t id = 0; id < nodes_.size(); ++id)
      missing[id] = static_cast<int>(nodes_[id].before.size());
    const auto place = [&](int id) {
      order.push_back(id);
      for (int m : nodes_[id].reads) --uses[m];
    };
    for (const std::vector<int>& part : parts_) {
      for (int id : part) {
        if (!graph_.nodes[id].is_input()) continue;
        place(id);
        for (int next : nodes_[id].after) --missing[next];
      }
      for (int id : part)
        if (missing[id] == 0 && !graph_.nodes[id].is_input()) ready.push_back(id);
      while (!ready.empty()) {
        if (ready.size() > kMostReady) return {};
        const auto best =
            std::min_element(ready.begin(), ready.end(), [&](int a, int b) {
              const Change x = ChangeOf(a, uses), y = ChangeOf(b, uses);
              if (x.after != y.after) return x.after < y.after;
              if (x.while_it_runs != y.while_it_runs)
                return x.while_it_runs < y.while_it_runs;
              return a < b;
            });
        const int id = *best;
        ready.erase(best);
        place(id);
        for (int next : nodes_[id].after)
          if (--missing[next] == 0 && part_of_[next] == part_of_[id])
            ready.push_back(next);
      }
    }
    return order;
  }

  // From the results back, what needs most memory first (Sethi and Ullman's numbering
  // of trees).
  std::vector<int> DepthFirst() const {
    std::vector<std::vector<int>> children(nodes_.size());
    FindChildren(children);
    std::vector<bool> entered(nodes_.size(), false), done(nodes_.size(), false);
    std::vector<int> order, stack;
    for (const std::vector<int>& part : parts_) {
      for (int root : part) {
        const auto& after = nodes_[root].after;
        if (std::any_of(after.begin(), after.end(),
                        [&](int n) { return part_of_[n] == part_of_[root]; }))
          continue;
        stack.push_back(root);
        while (!stack.empty()) {
          const int id = stack.back();
          if (done[id] || entered[id]) {
            stack.pop_back();
            if (!done[id]) order.push_back(id);
            done[id] = true;
            continue;
          }
          entered[id] = true;
          const std::vector<int>& from = children[id];
          for (size_t i = from.size(); i-- > 0;)
            if (!entered[from[i]] && part_of_[from[i]] == part_of_[id])
              stack.push_back(from[i]);
        }
      }
    }
    return order;
  }

  Graph Apply(const std::vector<int>& order) const {
    Graph out;
    std::vector<int> moved(graph_.size());
    for (int id : order) {
      GraphNode node = graph_.nodes[id];
      for (GraphEntry& e : node.inputs) e.node = moved[e.node];
      moved[id] = static_cast<int>(out.size());
      out.Add(std::move(node));
    }
    for (int id : graph_.inputs) out.inputs.push_back(moved[id]);
    for (GraphEntry e : graph_.outputs) out.outputs.push_back({moved[e.node], e.index});
    return out;
  }

 private:
  struct Node {
    Ints reads, makes;   // memory by number
    Ints before, after;  // nodes
  };
  struct Change {
    int64_t while_it_runs, after;
  };

  // Views are their input's memory. Inputs and outputs cost nothing, but writes to them
  // have an order.
  void FindMemory() {
    std::vector<SmallVector<bool, 1>> given(graph_.size());
    for (size_t id = 0; id < graph_.size(); ++id)
      given[id].resize(graph_.nodes[id].outputs.size());
    for (GraphEntry e : graph_.outputs) given[e.node][e.index] = true;
    memory_of_.resize(graph_.size());
    for (size_t i = 0; i < graph_.size(); ++i) {
      const int id = static_cast<int>(i);
      const GraphNode& node = graph_.nodes[id];
      for (GraphEntry e : node.inputs)
        AddOnce(nodes_[id].reads, memory_of_[e.node][e.index]);
      for (int m : nodes_[id].reads) ++uses_[m];
      for (int k = 0; k < static_cast<int>(node.outputs.size()); ++k) {
        if (!node.is_input() && node.op->view && k == 0 && !given[id][k]) {
          memory_of_[id].push_back(
              memory_of_[node.inputs[0].node][node.inputs[0].index]);
          continue;
        }
        const int m = static_cast<int>(bytes_.size());
        memory_of_[id].push_back(m);
        bytes_.push_back(node.is_input() || given[id][k] ? 0 : graph_.Bytes({id, k}));
        uses_.push_back(0);
        nodes_[id].makes.push_back(m);
      }
    }
  }

  // Nodes that run as a whole before all that follow.
  void FindParts() {
    part_of_.resize(graph_.size());
    std::vector<int> ids[2];
    for (size_t id = 0; id < graph_.size(); ++id)
      ids[graph_.nodes[id].backward].push_back(static_cast<int>(id));
    for (const std::vector<int>& half : ids) {
      parts_.emplace_back();
      for (int id : half) {
        const GraphNode& node = graph_.nodes[id];
        const bool host = !node.is_input() && node.op->IsHost(*node.params);
        if (host && !parts_.back().empty()) parts_.emplace_back();
        part_of_[id] = static_cast<int>(parts_.size()) - 1;
        parts_.back().push_back(id);
        if (host) parts_.emplace_back();
      }
    }
  }

  void AddEdge(int from, int to) {
    if (std::find(nodes_[to].before.begin(), nodes_[to].before.end(), from) !=
        nodes_[to].before.end())
      return;
    nodes_[to].before.push_back(from);
    nodes_[from].after.push_back(to);
  }

  void KeepOrderOfEffects() {
    int last_random = -1;
    std::unordered_map<int, int> writer;              // of memory: the last one
    std::unordered_map<int, std::vector<int>> since;  // its readers since then
    std::vector<bool> written(bytes_.size(), false);
    for (size_t id = 0; id < graph_.size(); ++id) {
      for (int i : graph_.nodes[id].mutates)
        written[MemoryOf(static_cast<int>(id), i)] = true;
    }
    for (size_t i = 0; i < graph_.size(); ++i) {
      const int id = static_cast<int>(i);
      const GraphNode& node = graph_.nodes[id];
      if (node.is_input()) continue;
      if (node.op->random) {
        if (last_random >= 0) AddEdge(last_random, id);
        last_random = id;
      }
      Ints writes;
      for (int k : node.mutates) AddOnce(writes, MemoryOf(id, k));
      for (int m : nodes_[id].reads) {
        if (!written[m]) continue;
        if (writer.contains(m)) AddEdge(writer[m], id);
        if (std::find(writes.begin(), writes.end(), m) == writes.end()) {
          since[m].push_back(id);
          continue;
        }
        for (int reader : since[m]) AddEdge(reader, id);
        since[m].clear();
        writer[m] = id;
      }
    }
  }
  int MemoryOf(int id, int input) const {
    const GraphEntry e = graph_.nodes[id].inputs[input];
    return memory_of_[e.node][e.index];
  }

  // What a node does to the bytes alive, if it runs next. An output may take the memory
  // of an input that ends.
  Change ChangeOf(int id, const std::vector<int>& uses) const {
    const Node& node = nodes_[id];
    int64_t made = 0, kept = 0, freed = 0, taken = 0;
    for (int m : node.makes) {
      made += bytes_[m];
      if (uses_[m] > 0) kept += bytes_[m];
    }
    for (int m : node.reads) {
      if (uses[m] != 1) continue;
      freed += bytes_[m];
      if (taken == 0 && MayTake(id, m)) taken = bytes_[m];
    }
    return {made - taken, kept - freed};
  }
  bool MayTake(int id, int memory) const {
    const GraphNode& node = graph_.nodes[id];
    if (node.outputs.empty() || nodes_[id].makes.empty() ||
        bytes_[nodes_[id].makes[0]] != bytes_[memory])
      return false;
    if (node.op == &FusedOp()) return true;
    for (int i = 0; i < static_cast<int>(node.inputs.size()); ++i)
      if (MemoryOf(id, i) == memory && node.op->InPlace(i, 0)) return true;
    return false;
  }

  // For each node those before it, in the order in which they should run.
  void FindChildren(std::vector<std::vector<int>>& children) const {
    std::vector<int64_t> need(nodes_.size(), 0), left(nodes_.size(), 0);
    for (size_t id = 0; id < nodes_.size(); ++id) {
      for (int m : nodes_[id].makes) left[id] += bytes_[m];
      std::vector<int>& from = children[id];
      from.assign(nodes_[id].before.begin(), nodes_[id].before.end());
      std::stable_sort(from.begin(), from.end(), [&](int a, int b) {
        return need[a] - left[a] > need[b] - left[b];
      });
      int64_t held = 0;
      for (int child : from) {
        need[id] = std::max(need[id], held + need[child]);
        held += left[child];
      }
      need[id] = std::max(need[id], held + left[id]);
    }
  }

  const Graph& graph_;
  std::vector<Node> nodes_;
  std::vector<SmallVector<int, 1>> memory_of_;  // by value
  std::vector<int64_t> bytes_;                  // by memory
  std::vector<int> uses_;                       // the same: nodes that read it
  std::vector<int> part_of_;
  std::vector<std::vector<int>> parts_;
};

std::vector<int> OldOrder(const Graph& graph) {
  std::vector<int> order(graph.size());
  std::iota(order.begin(), order.end(), 0);
  return order;
}

}  // namespace

std::optional<Graph> Reorder(const Graph& graph) {
  if (graph.size() > kMostNodes) return {};
  const Orders orders(graph);
  const int64_t peak = orders.Peak(OldOrder(graph));
  int64_t best = peak * kGain / 100;
  std::optional<Graph> result;
  for (const std::vector<int>& order : {orders.Greedy(), orders.DepthFirst()}) {
    const int64_t other = orders.Peak(order);
    if (order.size() != graph.size() || other > best) continue;
    best = other;
    result = orders.Apply(order);
  }
  return result;
}

int64_t EstimatePeak(const Graph& graph) {
  return Orders(graph).Peak(OldOrder(graph));
}

}  // namespace plait
