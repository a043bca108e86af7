// LazyProgram: imperative pointwise operations that wait, to be run fused.
//
// Each thread has one. A pointwise call appends its steps and returns arrays whose
// value is pending; a reduction of such an array may wait at the program's end. Flush
// pushes the whole program as one operation. Intermediate values whose arrays are gone
// by then are never written. What is lazy is invisible:
// whoever needs a value, or writes memory that the program reads, flushes it first
// (ArrayBody:: Materialize, Chunk::SettleFor...), from any thread.
//
// Invariants, all under the program's lock: (1) every array body that points here is in
// the owner list of its step. (2) Every chunk that is marked by this program has a
// slot. (3) A chunk that the program writes has exactly one region in use.

#ifndef PLAIT_RUN_LAZY_H_
#define PLAIT_RUN_LAZY_H_

#include <atomic>
#include <mutex>
#include <span>

#include "base/small_vector.h"
#include "graph/op.h"
#include "ndarray/ndarray.h"

namespace plait {

using Arrays = SmallVector<NDArray, 4>;

// An array that a flush writes.
struct LazyOutput {
  Ref<Chunk> chunk;
  int64_t offset = 0;
  DType dtype = DType::kUnknown;
  int64_t size = 0;    // elements
  bool fresh = false;  // nobody else can know the memory yet
};

class LazyProgram final : public Pending {
 public:
  static LazyProgram& OfThisThread();
  static void FlushAll();  // of all threads

  // Appends a call of a pointwise operator. `out` is empty, or has for each output the
  // array that is overwritten, or an empty handle. Throws before anything has changed.
  Arrays Append(const OpDef& op, const Params& params, std::span<const NDArray> in,
                std::span<const NDArray> out);

  // Appends a call of an operator with OpDef::reduce over `x`. Null, with nothing
  // changed, when x is not pending here or the program has a reduction already: then
  // the operator's kernel reads x from memory. REQUIRES: `y` is inferred from x.
  NDArray AppendReduction(const OpDef& op, const Params& params, const NDArray& x,
                          const Spec& y);

  void Flush() override;
  void Forget(ArrayBody* array) noexcept override;

  // A second body for the same value (a view of the same shape), or null when `array`
  // is not pending here any more.
  Ref<ArrayBody> Share(ArrayBody* array);

 private:
  struct Slot {  // a region of memory in use
    Ref<Chunk> chunk;
    int64_t offset = 0;
    DType dtype = DType::kUnknown;
    int input = -1;       // of the program, or -1: only written
    int write_step = -1;  // the last step that overwrites it, or -1
    Shape shape;
  };
  // What waits for the reduction, in place of a step.
  static constexpr int kReduced = PointwiseProgram::kMaxSteps;

  friend class LazyTimer;

  void FlushLocked();
  // For a program that is worth a push, after an addition. True when it has waited for
  // long while the engine has nothing to do; else somebody flushes it if no more comes.
  bool WaitsTooLong();
  void FlushIfLeft(int64_t since);
  // Estimated time of a flush on one thread, in nanoseconds.
  double Cost() const {
    constexpr double kStep = 0.03, kLoad = 0.03;  // of one element
    return static_cast<double>(space_.size()) *
           (kStep * program_.num_steps + kLoad * (program_.num_inputs + live_));
  }
  void Reset();
  bool Prepare(const OpDef& op, std::span<const NDArray> in,
               std::span<const NDArray> out, const Shape& space);
  Pw Operand(const NDArray& x);
  int FindSlot(const Chunk& chunk, int64_t offset, DType dtype,
               const Shape& shape) const;
  bool Claim(const NDArray& x);
  Arrays AppendSteps(const OpDef& op, const Params& params,
                     std::span<const Pw> operands, std::span<const NDArray> in,
                     std::span<const NDArray> out);
  Arrays AppendApart(const OpDef& op, const Params& params, std::span<const NDArray> in,
                     std::span<const NDArray> out);
  void Own(ArrayBody* body, int step);
  void Disown(ArrayBody* body);
  NDArray Bind(Pw value, const NDArray* dest, Device device);
  void Overwrite(ArrayBody* dest, int step);
  bool SoleOwner(const ArrayBody* body) const;
  SmallVector<ArrayBody*, 2> TakeOwners(int step);
  using Outputs = SmallVector<LazyOutput, 4>;
  using Bodies = SmallVector<ArrayBody*, 8>;
  void Place(Outputs& outputs, Bodies& placed);
  void PlaceOwners(int step, PointwiseArg value, Outputs& outputs, Bodies& placed);
  void PushProgram(const Outputs& outputs);

  std::mutex mutex_;
  PointwiseProgram program_;
  Shape space_;
  SmallVector<Slot, PointwiseProgram::kMaxInputs> slots_;
  int8_t input_slot_[PointwiseProgram::kMaxInputs];
  ArrayBody* owners_[kReduced + 1] = {};  // lists through next_owner
  PointwiseReduction reduction_;          // while somebody waits for it
  PointwiseArg reduced_;                  // what is reduced
  size_t held_bytes_ = 0;
  bool reduces_ = false;  // set by Place: the last output is the reduction's
  // When something was last added, in steady_clock's nanoseconds; 0: not worth a push.
  std::atomic<int64_t> waiting_since_{0};
  int64_t first_waiting_ = 0;  // the first such time
  int live_ = 0;               // outputs that a flush would write now
};

}  // namespace plait

#endif  // PLAIT_RUN_LAZY_H_
