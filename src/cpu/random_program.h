// RandomCase: a random pointwise program with inputs, for tests.

#ifndef PLAIT_CPU_RANDOM_PROGRAM_H_
#define PLAIT_CPU_RANDOM_PROGRAM_H_

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "cpu/pointwise.h"

namespace plait::cpu {

class RandomCase {
 public:
  // Only functions for which every executor gives the same bits, if `exact`.
  RandomCase(uint64_t seed, bool exact, int64_t max_elements);

  PointwiseProgram program;
  Shape space;
  std::vector<Shape> shapes;
  std::vector<std::vector<char>> data;
  // Output o is written over input in_place[o], or apart when that is -1.
  std::vector<int> in_place;

  DType OutputDType(int o) const { return program.DTypeOfArg(program.outputs[o]); }
  using Outputs = std::vector<std::vector<char>>;
  using Executor = void (*)(const PointwiseProgram&, const Shape&,
                            std::span<const PointwiseInput>, std::span<void* const>);
  // The outputs' bytes; every NaN is made the same NaN.
  Outputs Run(Executor executor) const;

  static void SameNan(DType dtype, std::vector<char>& bytes);

  int64_t Below(int64_t n) {
    return std::uniform_int_distribution<int64_t>(0, n - 1)(random_);
  }

 private:
  static constexpr DType kDTypes[] = {
      DType::kFloat32, DType::kFloat64, DType::kFloat16, DType::kBfloat16,
      DType::kBool,    DType::kInt8,    DType::kInt16,   DType::kInt32,
      DType::kInt64,   DType::kUint8,   DType::kUint16,  DType::kUint32,
      DType::kUint64};

  static bool IsExact(Fn fn) {
    return !Info(fn).float_only || fn == Fn::kSqrt || fn == Fn::kReciprocal ||
           fn == Fn::kCopysign || fn == Fn::kSoftsign;
  }
  DType AnyDType() { return kDTypes[Below(std::size(kDTypes))]; }
  void MakeSpace(int64_t max_elements);
  void AddInput();
  void AddStep(bool exact);
  void AddOutputs();
  PointwiseArg ArgumentOf(Compute compute);
  PointwiseArg Any();
  double Number();

  std::mt19937_64 random_;
};

inline RandomCase::RandomCase(uint64_t seed, bool exact, int64_t max_elements)
    : random_(seed) {
  MakeSpace(max_elements);
  for (int64_t n = 1 + Below(5); n > 0; --n) AddInput();
  for (int64_t n = Below(12); n > 0; --n) AddStep(exact);
  AddOutputs();
}

inline void RandomCase::MakeSpace(int64_t max_elements) {
  constexpr int64_t kSizes[] = {1,   1,   2,   3,   4,    5,    7,    8,    15,   16,
                                17,  31,  64,  65,  100,  127,  128,  129,  255,  256,
                                300, 511, 513, 700, 1023, 1024, 1025, 1500, 2049, 4096};
  std::vector<int64_t> sizes;
  int64_t elements = 1;
  for (int64_t rank = Below(5); rank > 0; --rank) {
    const int64_t size = Below(60) == 0 ? 0 : kSizes[Below(std::size(kSizes))];
    if (elements * size > max_elements) continue;
    elements *= size;
    sizes.push_back(size);
  }
  space = Shape(sizes.begin(), sizes.end());
}

// Small whole numbers, fractions, large numbers and the special ones.
inline double RandomCase::Number() {
  constexpr double kSpecial[] = {0.0,           -0.0,
                                 1.0,           -1.0,
                                 0.5,           -0.5,
                                 1.5,           2.5,
                                 -2.5,          3e9,
                                 -3e9,          1e19,
                                 -1e19,         65504,
                                 65520,         1e-40,
                                 -1e-310,       1e300,
                                 -1e300,        2147483648.0,
                                 -2147483648.0, 9223372036854775808.0,
                                 4294967296.0,  INFINITY,
                                 -INFINITY,     NAN};
  switch (Below(8)) {
    case 0:
      return kSpecial[Below(std::size(kSpecial))];
    case 1:
    case 2:
      return static_cast<double>(Below(512) - 256);
    case 3:
      return std::ldexp(static_cast<double>(Below(1 << 20) - (1 << 19)), -8);
    default:
      return std::normal_distribution<double>(0, 3)(random_);
  }
}

inline void RandomCase::AddInput() {
  const int i = program.num_inputs++;
  const DType dtype = program.inputs[i] = AnyDType();
  std::vector<int64_t> sizes(space.begin(), space.end());
  const int64_t kind = Below(4);  // 0 and 1: whole
  if (kind == 2) {
    for (int64_t& size : sizes) size = Below(2) ? size : 1;
    if (!sizes.empty()) sizes.erase(sizes.begin(), sizes.begin() + Below(sizes.size()));
  } else if (kind == 3 && Below(2)) {
    sizes.assign(Below(2) ? sizes.size() : 0, 1);
  }
  shapes.emplace_back(sizes.begin(), sizes.end());
  const int64_t n = shapes.back().size();
  std::vector<char> bytes(n * SizeOf(dtype));
  VisitDType(dtype, [&]<typename T>() {
    for (int64_t k = 0; k < n; ++k) {
      T value;
      if constexpr (std::is_same_v<T, bool>) {
        value = Below(2);
      } else if constexpr (std::is_integral_v<T>) {
        value = Below(3) ? static_cast<T>(Below(20) - 10) : static_cast<T>(random_());
      } else {
        value = static_cast<T>(static_cast<float>(0));
        if constexpr (std::is_same_v<T, double>)
          value = Number();
        else
          value = static_cast<T>(static_cast<float>(Number()));
      }
      std::memcpy(bytes.data() + k * sizeof(T), &value, sizeof(T));
    }
  });
  data.push_back(std::move(bytes));
}

inline PointwiseArg RandomCase::Any() {
  const int64_t i = Below(program.num_inputs + program.num_steps);
  if (i < program.num_inputs) return {PointwiseArg::kInput, static_cast<uint8_t>(i)};
  return {PointwiseArg::kStep, static_cast<uint8_t>(i - program.num_inputs)};
}

// A value of the compute type, by way of a cast where it has another.
inline PointwiseArg RandomCase::ArgumentOf(Compute compute) {
  if (Below(4) == 0) {
    const uint8_t i = program.num_constants++;
    PointwiseConstant& constant = program.constants[i];
    if (compute == Compute::kF32 || compute == Compute::kF64) {
      constant.f = Number();
    } else {
      constant.i = Below(40) - 20;
    }
    return {PointwiseArg::kConstant, i};
  }
  const PointwiseArg arg = Any();
  const DType dtype = program.DTypeOfArg(arg);
  if (ComputeOf(dtype) == compute) return arg;
  PointwiseStep& step = program.steps[program.num_steps];
  step = {};
  step.fn = Fn::kCast;
  step.compute = compute;
  step.from = ComputeOf(dtype);
  do step.dtype = AnyDType();
  while (ComputeOf(step.dtype) != compute);
  step.args[0] = arg;
  return {PointwiseArg::kStep, program.num_steps++};
}

inline void RandomCase::AddStep(bool exact) {
  Fn fn;
  do fn = static_cast<Fn>(Below(static_cast<int64_t>(Fn::kCount)));
  while (fn == Fn::kCast || (exact && !IsExact(fn)));
  DType dtype;
  do dtype = AnyDType();
  while ((Info(fn).float_only || (exact && fn == Fn::kPower)) != IsFloat(dtype) &&
         (Info(fn).float_only || fn == Fn::kPower));
  if (exact && fn == Fn::kPower && IsFloat(dtype)) dtype = DType::kInt32;
  PointwiseStep step;
  step.fn = fn;
  step.compute = step.from = ComputeOf(dtype);
  step.dtype = dtype;
  for (int a = 0; a < Info(fn).arity; ++a) step.args[a] = ArgumentOf(step.compute);
  program.steps[program.num_steps++] = step;
}

inline void RandomCase::AddOutputs() {
  std::vector<bool> taken(program.num_inputs);
  for (int64_t n = 1 + Below(3); n > 0; --n) {
    const int o = program.num_outputs++;
    const bool last = program.num_steps > 0 && o == 0;
    program.outputs[o] = last
                             ? PointwiseArg{PointwiseArg::kStep,
                                            static_cast<uint8_t>(program.num_steps - 1)}
                             : Any();
    const int i = static_cast<int>(Below(program.num_inputs));
    const bool fits = shapes[i] == space && !taken[i] &&
                      SizeOf(program.inputs[i]) == SizeOf(OutputDType(o));
    in_place.push_back(fits && Below(2) ? i : -1);
    if (in_place.back() >= 0) taken[i] = true;
  }
}

inline void RandomCase::SameNan(DType dtype, std::vector<char>& bytes) {
  if (!IsFloat(dtype)) return;
  VisitFloat(dtype, [&]<typename T>() {
    for (size_t k = 0; k + sizeof(T) <= bytes.size(); k += sizeof(T)) {
      T value;
      std::memcpy(&value, bytes.data() + k, sizeof(T));
      if (static_cast<double>(value) == static_cast<double>(value)) continue;
      value = static_cast<T>(std::numeric_limits<float>::quiet_NaN());
      std::memcpy(bytes.data() + k, &value, sizeof(T));
    }
  });
}

inline RandomCase::Outputs RandomCase::Run(Executor executor) const {
  std::vector<std::vector<char>> inputs = data;
  std::vector<PointwiseInput> in;
  for (size_t i = 0; i < inputs.size(); ++i)
    in.push_back({inputs[i].data(), &shapes[i]});
  Outputs apart(program.num_outputs);
  std::vector<void*> out;
  for (int o = 0; o < program.num_outputs; ++o) {
    apart[o].assign(space.size() * SizeOf(OutputDType(o)), 0x55);
    out.push_back(in_place[o] >= 0 ? inputs[in_place[o]].data() : apart[o].data());
  }
  executor(program, space, in, out);
  for (int o = 0; o < program.num_outputs; ++o) {
    if (in_place[o] >= 0) apart[o] = inputs[in_place[o]];
    SameNan(OutputDType(o), apart[o]);
  }
  return apart;
}

}  // namespace plait::cpu

#endif  // PLAIT_CPU_RANDOM_PROGRAM_H_
