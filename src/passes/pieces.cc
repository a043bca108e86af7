// Pass pieces: windows of nodes around the peak, and the graph with one of them in
// parts.

#include "passes/pieces.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "graph/piece_form.h"
#include "passes/rewriter.h"
#include "passes/simplify.h"

namespace plait {
namespace {

// How far a window reaches to either side of what is looked at.
constexpr int kReach = 7;
constexpr int kMostRounds = 8;
constexpr size_t kManyNodes = 4000;
// What may be computed twice, of all multiplications.
constexpr double kSpare = 0.025;

// Four parts, or the number next to it that divides the batch; 1: there is none.
int64_t CountOfParts(int64_t batch) {
  for (int64_t count : {4, 3, 2, 5, 6, 7, 8})
    if (batch % count == 0) return count;
  return 1;
}

double Multiplications(const Graph& graph, int id) {
  const GraphNode& node = graph.nodes[id];
  if (node.is_input() || !node.op->cost) return 0;
  Specs in, out;
  for (GraphEntry e : node.inputs) in.push_back(graph.spec(e));
  for (const Spec& spec : node.outputs) out.push_back(spec);
  return std::max(0.0, node.op->cost(node.params->get(), in, out));
}

// The inputs of the part, and its nodes.
class PartMaker {
 public:
  PartMaker(const Graph& graph, int64_t samples) : graph_(graph), samples_(samples) {}

  void Add(int id, const PieceForm& form) {
    GraphNode node = graph_.nodes[id];
    for (size_t i = 0; i < node.inputs.size(); ++i)
      node.inputs[i] = Entry(node.inputs[i], form.sliced_in >> i & 1);
    node.params = form.params;
    node.parsed = node.backward = node.recompute = false;
    for (size_t k = 0; k < node.outputs.size(); ++k)
      if (form.sliced_out >> k & 1) node.outputs[k].shape[0] = samples_;
    places_[id] = static_cast<int>(pieces.part.size());
    pieces.part.Add(std::move(node));
  }
  void AddOutput(GraphEntry e, bool sliced) {
    pieces.part.outputs.push_back({places_.at(e.node), e.index});
    pieces.sliced_out.push_back(sliced);
  }

  Pieces pieces;
  std::vector<GraphEntry> inputs;  // what the part's inputs are outside

 private:
  GraphEntry Entry(GraphEntry e, bool sliced) {
    const auto made = places_.find(e.node);
    if (sliced && made != places_.end()) return {made->second, e.index};
    const auto key = std::make_tuple(e.node, e.index, sliced);
    const auto known = inputs_.find(key);
    if (known != inputs_.end()) return {known->second, 0};
    GraphNode node;
    node.name = graph_.nodes[e.node].name;
    node.outputs.push_back(graph_.spec(e));
    if (sliced) node.outputs[0].shape[0] = samples_;
    const int place = static_cast<int>(pieces.part.size());
    pieces.part.Add(std::move(node));
    pieces.part.inputs.push_back(place);
    pieces.sliced_in.push_back(sliced);
    inputs.push_back(e);
    inputs_[key] = place;
    return {place, 0};
  }

  const Graph& graph_;
  const int64_t samples_;
  std::map<int, int> places_;
  std::map<std::tuple<int, int, bool>, int> inputs_;
};

// Nodes that run in parts, and forward nodes that are computed again before them.
struct Region {
  enum State : uint8_t { kOutside, kInside, kBehind };
  int first = 0, last = 0;    // the window
  std::vector<State> states;  // by node of the window; kBehind: reads what is inside
  std::vector<int> again;
  bool operator<(const Region& other) const {
    return std::tie(first, last, states, again) <
           std::tie(other.first, other.last, other.states, other.again);
  }
};

struct Candidate {
  Graph graph;
  Pieces pieces;
  int place = -1;  // of the node
  double again = 0;
  // Bytes alive at most; near the window; then as few nodes as possible.
  std::tuple<int64_t, int64_t, size_t> score;
};

class PiecesPass {
 public:
  PiecesPass(const Graph& graph, const PiecesRequest& request, double spare)
      : graph_(graph), request_(request), spare_(spare) {}

  std::optional<Candidate> Best() {
    if (!FindForms()) return {};
    FindReaders();
    const std::vector<int64_t> live = LiveBytes(graph_, request_.plan);
    std::optional<Candidate> best;
    for (int anchor : Anchors(live)) {
      for (int first = std::max(0, anchor - kReach); first <= anchor; ++first) {
        for (int last = anchor; last <= anchor + kReach && last < Size(); ++last)
          Try(anchor, first, last, best);
      }
    }
    return best;
  }

 private:
  int Size() const { return static_cast<int>(graph_.size()); }

  // ------------------------------------------------------------ facts

  // The batch is that of the largest value that could be made in parts.
  bool FindForms() {
    int64_t largest = 0, batch = 0;
    for (int id = 0; id < Size(); ++id) {
      const GraphNode& node = graph_.nodes[id];
      if (node.is_input() || PieceRuleOf(*node.op) == nullptr) continue;
      for (int k = 0; k < static_cast<int>(node.outputs.size()); ++k) {
        const int64_t bytes = graph_.Bytes({id, k});
        if (bytes <= largest || node.outputs[k].shape.rank() < 2) continue;
        largest = bytes;
        batch = node.outputs[k].shape[0];
      }
    }
    if (largest < request_.worth) return false;
    count_ = CountOfParts(batch);
    if (count_ == 1) return false;
    batch_ = batch;
    forms_.resize(graph_.size());
    for (int id = 0; id < Size(); ++id) forms_[id] = FormOf(id);
    return true;
  }

  std::optional<PieceForm> FormOf(int id) const {
    const GraphNode& node = graph_.nodes[id];
    if (node.is_input() || !node.mutates.empty() || node.op->random ||
        node.op->IsHost(*node.params))
      return {};
    const PieceRule* rule = PieceRuleOf(*node.op);
    if (rule == nullptr) return {};
    Specs in, out;
    for (GraphEntry e : node.inputs) in.push_back(graph_.spec(e));
    for (const Spec& spec : node.outputs) out.push_back(spec);
    const auto has_batch = [&](const Spec& spec) {
      return spec.shape.rank() > 0 && spec.shape[0] == batch_;
    };
    std::optional<PieceForm> form = (*rule)(node.params, in, out, batch_ / count_);
    if (!form || form->sliced_in == 0) return {};
    for (size_t i = 0; i < in.size(); ++i)
      if ((form->sliced_in >> i & 1) && !has_batch(in[i])) return {};
    for (size_t k = 0; k < out.size(); ++k)
      if ((form->sliced_out >> k & 1) && !has_batch(out[k])) return {};
    return form;
  }

  void FindReaders() {
    readers_.resize(graph_.size());
    is_output_.resize(graph_.size());
    for (int id = 0; id < Size(); ++id) {
      readers_[id].resize(graph_.nodes[id].outputs.size());
      is_output_[id].resize(graph_.nodes[id].outputs.size(), false);
      for (GraphEntry e : graph_.nodes[id].inputs)
        readers_[e.node][e.index].push_back(id);
    }
    for (GraphEntry e : graph_.outputs) is_output_[e.node][e.index] = true;
  }

  // Where memory peaks, and who reads in the backward part what fills it.
  std::vector<int> Anchors(const std::vector<int64_t>& live) const {
    constexpr size_t kLargest = 3;
    const int peak =
        static_cast<int>(std::max_element(live.begin(), live.end()) - live.begin());
    std::vector<std::pair<int64_t, int>> kept;  // bytes, the first backward reader
    for (int id = 0; id <= peak; ++id) {
      if (graph_.nodes[id].is_input() || graph_.nodes[id].backward) continue;
      for (size_t k = 0; k < readers_[id].size(); ++k) {
        const auto reader =
            std::find_if(readers_[id][k].begin(), readers_[id][k].end(),
                         [&](int r) { return graph_.nodes[r].backward; });
        if (reader == readers_[id][k].end() || readers_[id][k].back() < peak) continue;
        kept.push_back({-graph_.Bytes({id, static_cast<int>(k)}), *reader});
      }
    }
    std::sort(kept.begin(), kept.end());
    std::vector<int> anchors{peak};
    for (size_t i = 0; i < kept.size() && i < kLargest; ++i)
      anchors.push_back(kept[i].second);
    return anchors;
  }

  // ------------------------------------------------------------ regions

  void Try(int anchor, int first, int last, std::optional<Candidate>& best) {
    for (bool again : {false, true}) {
      const std::optional<Region> region = RegionOf(first, last, again);
      if (!region || !seen_.insert(*region).second) continue;
      Candidate made = Make(*region);
      const std::vector<int64_t> live = LiveBytes(made.graph, request_.plan);
      const size_t behind =
          graph_.size() - static_cast<size_t>(std::min(anchor + kReach + 1, Size()));
      const auto near = live.begin() + std::max(0, anchor - kReach);
      made.score = {*std::max_element(live.begin(), live.end()),
                    *std::max_element(near, live.end() - static_cast<int64_t>(behind)),
                    made.pieces.part.size()};
      if (!best || made.score < best->score) best = std::move(made);
    }
  }

  std::optional<Region> RegionOf(int first, int last, bool again) const {
    if (!forms_[first] || !forms_[last] || first == last) return {};
    const bool backward = graph_.nodes[first].backward;
    Region region{first, last, {}, {}};
    for (int id = first; id <= last; ++id) {
      const GraphNode& node = graph_.nodes[id];
      if (!node.is_input() && (node.backward != backward || !node.mutates.empty() ||
                               node.op->random || node.op->IsHost(*node.params)))
        return {};
      region.states.push_back(StateOf(id, region));
    }
    if (region.states.front() != Region::kInside ||
        region.states.back() != Region::kInside)
      return {};
    if (again && backward) region.again = Again(region);
    if (again && region.again.empty()) return {};
    return region;
  }

  // All values between nodes inside have the batch: a sum is whole only at the end.
  Region::State StateOf(int id, const Region& region) const {
    bool fits = forms_[id].has_value(), reads = false;
    for (size_t i = 0; i < graph_.nodes[id].inputs.size(); ++i) {
      const GraphEntry e = graph_.nodes[id].inputs[i];
      if (e.node < region.first) continue;
      const Region::State from = region.states[e.node - region.first];
      if (from == Region::kOutside) continue;
      reads = true;
      fits = fits && from == Region::kInside && (forms_[id]->sliced_in >> i & 1) &&
             (forms_[e.node]->sliced_out >> e.index & 1);
    }
    return fits ? Region::kInside : reads ? Region::kBehind : Region::kOutside;
  }
  bool IsInside(const Region& region, int id) const {
    return id >= region.first && id <= region.last &&
           region.states[id - region.first] == Region::kInside;
  }

  // Large forward values that the backward part needs here alone, if they are cheap.
  std::vector<int> Again(const Region& region) const {
    std::set<int> found;
    double spare = spare_;
    for (int id = region.first; id <= region.last; ++id) {
      if (!IsInside(region, id)) continue;
      for (GraphEntry e : graph_.nodes[id].inputs) {
        if (found.contains(e.node) || !CanBeAgain(region, e)) continue;
        const double cost = Multiplications(graph_, e.node);
        if (cost > spare) continue;
        spare -= cost;
        found.insert(e.node);
      }
    }
    return {found.begin(), found.end()};
  }

  bool CanBeAgain(const Region& region, GraphEntry e) const {
    const GraphNode& node = graph_.nodes[e.node];
    if (node.is_input() || node.backward || !forms_[e.node] ||
        node.outputs.size() != 1 || forms_[e.node]->sliced_out != 1 ||
        is_output_[e.node][0] || graph_.Bytes(e) < request_.worth)
      return false;
    for (int reader : readers_[e.node][0]) {
      if (!graph_.nodes[reader].backward) continue;
      if (!IsInside(region, reader)) return false;
      const GraphNode& r = graph_.nodes[reader];
      for (size_t i = 0; i < r.inputs.size(); ++i)
        if (r.inputs[i] == e && !(forms_[reader]->sliced_in >> i & 1)) return false;
    }
    return true;
  }

  // ------------------------------------------------------------ rewriting

  Candidate Make(const Region& region) const {
    PartMaker maker(graph_, batch_ / count_);
    maker.pieces.count = count_;
    Candidate made;
    for (int id : region.again) {
      maker.Add(id, *forms_[id]);
      made.again += Multiplications(graph_, id);
    }
    for (int id = region.first; id <= region.last; ++id)
      if (IsInside(region, id)) maker.Add(id, *forms_[id]);

    Rewriter rewriter(graph_);
    for (int id = 0; id < region.first; ++id) rewriter.Keep(id);
    KeepOf(region, Region::kOutside, rewriter);
    GraphNode node;
    std::vector<std::pair<int, SmallVector<GraphEntry, 1>>> values;
    made.place = static_cast<int>(rewriter.to().size());
    for (int id = region.first; id <= region.last; ++id) {
      if (!IsInside(region, id)) continue;
      node.name += (node.name.empty() ? "" : "+") + graph_.nodes[id].name;
      SmallVector<GraphEntry, 1> places;
      for (int k = 0; k < static_cast<int>(graph_.nodes[id].outputs.size()); ++k) {
        places.push_back({made.place, -1});
        if (!IsReadOutside(region, {id, k})) continue;
        maker.AddOutput({id, k}, forms_[id]->sliced_out >> k & 1);
        places.back().index = static_cast<int>(node.outputs.size());
        node.outputs.push_back(graph_.spec({id, k}));
      }
      values.push_back({id, std::move(places)});
    }
    SetWorkBytes(maker.pieces, node);
    node.op = &GetOp("_in_pieces");
    node.backward = graph_.nodes[region.first].backward;
    node.group = graph_.nodes[region.first].group;
    for (GraphEntry e : maker.inputs) node.inputs.push_back(rewriter.Moved(e));
    rewriter.target()->Add(std::move(node));
    for (auto& [id, places] : values) rewriter.Replace(id, std::move(places));
    KeepOf(region, Region::kBehind, rewriter);
    for (int id = region.last + 1; id < Size(); ++id) rewriter.Keep(id);
    made.graph = rewriter.Finish();
    made.pieces = std::move(maker.pieces);
    return made;
  }

  static void KeepOf(const Region& region, Region::State state, Rewriter& rewriter) {
    for (int id = region.first; id <= region.last; ++id)
      if (region.states[id - region.first] == state) rewriter.Keep(id);
  }

  bool IsReadOutside(const Region& region, GraphEntry e) const {
    const std::vector<int>& readers = readers_[e.node][e.index];
    return is_output_[e.node][e.index] ||
           std::any_of(readers.begin(), readers.end(),
                       [&](int reader) { return !IsInside(region, reader); });
  }

  // The node's last output, alive for one step.
  static void SetWorkBytes(Pieces& pieces, GraphNode& node) {
    pieces.work_bytes = PlanMemory(pieces.part).arena_bytes;
    for (size_t k = 0; k < pieces.sliced_out.size(); ++k)
      if (!pieces.sliced_out[k])
        pieces.work_bytes += AlignedSum(pieces.part.Bytes(pieces.part.outputs[k]));
    node.outputs.push_back({Shape{pieces.work_bytes}, DType::kUint8});
  }

  const Graph& graph_;
  const PiecesRequest& request_;
  const double spare_;
  int64_t batch_ = 0, count_ = 1;
  std::vector<std::optional<PieceForm>> forms_;
  std::vector<SmallVector<std::vector<int>, 1>> readers_;
  std::vector<std::vector<bool>> is_output_;
  std::set<Region> seen_;
};

}  // namespace

int64_t AlignedSum(int64_t bytes) {
  constexpr int64_t kAlignment = 64;
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

Graph UsePieces(Graph graph, const PiecesRequest& request,
                const std::function<ParamsRef(Pieces)>& make) {
  const auto is_backward = [](const GraphNode& node) { return node.backward; };
  if (graph.size() > kManyNodes ||
      std::none_of(graph.nodes.begin(), graph.nodes.end(), is_backward))
    return graph;
  double spare = 0;
  for (size_t id = 0; id < graph.size(); ++id)
    spare += kSpare * Multiplications(graph, static_cast<int>(id));
  int64_t bytes = PlanMemory(graph, request.plan).arena_bytes, before = bytes;
  // Where several moments are nearly as bad, only some rounds together are worth it.
  Graph next = graph;
  for (int round = 0; round < kMostRounds && bytes > request.worth; ++round) {
    std::optional<Candidate> best = PiecesPass(next, request, spare).Best();
    if (!best) break;
    const int64_t now = PlanMemory(best->graph, request.plan).arena_bytes;
    if (now >= bytes) break;
    bytes = now;
    spare -= best->again;
    best->graph.nodes[best->place].params = make(std::move(best->pieces));
    next = Prune(best->graph);
    if (before - now < std::max(request.worth, before / 20)) continue;
    graph = next;
    before = now;
  }
  return graph;
}

}  // namespace plait
