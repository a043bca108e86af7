// Loop: what `_foreach` and `_while_loop` have in common: a body that runs once a step.
//
// A body's input is a slice of an operator's input (foreach's data), a state, which the
// body gives for the next step, or a captured value, the same in all steps. The body's
// outputs are first those that are stacked, then the states.
//
// The gradient is an operator of its own. It runs the forward steps once more, keeping
// the memory of each, and then their backward parts in reverse: between forward and
// backward a loop keeps nothing but its inputs.

#ifndef PLAIT_RUN_LOOP_H_
#define PLAIT_RUN_LOOP_H_

#include <vector>

#include "graph/op.h"
#include "run/body.h"

namespace plait {

struct LoopInput {
  enum Kind : uint8_t { kNothing, kData, kState, kCaptured } kind = kNothing;
  int number = 0;  // of the operator's input; kState: of the state
};

struct Loop : public RefCounted<Loop> {
  static constexpr const char* kGradientName = "_backward_loop";

  Ref<const Body> body;
  std::vector<LoopInput> body_inputs;
  // Null: as many steps as data is long. Else, of one step at most `max_steps`, the
  // first is left out for which it gives 0. It reads states and captured values.
  Ref<const Body> condition;
  std::vector<LoopInput> condition_inputs;
  int64_t max_steps = 0;
  std::vector<int> states;  // the operator's inputs that are their first values
  int num_inputs = 0;       // of the operator
  int num_stacked = 0;      // of the body's outputs

  int num_states() const { return static_cast<int>(states.size()); }
  int num_outputs() const { return num_stacked + num_states(); }
  bool draws() const { return body->draws() || (condition && condition->draws()); }
  bool is_host() const {
    return body->is_host() || (condition && condition->is_host());
  }
  // Whether the operator may write its input.
  bool Writes(int input, bool training) const;
  // Throws kValue where inputs are missing or a state would be written. `op` for
  // errors.
  void CheckSound(const char* op) const;

  void Infer(Specs& in, Specs& out) const;
  // `out` has the random stream as a last output if the loop draws.
  void Forward(const KernelArgs& args) const;
  // A guess at operations on numbers.
  double Cost(const Specs& in) const;
};

// The steps of a loop over its operator's inputs, by memory.
class LoopSteps {
 public:
  LoopSteps(const Loop& loop, std::span<const View> in, bool training,
            RandomStream random);

  int64_t limit() const { return limit_; }
  // Whether the step is to run, by the states as they are now.
  bool Goes(int64_t step);
  void Bind(BodyCall& call, const std::vector<LoopInput>& inputs, int64_t step) const;
  RandomStream StreamOf(int64_t step) const;

  std::vector<char*> now;  // the states before the next step

 private:
  const Loop& loop_;
  std::span<const View> in_;
  RandomStream random_;
  int64_t limit_ = 0;
  std::optional<BodyCall> condition_;
  alignas(8) char condition_value_[8] = {};
};

// Of the body's inputs, or the condition's.
Specs LoopBodySpecs(const Loop& loop, bool of_condition, std::span<const View> in);

// The gradients of an operator that holds a loop.
Values LoopGradient(const Ref<const Loop>& loop, const GradArgs& g);

// Whether the first element is true.
bool IsTrue(const void* value, DType dtype);
// The stream that an operator's hidden output keeps for its gradient.
RandomStream StreamIn(const View& x);
void KeepStream(RandomStream stream, const View& y);
// dst += src
void AddTo(char* dst, const char* src, DType dtype, int64_t size);

}  // namespace plait

#endif  // PLAIT_RUN_LOOP_H_
