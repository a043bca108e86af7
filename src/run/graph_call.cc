// GraphCall: one run of a compiled graph, pushed segment by segment.

#include <algorithm>
#include <cstring>
#include <functional>
#include <optional>
#include <utility>

#include "base/blocking.h"
#include "cpu/scratch.h"
#include "engine/callback_lane.h"
#include "run/compiled_graph.h"
#include "run/invoke.h"
#include "run/push.h"
#include "run/random.h"

namespace plait {
namespace {

using Vars = SmallVector<Var*, 8>;

void AddOnce(Vars& vars, Var* var) {
  if (std::find(vars.begin(), vars.end(), var) == vars.end()) vars.push_back(var);
}

constexpr size_t kFew = 32;  // Vars that are compared with each other

void MakeUnique(Vars& vars) {
  std::sort(vars.begin(), vars.end(), std::less<Var*>());
  const size_t n =
      static_cast<size_t>(std::unique(vars.begin(), vars.end()) - vars.begin());
  while (vars.size() > n) vars.pop_back();
}

}  // namespace

// A segment on its way through the engine. It keeps memory alive, not arrays.
class GraphOperation final : public Operation {
 public:
  Ref<const CompiledGraph> graph;
  const CompiledGraph::Segment* segment = nullptr;
  SmallVector<char*, 16> bases;
  SmallVector<RandomStream, 2> streams;
  SmallVector<Ref<Chunk>, 16> chunks;
  SmallVector<PrologueSource, 16> sources;
  struct Written {
    void* data;
    DType dtype;
    int64_t size;
  };
  SmallVector<Written, 4> written;

  // Where the prologue's values are goes into `bases`. REQUIRES: the sources' Vars are
  // held.
  static Ref<const KeptValues> Place(const CompiledGraph& graph,
                                     PrologueSources sources, std::span<char*> bases,
                                     Ref<const KeptValues> known = {}) {
    if (!known || !known->Matches(sources)) known = graph.prologue_->Get(sources);
    const int first = graph.InputBase(graph.FirstKept());
    for (size_t i = 0; i < known->values.size(); ++i)
      bases[first + static_cast<int>(i)] = static_cast<char*>(known->values[i].data());
    return known;
  }

  // All that is needed to run a segment. `inner`: within an operator, whose workspace
  // serves all steps.
  static void Run(const CompiledGraph& graph, const CompiledGraph::Segment& segment,
                  std::span<char* const> bases, std::span<const RandomStream> streams,
                  bool inner = false) {
    SmallVector<View, 16> views;
    for (int s = segment.first; s < segment.last; ++s) {
      const CompiledGraph::Step& step = graph.steps_[s];
      views.clear();
      for (int i = 0; i < step.num_in + step.num_out; ++i) {
        const CompiledGraph::Slot& slot = graph.slots_[step.slots + i];
        views.push_back({bases[slot.base] + slot.offset, slot.shape, slot.dtype});
      }
      const std::span<const View> all = views;
      KernelArgs args{all.subspan(0, step.num_in),
                      all.subspan(step.num_in),
                      {},
                      graph.training(),
                      {}};
      if (step.random >= 0) args.random = streams[step.random];
      const InlineTimer timer(step.op->name.c_str(), step.name);
      try {
        if (inner || step.cost < kWithoutWorkspace) {
          step.kernel->run(step.params->get(), args);
          continue;
        }
        cpu::Workspace workspace(bases[0] + step.workspace_offset,
                                 static_cast<size_t>(step.workspace_bytes));
        step.kernel->run(step.params->get(), args);
        graph.NoteWorkspace(step, workspace.most_used());
      } catch (...) {
        if (step.op->IsHost(*step.params)) throw;  // the host language's own
        std::rethrow_exception(
            Describe(std::current_exception(), step.op->name,
                     step.name[0] ? std::string("node ") + step.name : ""));
      }
    }
    for (const CompiledGraph::Copy& copy : segment.copies)
      std::memcpy(bases[copy.to], bases[copy.from] + copy.offset,
                  static_cast<size_t>(copy.bytes));
    graph.NoteRun(segment);
  }

  // Steps that are faster than this (in nanoseconds) are not watched.
  static constexpr double kWithoutWorkspace = 20000;

  void Run() override {
    if (IsCallback(lane)) HeldChunks() = chunks;
    try {
      Ref<const KeptValues> kept;
      if (segment->uses_kept) kept = Place(*graph, sources, bases);
      Run(*graph, *segment, bases, streams);
    } catch (...) {
      HeldChunks() = {};
      throw;
    }
    HeldChunks() = {};
  }
  void Abandon() noexcept override {
    for (const Written& w : written) FillFailed(w.data, w.dtype, w.size);
  }
  const char* name() const override { return "graph"; }
};

GraphCall::GraphCall(Ref<const CompiledGraph> graph)
    : inputs(graph->graph().inputs.size()),
      outputs(graph->graph().outputs.size()),
      graph_(std::move(graph)) {}

GraphCall GraphCall::Copy() const {
  GraphCall copy(*this);
  if (arena_) {
    copy.arena_ = NDArray::Empty(arena_.shape(), arena_.dtype());
    CopyInto(arena_, copy.arena_);
  }
  return copy;
}

const RandomStream* GraphCall::StreamOf(const std::string& node) const {
  for (const CompiledGraph::Segment& segment : graph_->parts_[kForward].segments) {
    for (int s = segment.first; s < segment.last; ++s) {
      const CompiledGraph::Step& step = graph_->steps_[s];
      if (step.random >= 0 && step.random < static_cast<int>(streams_.size()) &&
          node == step.name)
        return &streams_[step.random];
    }
  }
  return nullptr;
}

void GraphCall::RunHere(const CompiledGraph& graph, PartName part, char* arena,
                        std::span<char* const> inputs, std::span<char* const> outputs,
                        RandomStream random) {
  SmallVector<char*, 16> bases;
  bases.push_back(arena);
  for (char* x : inputs) bases.push_back(x);
  for (char* y : outputs) bases.push_back(y);
  SmallVector<RandomStream, 2> streams;
  for (int i = 0; i < graph.parts_[part].num_random; ++i)
    streams.push_back(SubStream(random, static_cast<uint64_t>(i)));
  for (const CompiledGraph::Segment& segment : graph.parts_[part].segments)
    GraphOperation::Run(graph, segment, bases, streams, true);
}

struct GraphCall::Ready {
  explicit Ready(const CompiledGraph::Segment& s, size_t bases_size)
      : segment(s), bases(bases_size) {
    for (char*& b : bases) b = nullptr;
  }

  const CompiledGraph::Segment& segment;
  SmallVector<char*, 16> bases;
  Vars reads, writes;
  SmallVector<PrologueSource, 16> sources;
  Ref<const KeptValues> kept;
  double cost = 0;  // in nanoseconds
  // The engine takes each Var once, however often it is named; the way past it wants
  // lists without repetitions. Only lists of few have none.
  bool few = true;
};

const NDArray& GraphCall::ArrayOf(int base) const {
  if (base == 0) return arena_;
  const int first_output = graph_->OutputBase(0);
  return base < first_output ? inputs[base - 1] : outputs[base - first_output];
}

void GraphCall::Prepare(Ready& ready) const {
  const CompiledGraph::Segment& segment = ready.segment;
  ready.few = segment.reads.size() + segment.writes.size() <= kFew;
  const auto add = [&](Vars& vars, Var* var) {
    ready.few ? AddOnce(vars, var) : vars.push_back(var);
  };
  for (int base : segment.writes) {
    const NDArray& x = ArrayOf(base);
    if (!x) continue;
    x.body()->Materialize();
    x.body()->chunk->SettleForWrite();
    add(ready.writes, &x.body()->chunk->var());
    ready.bases[base] = static_cast<char*>(x.data());
  }
  for (int base : segment.reads) {
    const NDArray& x = ArrayOf(base);
    if (!x) continue;
    x.body()->Materialize();
    x.body()->chunk->SettleForRead();
    Var* var = &x.body()->chunk->var();
    if (std::find(ready.writes.begin(), ready.writes.end(), var) == ready.writes.end())
      add(ready.reads, var);
    ready.bases[base] = static_cast<char*>(x.data());
  }
  ready.cost = segment.cost;
  if (!segment.uses_kept) return;
  const Prologue& prologue = *graph_->prologue_;
  for (int source : prologue.sources()) {
    ready.sources.push_back({inputs[source].body()->chunk.get(),
                             static_cast<char*>(inputs[source].data())});
  }
  ready.kept = prologue.Find(ready.sources);
  if (!ready.kept) ready.cost += prologue.cost();
}

bool GraphCall::RunInline(Ready& ready, std::span<const RandomStream> streams) const {
  const CompiledGraph::Segment& segment = ready.segment;
  if (segment.lane != Lane::kCompute || ready.cost > kInlineNanoseconds) return false;
  if (!ready.few) {
    MakeUnique(ready.reads);
    MakeUnique(ready.writes);
  }
  Engine& engine = Engine::Get();
  if (!engine.TryBegin(ready.reads, ready.writes)) return false;
  const InlineTimer timer("graph");
  try {
    if (segment.uses_kept)
      ready.kept =
          GraphOperation::Place(*graph_, ready.sources, ready.bases, ready.kept);
    std::optional<ScopedBlocking> blocking;
    if (segment.cost > kBlockingNanoseconds) blocking.emplace();
    GraphOperation::Run(*graph_, segment, ready.bases, streams);
  } catch (...) {
    for (int base : segment.writes) {
      const NDArray& x = ArrayOf(base);
      if (base >= graph_->OutputBase(0)) FillFailed(x.data(), x.dtype(), x.size());
    }
    engine.EndFailed(ready.reads, ready.writes, std::current_exception());
    return true;
  }
  engine.End(ready.reads, ready.writes);
  return true;
}

void GraphCall::Push(const Ready& ready, std::span<const RandomStream> streams,
                     size_t held) const {
  const CompiledGraph::Segment& segment = ready.segment;
  auto op = std::make_unique<GraphOperation>();
  op->graph = graph_;
  op->segment = &segment;
  op->lane = segment.lane;
  op->bases = ready.bases;
  op->sources = ready.sources;
  for (const RandomStream& stream : streams) op->streams.push_back(stream);
  for (const auto* list : {&segment.reads, &segment.writes}) {
    for (int base : *list) {
      const NDArray& x = ArrayOf(base);
      if (!x) continue;
      op->chunks.push_back(x.body()->chunk);
      if (IsCallback(op->lane) && base > 0) op->lane = CallbackLane(x.device().id);
      if (list == &segment.writes && base >= graph_->OutputBase(0))
        op->written.push_back({x.data(), x.dtype(), x.size()});
    }
  }
  op->bytes += held;
  for (const auto& w : op->written)
    op->bytes += static_cast<size_t>(w.size) * SizeOf(w.dtype);
  Engine::Get().Push(std::move(op), ready.reads, ready.writes);
}

void GraphCall::Run(PartName name) {
  const CompiledGraph& g = *graph_;
  const CompiledGraph::Part& part = g.parts_[name];
  if (part.segments.empty()) return;
  // What is held until the run is over counts against the run-ahead limit.
  size_t held = 0;
  if (!arena_ && g.plan_.arena_bytes > 0) {
    arena_ = NDArray::Empty({g.plan_.arena_bytes}, DType::kUint8);
    held = static_cast<size_t>(g.plan_.arena_bytes);
  }
  SmallVector<RandomStream, 2> streams;
  for (int i = 0; i < part.num_random; ++i)
    streams.push_back(NextRandomStream(Device{}));
  if (name == kForward) streams_ = streams;
  for (const CompiledGraph::Segment& segment : part.segments) {
    Ready ready(segment, 1 + inputs.size() + outputs.size());
    Prepare(ready);
    const bool last = &segment == &part.segments.back();
    if (!RunInline(ready, streams)) Push(ready, streams, last ? held : 0);
  }
}

}  // namespace plait
