// CompiledGraph: a graph after all passes, ready to run; GraphCall: one run of it.
//
// The passes choose kernels, fuse pointwise nodes, and plan one arena for all values
// between inputs and outputs. A run is cut into segments, each one operation of the
// engine. The memory of a run belongs to its GraphCall: several threads may run one
// CompiledGraph, and several forward parts may wait for their backward parts.

#ifndef PLAIT_RUN_COMPILED_GRAPH_H_
#define PLAIT_RUN_COMPILED_GRAPH_H_

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "base/random_stream.h"
#include "engine/engine.h"
#include "graph/graph.h"
#include "ndarray/ndarray.h"
#include "passes/memory_plan.h"
#include "run/prologue.h"

namespace plait {

struct CompileOptions {
  bool training = false;
  PlanStrategy strategy = PlanStrategy::kBoth;
  std::vector<std::string> disabled;  // passes by name: cse, identity, fuse
  std::vector<int> input_of_output;   // see PlanMemory
  int64_t budget = -1;                // of bytes, see Recompute; -1: PLAIT_RECOMPUTE's
  int64_t worth_pieces = 16 << 20;    // of bytes, see UsePieces
  // Where values that follow from parameters are kept, see Prologue; null: nowhere.
  std::shared_ptr<PrologueSet> prologues;
};

class CompiledGraph : public RefCounted<CompiledGraph> {
 public:
  // REQUIRES: fully inferred. The inputs are the graph's; a GraphCall fills in those
  // that follow them.
  static Ref<const CompiledGraph> Compile(Graph graph, const CompileOptions& options);

  const Graph& graph() const { return graph_; }
  const MemoryPlan& plan() const { return plan_; }
  bool training() const { return options_.training; }

  // How much memory kernels need for themselves is known after a run. Null, or (once)
  // the same graph with that memory planned into the arena, where it costs less: there
  // is often room beside the values that are alive.
  Ref<const CompiledGraph> Replanned() const;

  double ForwardCost() const;  // estimated time, in nanoseconds

 private:
  friend class GraphCall;
  friend class GraphOperation;

  // A value's place: bases[base] + offset.
  struct Slot {
    int base;  // 0: the arena; then the inputs, then the outputs
    int64_t offset;
    const Shape* shape;
    DType dtype;
  };
  struct Step {
    const OpDef* op;
    const OpDef::AnyKernel* kernel;
    const Params* params;
    const char* name;
    int slots;  // where its inputs begin in slots_; its outputs follow
    int num_in, num_out;
    int random;  // which of a part's streams, or -1
    double cost;
    int node;
    int64_t workspace_offset = 0, workspace_bytes = 0;  // in the arena
  };
  struct Copy {  // an output that is copied at a part's end
    int from, to;
    int64_t offset, bytes;
  };
  // Steps that run as one operation.
  struct Segment {
    int first = 0, last = 0;  // steps
    Lane lane = Lane::kCompute;
    double cost = 0;
    std::vector<int> reads, writes;  // bases
    std::vector<Copy> copies;
    bool uses_kept = false;  // values of the prologue; then it reads its sources
  };
  struct Part {
    std::vector<Segment> segments;
    int num_random = 0;
  };

  CompiledGraph(Graph graph, const CompileOptions& options, Ref<Prologue> prologue,
                std::vector<int64_t> workspaces);
  void MakeSteps();
  void ReadSources(Segment& segment) const;
  void NoteWorkspace(const Step& step, size_t bytes) const;
  void NoteRun(const Segment& segment) const;
  void MakeStep(const GraphNode& node, int id, Part& part);
  bool EndsBefore(const Segment& segment, const std::vector<int>& reads,
                  bool backward) const;
  int BaseOf(const ValuePlace& place) const;
  int InputBase(int i) const { return 1 + i; }
  // Inputs before these are the caller's.
  int FirstKept() const {
    const int kept = prologue_ ? prologue_->num_values() : 0;
    return static_cast<int>(graph_.inputs.size()) - kept;
  }
  int OutputBase(int i) const { return 1 + static_cast<int>(graph_.inputs.size()) + i; }

  const CompileOptions options_;
  const Graph graph_;
  const Ref<Prologue> prologue_;           // null: none
  const std::vector<int64_t> workspaces_;  // by node, as planned; empty: none are
  MemoryPlan plan_;
  std::vector<Step> steps_;
  std::vector<Slot> slots_;
  Part parts_[2];  // forward, backward
  // What runs needed, by node; changed by runs.
  mutable std::vector<std::atomic<int64_t>> needed_;
  mutable std::atomic<int64_t> most_needed_{0};
  mutable std::atomic<int> runs_{0};
  mutable std::atomic<bool> replanned_{false};
};

class GraphCall {
 public:
  explicit GraphCall(Ref<const CompiledGraph> graph);

  // Arrays by the graph's inputs and outputs. They must be there before the part that
  // uses them runs; shapes and dtypes must be the graph's.
  std::vector<NDArray> inputs, outputs;

  enum PartName { kForward = 0, kBackward = 1 };
  // Runs a part, inline or on the compute lane.
  void Run(PartName part);
  const Graph& graph() const { return graph_->graph(); }
  // A call with the same values in memory of its own.
  GraphCall Copy() const;
  // The stream that the forward part's node of this name drew from; null if none did.
  const RandomStream* StreamOf(const std::string& node) const;
  // Runs a part on this thread, now, over plain memory: for operators that hold graphs.
  // Addresses by the graph's inputs and outputs, and of the arena; random numbers are
  // drawn from `random` alone. REQUIRES: nobody else uses the memory.
  static void RunHere(const CompiledGraph& graph, PartName part, char* arena,
                      std::span<char* const> inputs, std::span<char* const> outputs,
                      RandomStream random);
  // Gives the arena back; what runs still keeps it.
  void Release() { arena_ = NDArray(); }

 private:
  struct Ready;  // a segment with its Vars and addresses

  const NDArray& ArrayOf(int base) const;
  void Prepare(Ready& ready) const;
  // False where something that it uses is busy, or it takes too long.
  bool RunInline(Ready& ready, std::span<const RandomStream> streams) const;
  // `held`: bytes that are held until the run is over.
  void Push(const Ready& ready, std::span<const RandomStream> streams,
            size_t held) const;

  Ref<const CompiledGraph> graph_;
  NDArray arena_;
  SmallVector<RandomStream, 2> streams_;  // of the forward part
};

}  // namespace plait

#endif  // PLAIT_RUN_COMPILED_GRAPH_H_
