// Pw: expressions that append steps to a PointwiseProgram.
//
// A pointwise operator says what it does as an expression over its inputs:
//   .pointwise = [](const ClipParams& p, PwCall& c) {
//     c.Return(minimum(maximum(c.in(0), p.a_min), p.a_max)); }
// Mixed dtypes are promoted as NumPy does (a float type wins over any integer); plain
// numbers are weak: they take the dtype of the array beside them.

#ifndef PLAIT_GRAPH_POINTWISE_BUILDER_H_
#define PLAIT_GRAPH_POINTWISE_BUILDER_H_

#include <span>

#include "base/small_vector.h"
#include "graph/pointwise.h"

namespace plait {

class Pw {
 public:
  Pw() = default;
  Pw(PointwiseProgram* program, PointwiseArg arg, DType dtype)
      : program_(program), arg_(arg), dtype_(dtype) {}
  Pw(double number) : number_(number) {}  // weak, until it meets an array
  Pw(int number) : number_(number) {}

  bool is_number() const { return program_ == nullptr; }
  double number() const { return number_; }
  PointwiseProgram* program() const { return program_; }
  PointwiseArg arg() const { return arg_; }
  DType dtype() const { return dtype_; }

 private:
  PointwiseProgram* program_ = nullptr;
  PointwiseArg arg_;
  DType dtype_ = DType::kUnknown;
  double number_ = 0;
};

// Appends one step. The result has the promoted dtype of the arguments, or `result` if
// that is known. At least one argument must not be a number. Throws kRuntime when the
// program is full: whoever starts an operator makes sure of kStepsOfAnOperator free
// ones.
Pw Call(Fn fn, std::span<const Pw> args, DType result = DType::kUnknown);
inline Pw Call(Fn fn, const Pw& x) {
  return Call(fn, {&x, 1});
}
inline Pw Call(Fn fn, const Pw& x, const Pw& y) {
  const Pw args[] = {x, y};
  return Call(fn, args);
}
Pw Cast(const Pw& x, DType dtype);
// A constant of exactly this dtype, for 64-bit integers that no double holds.
Pw Constant(PointwiseProgram* program, DType dtype, PointwiseConstant value);
inline constexpr int kStepsOfAnOperator = 24, kConstantsOfAnOperator = 12;
// Of an operator that says it is large (OpDef::large).
inline constexpr int kStepsOfALargeOperator = 40, kConstantsOfALargeOperator = 16;

inline Pw operator+(const Pw& x, const Pw& y) {
  return Call(Fn::kAdd, x, y);
}
inline Pw operator-(const Pw& x, const Pw& y) {
  return Call(Fn::kSub, x, y);
}
inline Pw operator*(const Pw& x, const Pw& y) {
  return Call(Fn::kMul, x, y);
}
inline Pw operator/(const Pw& x, const Pw& y) {
  return Call(Fn::kDiv, x, y);
}
inline Pw operator-(const Pw& x) {
  return Call(Fn::kNegative, x);
}
inline Pw operator>(const Pw& x, const Pw& y) {
  return Call(Fn::kGreater, x, y);
}
inline Pw operator<(const Pw& x, const Pw& y) {
  return Call(Fn::kLess, x, y);
}
inline Pw operator>=(const Pw& x, const Pw& y) {
  return Call(Fn::kGreaterEqual, x, y);
}
inline Pw operator<=(const Pw& x, const Pw& y) {
  return Call(Fn::kLessEqual, x, y);
}
inline Pw operator==(const Pw& x, const Pw& y) {
  return Call(Fn::kEqual, x, y);
}
inline Pw operator!=(const Pw& x, const Pw& y) {
  return Call(Fn::kNotEqual, x, y);
}
inline Pw maximum(const Pw& x, const Pw& y) {
  return Call(Fn::kMaximum, x, y);
}
inline Pw minimum(const Pw& x, const Pw& y) {
  return Call(Fn::kMinimum, x, y);
}
inline Pw power(const Pw& x, const Pw& y) {
  return Call(Fn::kPower, x, y);
}
inline Pw exp(const Pw& x) {
  return Call(Fn::kExp, x);
}
inline Pw expm1(const Pw& x) {
  return Call(Fn::kExpm1, x);
}
inline Pw log(const Pw& x) {
  return Call(Fn::kLog, x);
}
inline Pw log1p(const Pw& x) {
  return Call(Fn::kLog1p, x);
}
inline Pw sqrt(const Pw& x) {
  return Call(Fn::kSqrt, x);
}
inline Pw square(const Pw& x) {
  return Call(Fn::kSquare, x);
}
inline Pw abs(const Pw& x) {
  return Call(Fn::kAbs, x);
}
inline Pw sign(const Pw& x) {
  return Call(Fn::kSign, x);
}
inline Pw tanh(const Pw& x) {
  return Call(Fn::kTanh, x);
}
inline Pw sigmoid(const Pw& x) {
  return Call(Fn::kSigmoid, x);
}
inline Pw erf(const Pw& x) {
  return Call(Fn::kErf, x);
}
inline Pw isfinite(const Pw& x) {
  return Call(Fn::kIsFinite, x);
}
// condition != 0 ? x : y, in the promoted dtype of x and y.
Pw where(const Pw& condition, const Pw& x, const Pw& y);

// One call of a pointwise operator while its steps are being appended.
class PwCall {
 public:
  PwCall(std::span<const Pw> inputs) : inputs_(inputs) {}

  int num_inputs() const { return static_cast<int>(inputs_.size()); }
  const Pw& in(int i) const { return inputs_[i]; }
  void Return(Pw value) { outputs.push_back(value); }
  // The operator's aux input i gets this value (momentum, running mean).
  void Update(int i, Pw value) { updates.push_back({i, value}); }

  struct InputUpdate {
    int input = 0;
    Pw value;
  };
  SmallVector<Pw, 2> outputs;
  SmallVector<InputUpdate, 2> updates;

 private:
  std::span<const Pw> inputs_;
};

}  // namespace plait

#endif  // PLAIT_GRAPH_POINTWISE_BUILDER_H_
