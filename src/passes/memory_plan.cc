// Pass memory plan: storages, their lifetimes, and offsets.

#include "passes/memory_plan.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>

#include "graph/fused.h"

namespace plait {
namespace {

constexpr int64_t kAlignment = 64;
constexpr int kForever = std::numeric_limits<int>::max();
// Above so many storages the quadratic placement is left out.
constexpr size_t kManyStorages = 6000;

int64_t Aligned(int64_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

// Memory for one value, or for several that take it over from each other.
struct Storage {
  ValuePlace place;
  int64_t bytes = 0;
  int first = 0, last = 0;  // positions in the order; both inclusive
  bool fixed = false;       // an input's: nobody may write it
  bool backward = false;    // all of it belongs to the backward part
};

class Planner {
 public:
  Planner(const Graph& graph, PlanStrategy strategy, const PlanRequest& request)
      : graph_(graph),
        inplace_(strategy == PlanStrategy::kInplace || strategy == PlanStrategy::kBoth),
        share_(strategy == PlanStrategy::kCoShare || strategy == PlanStrategy::kBoth),
        input_of_output_(request.input_of_output),
        workspaces_(request.workspaces) {}

  MemoryPlan Run() {
    FindLastUses();
    NumberOutputs();
    AssignStorages();
    const size_t first_workspace = storages_.size();
    AddWorkspaces();
    MemoryPlan plan;
    for (int64_t bytes : LiveSets()) plan.live_bytes = std::max(plan.live_bytes, bytes);
    plan.arena_bytes = share_ ? Share() : OneAfterTheOther();
    plan.places.resize(graph_.size());
    for (size_t id = 0; id < graph_.size(); ++id) {
      for (int storage : storage_of_[id])
        plan.places[id].push_back(storage < 0 ? ValuePlace()
                                              : storages_[storage].place);
    }
    size_t next = first_workspace;
    for (int64_t bytes : workspaces_) {
      plan.workspace_offsets.push_back(bytes > 0 ? storages_[next++].place.offset : 0);
    }
    for (int k : copied_) {
      const GraphEntry e = graph_.outputs[k];
      plan.copies.push_back({k, plan.places[e.node][e.index]});
    }
    return plan;
  }

  std::vector<int64_t> Live() {
    FindLastUses();
    NumberOutputs();
    AssignStorages();
    AddWorkspaces();
    return LiveSets();
  }

 private:
  void FindLastUses() {
    last_use_.resize(graph_.size());
    for (size_t id = 0; id < graph_.size(); ++id) {
      last_use_[id].resize(graph_.nodes[id].outputs.size());
      for (int& last : last_use_[id]) last = static_cast<int>(id);
      for (GraphEntry e : graph_.nodes[id].inputs)
        last_use_[e.node][e.index] = static_cast<int>(id);
    }
    for (GraphEntry e : graph_.outputs) last_use_[e.node][e.index] = kForever;
  }

  // Which output a value is written to; a second output of the same value is copied.
  void NumberOutputs() {
    output_of_.resize(graph_.size());
    for (size_t id = 0; id < graph_.size(); ++id) {
      output_of_[id].resize(graph_.nodes[id].outputs.size());
      for (int& k : output_of_[id]) k = -1;
    }
    for (size_t k = 0; k < graph_.outputs.size(); ++k) {
      const GraphEntry e = graph_.outputs[k];
      int& owner = output_of_[e.node][e.index];
      if (owner < 0 && !graph_.nodes[e.node].is_input()) {
        owner = static_cast<int>(k);
      } else {
        copied_.push_back(static_cast<int>(k));
      }
    }
  }

  void AssignStorages() {
    storage_of_.resize(graph_.size());
    int next_input = 0;
    std::vector<int> number_of_input(graph_.size(), -1);
    for (int id : graph_.inputs) number_of_input[id] = next_input++;
    for (size_t id = 0; id < graph_.size(); ++id) {
      const GraphNode& node = graph_.nodes[id];
      storage_of_[id].resize(node.outputs.size());
      for (int& s : storage_of_[id]) s = -1;
      if (node.is_input()) {
        Storage s;
        s.place = {ValuePlace::kInput, number_of_input[id], 0};
        s.last = kForever;
        s.fixed = true;
        storage_of_[id][0] = Add(s);
        continue;
      }
      for (int o = 0; o < static_cast<int>(node.outputs.size()); ++o)
        AssignOutput(static_cast<int>(id), o);
    }
  }

  void AssignOutput(int id, int o) {
    const GraphNode& node = graph_.nodes[id];
    const int output = output_of_[id][o];
    if (output < 0 && node.op->view && o == 0) {
      // The input's memory, whatever it is.
      const int s = StorageOf(node.inputs[0]);
      storage_of_[id][o] = s;
      storages_[s].last = std::max(storages_[s].last, last_use_[id][o]);
      return;
    }
    const bool own = output >= 0 &&
                     output < static_cast<int>(input_of_output_.size()) &&
                     input_of_output_[output] >= 0;
    if (inplace_ && !own) {
      const int s = InplaceStorage(id, o);
      if (s >= 0) {
        storage_of_[id][o] = s;
        storages_[s].last = last_use_[id][o];
        if (output >= 0) storages_[s].place = {ValuePlace::kOutput, output, 0};
        return;
      }
    }
    Storage s;
    s.place.kind = ValuePlace::kArena;
    s.bytes = Aligned(graph_.Bytes({id, o}));
    s.first = id;
    s.last = last_use_[id][o];
    s.backward = node.backward;
    if (output >= 0) s.place = {ValuePlace::kOutput, output, 0};
    storage_of_[id][o] = Add(s);
  }

  // A storage of an input that ends here and may be overwritten by the output, or -1.
  int InplaceStorage(int id, int o) const {
    const GraphNode& node = graph_.nodes[id];
    const bool fused = node.op == &FusedOp();
    // A reduced value comes into being when its elements have been read.
    if (fused && o + 1 == static_cast<int>(node.outputs.size()) &&
        static_cast<const FusedParams*>(node.params->get())->reduction)
      return -1;
    for (int i = 0; i < static_cast<int>(node.inputs.size()); ++i) {
      const GraphEntry e = node.inputs[i];
      const Spec &from = graph_.spec(e), &to = node.outputs[o];
      if (fused ? !(from.shape == to.shape) || SizeOf(from.dtype) != SizeOf(to.dtype)
                : !node.op->InPlace(i, o) || graph_.Bytes(e) != graph_.Bytes({id, o}) ||
                      from.dtype != to.dtype)
        continue;
      const int s = StorageOf(e);
      if (storages_[s].fixed || storages_[s].last != id ||
          storages_[s].place.kind != ValuePlace::kArena)
        continue;
      // An output is not touched before its own part runs.
      if (output_of_[id][o] >= 0 && storages_[s].backward != node.backward) continue;
      if (SharedAtThisNode(id, i, o, s)) continue;
      return s;
    }
    return -1;
  }

  // Whether another input or output of the node lies in the storage too.
  bool SharedAtThisNode(int id, int i, int o, int s) const {
    const GraphNode& node = graph_.nodes[id];
    for (int k = 0; k < static_cast<int>(node.inputs.size()); ++k) {
      if (k == i || StorageOf(node.inputs[k]) != s) continue;
      // The same value in the same form is the same memory, element by element.
      if (node.op == &FusedOp() &&
          graph_.spec(node.inputs[k]).shape == graph_.spec(node.inputs[i]).shape)
        continue;
      return true;
    }
    for (int k = 0; k < o; ++k) {
      if (storage_of_[id][k] == s) return true;
    }
    return false;
  }

  void AddWorkspaces() {
    for (size_t id = 0; id < workspaces_.size(); ++id) {
      if (workspaces_[id] <= 0) continue;
      Storage s;
      s.place.kind = ValuePlace::kArena;
      s.bytes = Aligned(workspaces_[id]);
      s.first = s.last = static_cast<int>(id);
      Add(s);
    }
  }

  int StorageOf(GraphEntry e) const { return storage_of_[e.node][e.index]; }
  int Add(const Storage& s) {
    storages_.push_back(s);
    return static_cast<int>(storages_.size()) - 1;
  }

  bool InArena(const Storage& s) const {
    return s.place.kind == ValuePlace::kArena && s.bytes > 0;
  }

  std::vector<int64_t> LiveSets() const {
    std::vector<int64_t> change(graph_.size() + 1, 0);
    for (const Storage& s : storages_) {
      if (!InArena(s)) continue;
      change[s.first] += s.bytes;
      change[std::min<size_t>(static_cast<size_t>(s.last) + 1, graph_.size())] -=
          s.bytes;
    }
    change.pop_back();
    std::partial_sum(change.begin(), change.end(), change.begin());
    return change;
  }

  int64_t OneAfterTheOther() {
    int64_t at = 0;
    for (Storage& s : storages_) {
      if (!InArena(s)) continue;
      s.place.offset = at;
      at += s.bytes;
    }
    return at;
  }

  // The better of two placements.
  int64_t Share() {
    const int64_t in_time = PlaceInTime();
    if (storages_.size() > kManyStorages) return in_time;
    std::vector<int64_t> offsets;
    for (const Storage& s : storages_) offsets.push_back(s.place.offset);
    const int64_t by_size = PlaceBySize();
    if (by_size <= in_time) return by_size;
    for (size_t i = 0; i < storages_.size(); ++i)
      storages_[i].place.offset = offsets[i];
    return in_time;
  }

  // Walks through time with a list of free intervals; takes the smallest that fits.
  int64_t PlaceInTime() {
    std::vector<int> order;
    for (size_t i = 0; i < storages_.size(); ++i)
      if (InArena(storages_[i])) order.push_back(static_cast<int>(i));
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
      return storages_[a].first < storages_[b].first;
    });
    std::map<int64_t, int64_t> free;  // offset -> bytes
    std::multimap<int, int> ending;   // last -> storage
    int64_t end = 0;
    const auto release = [&](int64_t offset, int64_t bytes) {
      auto it = free.emplace(offset, bytes).first;
      const auto next = std::next(it);
      if (next != free.end() && it->first + it->second == next->first) {
        it->second += next->second;
        free.erase(next);
      }
      if (it != free.begin()) {
        const auto before = std::prev(it);
        if (before->first + before->second == it->first) {
          before->second += it->second;
          free.erase(it);
        }
      }
    };
    for (int i : order) {
      Storage& s = storages_[i];
      while (!ending.empty() && ending.begin()->first < s.first) {
        const Storage& gone = storages_[ending.begin()->second];
        release(gone.place.offset, gone.bytes);
        ending.erase(ending.begin());
      }
      auto best = free.end();
      for (auto it = free.begin(); it != free.end(); ++it) {
        if (it->second >= s.bytes && (best == free.end() || it->second < best->second))
          best = it;
      }
      if (best != free.end()) {
        s.place.offset = best->first;
        const int64_t rest = best->second - s.bytes;
        free.erase(best);
        if (rest > 0) free.emplace(s.place.offset + s.bytes, rest);
      } else {
        // Grow the last interval, if it is free.
        int64_t at = end;
        if (!free.empty() && free.rbegin()->first + free.rbegin()->second == end) {
          at = free.rbegin()->first;
          free.erase(std::prev(free.end()));
        }
        s.place.offset = at;
        end = at + s.bytes;
      }
      ending.emplace(s.last, i);
    }
    return end;
  }

  // Largest first, each at the lowest place that is free during its whole life.
  int64_t PlaceBySize() {
    std::vector<int> order;
    for (size_t i = 0; i < storages_.size(); ++i)
      if (InArena(storages_[i])) order.push_back(static_cast<int>(i));
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
      return storages_[a].bytes > storages_[b].bytes;
    });
    std::vector<int> placed;  // by offset
    int64_t end = 0;
    for (int i : order) {
      Storage& s = storages_[i];
      int64_t at = 0;
      for (int p : placed) {
        const Storage& other = storages_[p];
        if (other.last < s.first || s.last < other.first) continue;
        if (other.place.offset >= at + s.bytes) break;
        at = std::max(at, other.place.offset + other.bytes);
      }
      s.place.offset = at;
      end = std::max(end, at + s.bytes);
      placed.insert(std::upper_bound(placed.begin(), placed.end(), i,
                                     [&](int a, int b) {
                                       return storages_[a].place.offset <
                                              storages_[b].place.offset;
                                     }),
                    i);
    }
    return end;
  }

  const Graph& graph_;
  const bool inplace_, share_;
  const std::vector<int>& input_of_output_;
  const std::vector<int64_t>& workspaces_;
  std::vector<SmallVector<int, 1>> last_use_, output_of_, storage_of_;
  std::vector<Storage> storages_;
  std::vector<int> copied_;
};

}  // namespace

MemoryPlan PlanMemory(const Graph& graph, const PlanRequest& request) {
  MemoryPlan plan = Planner(graph, request.strategy, request).Run();
  if (request.strategy != PlanStrategy::kBoth || graph.size() > kManyStorages)
    return plan;
  // Taking memory over ties values together, which now and then costs more than it
  // saves.
  MemoryPlan shared = Planner(graph, PlanStrategy::kCoShare, request).Run();
  shared.live_bytes = std::min(shared.live_bytes, plan.live_bytes);
  return shared.arena_bytes < plan.arena_bytes ? shared : plan;
}

std::vector<int64_t> LiveBytes(const Graph& graph, const PlanRequest& request) {
  return Planner(graph, request.strategy, request).Live();
}

}  // namespace plait
