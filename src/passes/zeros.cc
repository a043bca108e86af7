// KeepsZeros: the call's program is run on numbers of which some are unknown.

#include "passes/zeros.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace plait {
namespace {

// Stands for whatever is not known for sure, NaN and infinities too.
constexpr float kUnknown = std::numeric_limits<float>::quiet_NaN();

bool Known(float x) {
  return std::isfinite(x);
}

// What a step of float32 makes of known numbers, whatever the signs of zeros. Sums that
// cancel are no zeros here: in another type they would be rounded in another way.
float OfKnown(Fn fn, float a, float b) {
  switch (fn) {
    case Fn::kCopy:
    case Fn::kCast:
      return a;
    case Fn::kNegative:
      return -a;
    case Fn::kAbs:
      return std::abs(a);
    case Fn::kSign:
      return a > 0 ? 1.0f : a < 0 ? -1.0f : 0.0f;
    case Fn::kSquare:
      return a * a;
    case Fn::kRelu:
      return std::max(a, 0.0f);
    case Fn::kTanh:
    case Fn::kErf:
      return a == 0 ? 0 : kUnknown;
    case Fn::kAdd:
      return a == 0 || b == 0 || a + b != 0 ? a + b : kUnknown;
    case Fn::kSub:
      return a == 0 || b == 0 || a - b != 0 ? a - b : kUnknown;
    case Fn::kMul:
      return a * b;
    case Fn::kMaximum:
      return std::max(a, b);
    case Fn::kMinimum:
      return std::min(a, b);
    case Fn::kLess:
      return a < b;
    case Fn::kLessEqual:
      return a <= b;
    case Fn::kGreater:
      return a > b;
    case Fn::kGreaterEqual:
      return a >= b;
    case Fn::kEqual:
      return a == b;
    case Fn::kNotEqual:
      return a != b;
    default:
      return kUnknown;
  }
}

// A known number as a type has it.
float Rounded(float x, DType dtype) {
  if (dtype == DType::kFloat16) return static_cast<float>(Float16(x));
  if (dtype == DType::kBfloat16) return static_cast<float>(Bfloat16(x));
  return dtype == DType::kFloat32 || x == 0 ? x : kUnknown;
}

class Evaluation {
 public:
  Evaluation(const PointwiseProgram& program, uint32_t zeros)
      : program_(program), zeros_(zeros) {
    for (int i = 0; i < program.num_steps; ++i) steps_[i] = Step(program.steps[i]);
  }

  float Of(PointwiseArg arg, Compute compute = Compute::kF32) const {
    if (arg.kind == PointwiseArg::kInput) return zeros_ >> arg.index & 1 ? 0 : kUnknown;
    if (arg.kind == PointwiseArg::kStep) return steps_[arg.index];
    if (arg.kind == PointwiseArg::kNone) return 0;
    const PointwiseConstant c = program_.constants[arg.index];
    if (compute == Compute::kF32)
      return std::abs(c.f) <= std::numeric_limits<float>::max()
                 ? static_cast<float>(c.f)
                 : kUnknown;
    const bool zero = compute == Compute::kF64 ? c.f == 0 : c.i == 0;
    return zero ? 0 : kUnknown;
  }

 private:
  float Step(const PointwiseStep& step) const {
    const Compute from = step.fn == Fn::kCast ? step.from : step.compute;
    const float a = Of(step.args[0], from), b = Of(step.args[1], from),
                c = Of(step.args[2], from);
    float y = kUnknown;
    if (step.fn == Fn::kWhere) {
      y = (b == 0 && c == 0) ? 0 : !Known(a) ? kUnknown : a != 0 ? b : c;
    } else if (Known(a) && Known(b)) {
      y = OfKnown(step.fn, a, b);
    }
    return Known(y) ? Rounded(y, step.dtype) : kUnknown;
  }

  const PointwiseProgram& program_;
  const uint32_t zeros_;
  float steps_[PointwiseProgram::kMaxSteps];
};

}  // namespace

bool KeepsZeros(const OpDef& op, const Params& params, const Specs& in,
                uint32_t zeros) {
  PointwiseProgram program;
  SmallVector<Pw, 4> operands;
  for (const Spec& spec : in) {
    program.inputs[program.num_inputs] = spec.dtype;
    operands.push_back(
        Pw(&program, {PointwiseArg::kInput, program.num_inputs++}, spec.dtype));
  }
  PwCall call(operands);
  if (op.fn != Fn::kCount) {
    call.Return(Call(op.fn, operands));
  } else {
    op.pointwise(params.get(), call);
  }
  const Evaluation numbers(program, zeros);
  return std::all_of(call.outputs.begin(), call.outputs.end(), [&](const Pw& y) {
    return y.is_number() ? y.number() == 0 : numbers.Of(y.arg()) == 0;
  });
}

}  // namespace plait
