// CompiledGraph: the passes in order, and the list of steps they lead to.

#include "run/compiled_graph.h"

#include <algorithm>
#include <iostream>
#include <optional>
#include <utility>

#include "base/options.h"
#include "cpu/blocked.h"
#include "passes/blocked.h"
#include "passes/blocked_epilogue.h"
#include "passes/blocked_join.h"
#include "passes/casts.h"
#include "passes/epilogue.h"
#include "passes/fold_batch_norm.h"
#include "passes/fuse.h"
#include "passes/hoist.h"
#include "passes/order.h"
#include "passes/parameters.h"
#include "passes/pieces.h"
#include "passes/pool_index.h"
#include "passes/recompute.h"
#include "passes/simplify.h"
#include "run/in_pieces.h"
#include "run/push.h"

namespace plait {
namespace {

void AddOnce(std::vector<int>& list, int item) {
  if (std::find(list.begin(), list.end(), item) == list.end()) list.push_back(item);
}

// PLAIT_DUMP=passes prints the graph after each pass.
void DumpAfter(const char* pass, const Graph& graph) {
  static const bool dump = GetOption(Option::kDump) == "passes";
  if (dump) std::cerr << "plait: after " << pass << '\n' << Dump(graph);
}

// What nodes write depends on the mode.
void SetMutations(Graph& graph, bool training) {
  for (GraphNode& node : graph.nodes) {
    if (node.is_input()) continue;
    node.mutates.clear();
    for (int i = 0; i < static_cast<int>(node.inputs.size()); ++i) {
      if (node.op->Writes(*node.params, i, training)) node.mutates.push_back(i);
    }
  }
}

bool HasBackward(const Graph& graph) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(),
                     [](const GraphNode& node) { return node.backward; });
}

// Leaves the rest in `graph`. Null where there is nothing to hoist.
Ref<Prologue> HoistInto(Graph& graph, const std::vector<bool>& parameters,
                        const CompileOptions& options) {
  Hoisted hoisted = Hoist(graph, parameters);
  if (hoisted.prologue.outputs.empty()) return nullptr;
  CompileOptions own;
  own.disabled = options.disabled;
  DumpAfter("hoist: prologue", hoisted.prologue);
  graph = std::move(hoisted.graph);
  return options.prologues->Get(hoisted.prologue, hoisted.sources, [&] {
    return CompiledGraph::Compile(hoisted.prologue, own);
  });
}

// Takes another order of the nodes where the plan of it is smaller.
void UseBetterOrder(Graph& graph, const CompileOptions& options) {
  std::optional<Graph> other = Reorder(graph);
  if (!other) return;
  const PlanRequest request{options.strategy, options.input_of_output, {}};
  if (PlanMemory(*other, request).arena_bytes < PlanMemory(graph, request).arena_bytes)
    graph = *std::move(other);
}

}  // namespace

Ref<const CompiledGraph> CompiledGraph::Compile(Graph graph,
                                                const CompileOptions& options) {
  static const std::string disabled = ',' + GetOption(Option::kDisable) + ',';
  const auto enabled = [&](const std::string& pass) {
    return std::find(options.disabled.begin(), options.disabled.end(), pass) ==
               options.disabled.end() &&
           disabled.find(',' + pass + ',') == std::string::npos;
  };
  SetMutations(graph, options.training);
  DumpAfter("infer", graph);
  graph = plait::Prune(graph);
  DumpAfter("prune", graph);
  if (enabled("identity")) {
    graph = RemoveIdentities(graph);
    DumpAfter("identity", graph);
  }
  if (enabled("casts")) {
    graph = plait::Prune(SimplifyCasts(graph));
    DumpAfter("casts", graph);
  }
  if (enabled("cse")) {
    graph = plait::Prune(MergeEqual(graph));
    DumpAfter("cse", graph);
  }
  const bool hoists = options.prologues != nullptr && enabled("hoist") &&
                      !options.training && !HasBackward(graph);
  const std::vector<bool> parameters =
      hoists ? ParameterInputs(graph) : std::vector<bool>(graph.inputs.size(), false);
  if (enabled("fold_bn")) {
    graph = plait::Prune(
        FoldBatchNorms(graph, options.training, FromParameters(graph, parameters)));
    DumpAfter("fold_bn", graph);
  }
  if (enabled("pool_index")) {
    graph = NotePoolIndices(graph);
    DumpAfter("pool_index", graph);
  }
  if (enabled("recompute")) {
    static const int64_t budget = GetOptionInt(Option::kRecompute);
    graph = Recompute(graph, options.budget >= 0 ? options.budget : budget);
    DumpAfter("recompute", graph);
  }
  if (enabled("epilogue")) {
    graph = plait::Prune(JoinEpilogues(graph));
    DumpAfter("epilogue", graph);
  }
  if (enabled("blocked")) {
    graph = plait::Prune(UseBlocks(graph, cpu::ChannelBlock(), hoists));
    DumpAfter("blocked", graph);
    if (enabled("epilogue")) {
      graph = plait::Prune(JoinBlockedEpilogues(graph));
      DumpAfter("blocked_epilogue", graph);
    }
    if (enabled("join")) {
      graph = plait::Prune(JoinBlocked(graph));
      DumpAfter("join", graph);
    }
  }
  Ref<Prologue> prologue;
  if (hoists) {
    prologue = HoistInto(graph, parameters, options);
    DumpAfter("hoist", graph);
  }
  graph = Fuse(graph, enabled("fuse"));
  DumpAfter("fuse", graph);
  if (enabled("order")) {
    UseBetterOrder(graph, options);
    DumpAfter("order", graph);
  }
  if (enabled("pieces") && options.strategy == PlanStrategy::kBoth) {
    CompileOptions own;
    own.training = options.training;
    graph = UsePieces(
        std::move(graph),
        {{options.strategy, options.input_of_output, {}}, options.worth_pieces},
        [&](Pieces pieces) {
          DumpAfter("pieces: part", pieces.part);
          Ref<const CompiledGraph> part(
              new CompiledGraph(pieces.part, own, nullptr, {}));
          return MakeInPieces(std::move(pieces), std::move(part));
        });
    DumpAfter("pieces", graph);
  }
  return Ref<const CompiledGraph>(
      new CompiledGraph(std::move(graph), options, std::move(prologue), {}));
}

CompiledGraph::CompiledGraph(Graph graph, const CompileOptions& options,
                             Ref<Prologue> prologue, std::vector<int64_t> workspaces)
    : options_(options),
      graph_(std::move(graph)),
      prologue_(std::move(prologue)),
      workspaces_(std::move(workspaces)),
      plan_(
          PlanMemory(graph_, {options.strategy, options.input_of_output, workspaces_})),
      needed_(graph_.size()) {
  MakeSteps();
}

void CompiledGraph::NoteWorkspace(const Step& step, size_t bytes) const {
  const int64_t now = static_cast<int64_t>(bytes);
  std::atomic<int64_t>& known = needed_[step.node];
  if (now > known.load(std::memory_order_relaxed))
    known.store(now, std::memory_order_relaxed);
  if (now > most_needed_.load(std::memory_order_relaxed))
    most_needed_.store(now, std::memory_order_relaxed);
}

// A run is over with the last segment of its last part.
void CompiledGraph::NoteRun(const Segment& segment) const {
  const Part& last = parts_[parts_[1].segments.empty() ? 0 : 1];
  if (&segment == &last.segments.back()) runs_.fetch_add(1, std::memory_order_release);
}

Ref<const CompiledGraph> CompiledGraph::Replanned() const {
  constexpr int64_t kWorthPlanning = 4 << 20;
  if (!workspaces_.empty() || runs_.load(std::memory_order_acquire) == 0 ||
      most_needed_.load(std::memory_order_relaxed) < kWorthPlanning ||
      replanned_.exchange(true))
    return nullptr;
  std::vector<int64_t> workspaces;
  for (const auto& bytes : needed_)
    workspaces.push_back(bytes.load(std::memory_order_relaxed));
  return Ref<const CompiledGraph>(
      new CompiledGraph(graph_, options_, prologue_, std::move(workspaces)));
}

double CompiledGraph::ForwardCost() const {
  double cost = 0;
  for (const Segment& segment : parts_[0].segments) cost += segment.cost;
  return cost;
}

int CompiledGraph::BaseOf(const ValuePlace& place) const {
  switch (place.kind) {
    case ValuePlace::kInput:
      return InputBase(place.index);
    case ValuePlace::kOutput:
      return OutputBase(place.index);
    default:
      return 0;
  }
}

void CompiledGraph::MakeSteps() {
  for (size_t id = 0; id < graph_.size(); ++id) {
    const GraphNode& node = graph_.nodes[id];
    if (!node.is_input())
      MakeStep(node, static_cast<int>(id), parts_[node.backward ? 1 : 0]);
  }
  for (const auto& [k, place] : plan_.copies) {
    const GraphEntry e = graph_.outputs[k];
    Part& part = parts_[graph_.nodes[e.node].backward ? 1 : 0];
    if (part.segments.empty()) part.segments.emplace_back();
    Segment& segment = part.segments.back();
    const int from = BaseOf(place), to = OutputBase(k);
    segment.copies.push_back({from, to, place.offset, graph_.Bytes(e)});
    AddOnce(segment.reads, from);
    AddOnce(segment.writes, to);
  }
  if (!prologue_) return;
  for (Segment& segment : parts_[0].segments) ReadSources(segment);
}

// What a segment reads of the prologue's values, it reads of the parameters.
void CompiledGraph::ReadSources(Segment& segment) const {
  const auto is_kept = [&](int base) {
    return base >= InputBase(FirstKept()) && base < OutputBase(0);
  };
  segment.uses_kept = std::erase_if(segment.reads, is_kept) > 0;
  if (!segment.uses_kept) return;
  for (int source : prologue_->sources()) AddOnce(segment.reads, InputBase(source));
}

// In training others may wait for a segment's gradients, or it for weights that others
// still change: a segment that is long enough ends when it has written outputs, and
// before a step that needs an input which it does not need itself.
bool CompiledGraph::EndsBefore(const Segment& segment, const std::vector<int>& reads,
                               bool backward) const {
  constexpr double kLongEnough = 500000;  // nanoseconds
  if (segment.cost < kLongEnough) return false;
  const auto is_output = [&](int base) { return base >= OutputBase(0); };
  if (backward)
    return std::any_of(segment.writes.begin(), segment.writes.end(), is_output);
  if (!training()) return false;
  return std::any_of(reads.begin(), reads.end(), [&](int base) {
    return base > 0 && !is_output(base) &&
           std::find(segment.reads.begin(), segment.reads.end(), base) ==
               segment.reads.end();
  });
}

void CompiledGraph::MakeStep(const GraphNode& node, int id, Part& part) {
  Specs in, out;
  for (GraphEntry e : node.inputs) in.push_back(graph_.spec(e));
  for (const Spec& spec : node.outputs) out.push_back(spec);
  Step step;
  step.op = node.op;
  step.params = node.params.get();
  step.name = node.name.c_str();
  step.slots = static_cast<int>(slots_.size());
  step.num_in = static_cast<int>(in.size());
  step.num_out = static_cast<int>(out.size());
  const auto add_slot = [&](GraphEntry e) {
    const ValuePlace& place = plan_.places[e.node][e.index];
    const Spec& spec = graph_.spec(e);
    slots_.push_back({BaseOf(place), place.offset, &spec.shape, spec.dtype});
    return slots_.back().base;
  };
  std::vector<int> reads, writes;
  for (int i = 0; i < step.num_in; ++i) {
    const int base = add_slot(node.inputs[i]);
    const bool written =
        std::find(node.mutates.begin(), node.mutates.end(), i) != node.mutates.end();
    (written ? writes : reads).push_back(base);
  }
  for (int o = 0; o < step.num_out; ++o) writes.push_back(add_slot({id, o}));
  // A view in its input's memory needs no work.
  if (node.op->view && step.num_in > 0 &&
      plan_.places[id][0].kind ==
          plan_.places[node.inputs[0].node][node.inputs[0].index].kind &&
      slots_[step.slots].base == slots_[step.slots + step.num_in].base &&
      slots_[step.slots].offset == slots_[step.slots + step.num_in].offset)
    return;
  try {
    step.kernel = &ChooseKernel(*node.op, *node.params, in, out);
  } catch (const Error& e) {
    Fail(e.kind(), e.what(), " (node ", node.name, ")");
  }
  step.cost = EstimateCost(*node.op, *node.params, in, out);
  const bool draws =
      node.op->random &&
      (!node.op->draws || node.op->draws(step.params->get(), training()));
  step.random = draws ? part.num_random++ : -1;
  step.node = id;
  if (!workspaces_.empty()) {
    step.workspace_offset = plan_.workspace_offsets[id];
    step.workspace_bytes = workspaces_[id];
  }
  const Lane lane = node.op->IsHost(*node.params) ? Lane::kCallback : Lane::kCompute;
  if (part.segments.empty() || part.segments.back().lane != lane ||
      EndsBefore(part.segments.back(), reads, node.backward)) {
    Segment segment;
    segment.first = segment.last = static_cast<int>(steps_.size());
    segment.lane = lane;
    part.segments.push_back(std::move(segment));
  }
  Segment& segment = part.segments.back();
  steps_.push_back(step);
  segment.last = static_cast<int>(steps_.size());
  segment.cost += step.cost;
  if (step.workspace_bytes > 0) AddOnce(segment.writes, 0);
  for (int base : reads) AddOnce(segment.reads, base);
  for (int base : writes) AddOnce(segment.writes, base);
}

}  // namespace plait
