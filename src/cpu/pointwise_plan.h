// PointwisePlan: a program turned into calls of loops; PointwiseRunner: runs it on
// tiles.
//
// A cell is a pointer to one tile of one value: in an input or output itself, in a
// buffer of the runner, or a splat (kVectorBytes of equal elements). Planning allocates
// nothing; both objects live on the stack of their call.

#ifndef PLAIT_CPU_POINTWISE_PLAN_H_
#define PLAIT_CPU_POINTWISE_PLAN_H_

#include <cstdint>
#include <span>

#include "cpu/broadcast.h"
#include "cpu/pointwise.h"
#include "cpu/simd/kernels.h"

namespace plait::cpu {

class PointwisePlan {
 public:
  using Cell = uint16_t;
  static constexpr int kMaxInputs = PointwiseProgram::kMaxInputs,
                       kMaxOutputs = PointwiseProgram::kMaxOutputs,
                       kMaxSteps = PointwiseProgram::kMaxSteps,
                       kMaxSplats = kMaxInputs + 4 * kMaxSteps,
                       kMaxBuffers = 2 * kMaxInputs + kMaxSteps + 1;
  static constexpr Cell kNone = 0, kFirstInput = 1,
                        kFirstOutput = kFirstInput + kMaxInputs,
                        kFirstSplat = kFirstOutput + kMaxOutputs,
                        kFirstBuffer = kFirstSplat + kMaxSplats,
                        kNumCells = kFirstBuffer + kMaxBuffers;

  // The most elements of a tile.
  static constexpr int kMaxTile = 1024;

  // The last of the program's outputs may be missing in `outputs`: it stays in
  // result().
  PointwisePlan(const PointwiseProgram& program, const Shape& space,
                std::span<const PointwiseInput> inputs, std::span<void* const> outputs);
  PointwisePlan(const PointwisePlan&) = delete;
  PointwisePlan& operator=(const PointwisePlan&) = delete;

  // Elements of a tile: so many that the buffers stay in the L1 cache.
  int64_t tile() const { return tile_; }
  // A rough time of one element in picoseconds.
  int64_t cost() const { return cost_; }
  bool broadcasts() const { return broadcasts_; }
  // Bytes of an element of all inputs that are read in order.
  int64_t bytes() const { return bytes_; }
  // Whether asking for memory ahead of a tile pays: the processor itself looks ahead of
  // one loop that reads in order, but not while others run.
  bool looks_ahead() const { return num_calls_ > 1 || broadcasts_; }
  const Broadcaster& broadcaster() const { return broadcaster_; }
  // The cell of the last output, if that has no memory; never a splat.
  Cell result() const { return result_; }

 private:
  friend class PointwiseRunner;
  struct Call {
    Loop loop;
    Cell x, y, z, out;
    uint32_t splat;
    uint32_t elements;  // of a splat that this call makes; 0 for a tile
  };
  struct Splat {  // a constant, or a scalar input
    Cell cell;
    Compute compute;
    DType dtype;
    PointwiseConstant constant;
    const void* data;  // of a scalar input, else nullptr
  };

  // While planning, a splat's cell has this bit.
  static constexpr Cell kSplatBit = 0x8000;
  static bool IsSplat(Cell cell) { return cell & kSplatBit; }
  static bool IsBuffer(Cell cell) { return cell >= kFirstBuffer && cell < kNumCells; }
  static Cell Plain(Cell cell) { return cell & static_cast<Cell>(~kSplatBit); }

  static bool IsCopy(const PointwiseStep& step) {
    return step.fn == Fn::kCopy && step.compute == Compute::kF32;
  }
  // What stands for a value: the source of a copy that has no loop.
  PointwiseArg Resolve(PointwiseArg arg) const {
    if (!copies_ || arg.kind != PointwiseArg::kStep ||
        sources_[arg.index].kind == PointwiseArg::kNone)
      return arg;
    return sources_[arg.index];
  }
  PointwiseStep Resolved(PointwiseStep step) const {
    for (PointwiseArg& arg : step.args) arg = Resolve(arg);
    return step;
  }

  void FindCopies();
  void CountUses();
  void CopyThreatenedInputs();
  void AddStep(int s);
  void AddSplatStep(const PointwiseStep& step, const Cell* args, Cell* result);
  void AddStores(int s);
  void AddOutputs();
  Cell Argument(PointwiseArg arg, Compute compute);
  Cell Input(int i);
  Cell Constant(int index, Compute compute);
  void Release(PointwiseArg arg);
  Loop LoopOf(const PointwiseStep& step, bool* narrowed) const;
  Loop PowerLoop(const PointwiseStep& step) const;
  Cell OutputCell(int s, const PointwiseStep& step);
  void Store(int output, Cell value, DType dtype);
  int num_stored() const { return static_cast<int>(outputs_.size()); }
  bool Safe(int output) const { return !(alias_[output] & raw_needed_); }
  Cell NewBuffer();
  Cell NewSplat() {
    return static_cast<Cell>((kFirstSplat + num_splats_++) | kSplatBit);
  }
  void Emit(Loop loop, Cell x, Cell y, Cell z, Cell out);
  bool JoinLast(const PointwiseStep& step, Cell x, Cell y, Cell out);
  void EmitSplat(Loop loop, const Cell* args, Cell out, uint32_t elements);
  void ChooseTile();

  const PointwiseProgram& program_;
  std::span<const PointwiseInput> inputs_;
  std::span<void* const> outputs_;
  const Kernels& kernels_;

  Extent extents_[kMaxInputs];
  uint8_t input_uses_[kMaxInputs], step_uses_[kMaxSteps];
  Cell input_cells_[kMaxInputs];  // kNone until the input is first used
  Cell step_cells_[kMaxSteps];
  uint32_t outputs_of_[kMaxSteps];   // the outputs that a step's value still has to get
  PointwiseArg sources_[kMaxSteps];  // set where there are copies
  uint32_t raw_needed_ = 0;          // bit i: input i is still read from its own memory
  uint32_t alias_[kMaxOutputs];      // the inputs that have an output's memory
  uint32_t stored_ = 0;              // bit o: output o needs nothing more
  Cell result_ = kNone;

  Call calls_[3 * kMaxSteps + 3 * kMaxInputs];
  Call splat_calls_[kMaxSteps * 2];
  Splat splats_[kMaxSplats];
  Cell free_[kMaxBuffers];
  int num_calls_ = 0, num_splat_calls_ = 0, num_splats_ = 0, num_constants_ = 0,
      num_free_ = 0, num_buffers_ = 0;
  // The last call is that of this step, which pairs may begin with; -1: it is not.
  int last_step_ = -1, last_step_calls_ = 0;
  bool wide_ = false;  // some buffer has elements of 8 bytes
  bool broadcasts_ = false, copies_ = false;
  int64_t tile_ = kMaxTile, cost_ = 30, bytes_ = 0;
  Broadcaster broadcaster_;
};

// Runs a plan; one for each thread.
class PointwiseRunner {
 public:
  explicit PointwiseRunner(const PointwisePlan& plan);
  PointwiseRunner(const PointwiseRunner&) = delete;
  PointwiseRunner& operator=(const PointwiseRunner&) = delete;

  // Computes the elements [first, first + n) of the space. 0 < n <= plan.tile().
  void Run(int64_t first, int64_t n);
  // The same, and asks meanwhile for the memory of [next, next + next_n), which is to
  // be run next. Programs of several loops would leave memory idle without it.
  void Run(int64_t first, int64_t n, int64_t next, int64_t next_n);

  // Asks for the memory of elements that Run() will read soon; may be past the end.
  void Prefetch(int64_t first, int64_t n) const;

  // The last output's elements after Run(), for plans that store it nowhere.
  const void* result() const { return cells_[plan_.result_]; }

 private:
  static constexpr int kPad = kVectorBytes, kScratch = 80 * 1024;

  void PlaceBroadcast(int input, int64_t first, int64_t n);
  void Place(int64_t first, int64_t n);
  void Step(const PointwisePlan::Call& call, int64_t n) {
    call.loop(cells_[call.x], cells_[call.y], cells_[call.z], cells_[call.out], n,
              call.splat);
  }

  const PointwisePlan& plan_;
  void* cells_[PointwisePlan::kNumCells];
  void* expand_buffers_[PointwisePlan::kMaxInputs];
  int64_t expanded_[PointwisePlan::kMaxInputs];  // what an input's buffer holds
  int64_t expanded_n_[PointwisePlan::kMaxInputs];
  alignas(64) char splats_[PointwisePlan::kMaxSplats * kVectorBytes];
  alignas(64) char scratch_[kScratch];
};

// Always inlined: g++ takes a function that only prefetches for one without effect, and
// drops calls of it.
[[gnu::always_inline]] inline void PointwiseRunner::Prefetch(int64_t first,
                                                             int64_t n) const {
  for (int i = 0; i < plan_.program_.num_inputs; ++i) {
    if (plan_.extents_[i] != Extent::kFull) continue;
    const int64_t size = static_cast<int64_t>(plait::SizeOf(plan_.program_.inputs[i]));
    const char* data = static_cast<const char*>(plan_.inputs_[i].data) + first * size;
    for (int64_t b = 0; b < n * size; b += 64) __builtin_prefetch(data + b, 0, 3);
  }
}

}  // namespace plait::cpu

#endif  // PLAIT_CPU_POINTWISE_PLAN_H_
