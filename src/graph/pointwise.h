// PointwiseProgram: a short list of scalar steps that is run for every element.
//
// A program is data: the imperative front end, graph fusion, optimizers and gradients
// make programs, and a backend (cpu/pointwise.h) runs them in one pass over memory.
// Values are in single assignment form: inputs, constants, and the results of steps.
//
// Types: a value is computed in one of five compute types and belongs to a dtype. A
// step whose dtype is narrower than its compute type ends by rounding (float16,
// bfloat16), wrapping (small integers) or `!= 0` (bool), so that fused equals one by
// one bit for bit. Arguments of a step have the step's compute type; kCast steps
// convert between them.

#ifndef PLAIT_GRAPH_POINTWISE_H_
#define PLAIT_GRAPH_POINTWISE_H_

#include <cstdint>
#include <span>
#include <string_view>

#include "base/dtype.h"

namespace plait {

// The scalar functions. Comparisons and logic give 0 or 1 in the compute type.
// Integers: division truncates, by zero gives 0; mod has the sign of the divisor, by
// zero gives 0; nothing ever traps. Maximum and minimum give NaN if either side is NaN.
enum class Fn : uint8_t {
  // one argument
  kCopy,
  kCast,
  kNegative,
  kAbs,
  kSign,
  kRound,
  kRint,
  kCeil,
  kFloor,
  kTrunc,
  kSquare,
  kSqrt,
  kRsqrt,
  kCbrt,
  kRcbrt,
  kReciprocal,
  kExp,
  kExp2,
  kExpm1,
  kLog,
  kLog2,
  kLog10,
  kLog1p,
  kSin,
  kCos,
  kTan,
  kArcsin,
  kArccos,
  kArctan,
  kSinh,
  kCosh,
  kTanh,
  kArcsinh,
  kArccosh,
  kArctanh,
  kErf,
  kErfinv,
  kGamma,
  kGammaln,
  kDigamma,
  kSigmoid,
  kLogSigmoid,
  kSoftrelu,
  kSoftsign,
  kRelu,
  kLogicalNot,
  kBitwiseNot,
  kIsNan,
  kIsInf,
  kIsFinite,
  // two arguments
  kAdd,
  kSub,
  kMul,
  kDiv,
  kMod,
  kPower,
  kMaximum,
  kMinimum,
  kHypot,
  kArctan2,
  kCopysign,
  kLdexp,
  kEqual,
  kNotEqual,
  kGreater,
  kGreaterEqual,
  kLess,
  kLessEqual,
  kLogicalAnd,
  kLogicalOr,
  kLogicalXor,
  kBitwiseAnd,
  kBitwiseOr,
  kBitwiseXor,
  // three arguments: a != 0 ? b : c
  kWhere,
  kCount,
};

enum class Compute : uint8_t { kF32, kF64, kI32, kI64, kU64, kCount };

constexpr Compute ComputeOf(DType dtype) {
  switch (dtype) {
    case DType::kFloat64:
      return Compute::kF64;
    case DType::kFloat32:
    case DType::kFloat16:
    case DType::kBfloat16:
      return Compute::kF32;
    case DType::kInt64:
    case DType::kUint32:
      return Compute::kI64;
    case DType::kUint64:
      return Compute::kU64;
    default:
      return Compute::kI32;  // bool, and integers of up to 32 bits
  }
}
// The dtype that a compute type holds without any rounding.
constexpr DType DTypeOf(Compute compute) {
  constexpr DType kNatural[] = {DType::kFloat32, DType::kFloat64, DType::kInt32,
                                DType::kInt64, DType::kUint64};
  return kNatural[static_cast<int>(compute)];
}

struct FnInfo {
  std::string_view name;  // "exp"
  int arity;
  bool float_only;  // integers are computed in float32 (float64 for 64 bits)
  std::string_view expression;  // of x, y, z in C, for run-time compilers
};
const FnInfo& Info(Fn fn);

// A value of a program: an input, a constant or the result of a step.
struct PointwiseArg {
  enum Kind : uint8_t { kNone, kInput, kConstant, kStep };
  Kind kind = kNone;
  uint8_t index = 0;
  bool operator==(const PointwiseArg&) const = default;
};

union PointwiseConstant {
  double f;   // for kF32 (rounded to float) and kF64
  int64_t i;  // for kI32, kI64, and bit for bit kU64
};

struct PointwiseStep {
  Fn fn = Fn::kCopy;
  Compute compute = Compute::kF32;  // of the arguments; kCast: of the result
  Compute from = Compute::kF32;     // kCast: of the argument
  DType dtype = DType::kFloat32;    // of the result
  PointwiseArg args[3];
};

// Fixed capacity: a program lives in its thread's memory and is copied with memcpy.
struct PointwiseProgram {
  static constexpr int kMaxInputs = 24, kMaxConstants = 48, kMaxSteps = 48,
                       kMaxOutputs = 24;

  uint8_t num_inputs = 0, num_constants = 0, num_steps = 0, num_outputs = 0;
  DType inputs[kMaxInputs];
  PointwiseConstant constants[kMaxConstants];
  PointwiseStep steps[kMaxSteps];
  // A step, input or constant that is written out, in the value's dtype.
  PointwiseArg outputs[kMaxOutputs];

  DType DTypeOfArg(PointwiseArg arg) const {  // REQUIRES: not a constant
    return arg.kind == PointwiseArg::kInput ? inputs[arg.index]
                                            : steps[arg.index].dtype;
  }
};

enum class Reduction : uint8_t { kSum, kProd, kMax, kMin, kCount };

// A reduction of a program's last output over axes of its space. What a program makes
// does not depend on whether its last output is reduced at once or stored first.
struct PointwiseReduction {
  Reduction kind = Reduction::kSum;
  uint64_t axes = 0;  // bit i: axis i of the space
  double scale = 1;   // multiplies what comes out, of floats only (1/n makes a mean)
  bool root = false;  // then the square root is taken, of floats only
  DType dtype = DType::kUnknown;  // of the result, to which it is cast at the end
};

}  // namespace plait

#endif  // PLAIT_GRAPH_POINTWISE_H_
