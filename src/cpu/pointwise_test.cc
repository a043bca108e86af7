// Tests of what pointwise programs compute: single facts, in words.

#include "cpu/pointwise.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace plait::cpu {
namespace {

constexpr PointwiseArg In(int i) {
  return {PointwiseArg::kInput, static_cast<uint8_t>(i)};
}
constexpr PointwiseArg Const(int i) {
  return {PointwiseArg::kConstant, static_cast<uint8_t>(i)};
}
constexpr PointwiseArg Step(int i) {
  return {PointwiseArg::kStep, static_cast<uint8_t>(i)};
}

// A program of one step on inputs of one dtype, with one output.
PointwiseProgram OneStep(Fn fn, DType dtype, int arity) {
  PointwiseProgram p;
  p.num_inputs = static_cast<uint8_t>(arity);
  for (int i = 0; i < arity; ++i) p.inputs[i] = dtype;
  p.num_steps = p.num_outputs = 1;
  p.steps[0] = {.fn = fn, .compute = ComputeOf(dtype), .dtype = dtype};
  for (int i = 0; i < arity; ++i) p.steps[0].args[i] = In(i);
  p.outputs[0] = Step(0);
  return p;
}

template <typename T>
std::vector<T> Binary(Fn fn, std::vector<T> x, std::vector<T> y) {
  const PointwiseProgram p = OneStep(fn, kDTypeOf<T>, 2);
  const Shape shape({static_cast<int64_t>(x.size())});
  const PointwiseInput in[] = {{x.data(), &shape}, {y.data(), &shape}};
  std::vector<T> result(x.size());
  void* out[] = {result.data()};
  RunPointwise(p, shape, in, out);
  return result;
}

TEST(Pointwise, SmallIntegersWrapAfterEveryStep) {
  // (200 + 100) / 2 in uint8 is 22, as if the sum had been stored.
  PointwiseProgram p = OneStep(Fn::kAdd, DType::kUint8, 2);
  p.num_constants = 1;
  p.constants[0].i = 2;
  p.num_steps = 2;
  p.steps[1] = {.fn = Fn::kDiv,
                .compute = Compute::kI32,
                .dtype = DType::kUint8,
                .args = {Step(0), Const(0), {}}};
  p.outputs[0] = Step(1);
  const uint8_t x[] = {200}, y[] = {100};
  uint8_t z[] = {0};
  const Shape shape({1});
  const PointwiseInput in[] = {{x, &shape}, {y, &shape}};
  void* out[] = {z};
  RunPointwise(p, shape, in, out);
  EXPECT_EQ(z[0], 22);
}

TEST(Pointwise, IntegerDivisionNeverTraps) {
  constexpr int32_t kMin = std::numeric_limits<int32_t>::min();
  constexpr int64_t kMin64 = std::numeric_limits<int64_t>::min();
  EXPECT_EQ(Binary<int32_t>(Fn::kDiv, {7, -7, 5, kMin}, {2, 2, 0, -1}),
            (std::vector<int32_t>{3, -3, 0, kMin}));
  EXPECT_EQ(Binary<int64_t>(Fn::kDiv, {7, -7, 5, kMin64}, {2, 2, 0, -1}),
            (std::vector<int64_t>{3, -3, 0, kMin64}));
  EXPECT_EQ(Binary<int32_t>(Fn::kMod, {7, -7, 7, -7, 5, kMin}, {3, 3, -3, -3, 0, -1}),
            (std::vector<int32_t>{1, 2, -2, -1, 0, 0}));
  EXPECT_EQ(Binary<uint64_t>(Fn::kDiv, {~uint64_t{0}, 9}, {2, 0}),
            (std::vector<uint64_t>{~uint64_t{0} >> 1, 0}));
}

TEST(Pointwise, MaximumPassesNanOnFromEitherSide) {
  const float nan = std::nanf("");
  const auto max = Binary<float>(Fn::kMaximum, {nan, 3, 1}, {3, nan, 2});
  EXPECT_TRUE(std::isnan(max[0]) && std::isnan(max[1]));
  EXPECT_EQ(max[2], 2);
}

TEST(Pointwise, ASquareIsExact) {
  PointwiseProgram p = OneStep(Fn::kPower, DType::kFloat32, 1);
  p.num_constants = 1;
  p.constants[0].f = 2;
  p.steps[0].args[1] = Const(0);
  std::vector<float> x(100), y(100);
  for (int i = 0; i < 100; ++i) x[i] = 1.1f * static_cast<float>(i);
  const Shape shape({100});
  const PointwiseInput in[] = {{x.data(), &shape}};
  void* out[] = {y.data()};
  RunPointwise(p, shape, in, out);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(y[i], x[i] * x[i]);
}

TEST(Pointwise, ColumnsAndRowsBroadcast) {
  const PointwiseProgram p = OneStep(Fn::kAdd, DType::kFloat32, 2);
  const float x[] = {10, 20}, y[] = {1, 2, 3};
  const Shape column({2, 1}), row({3}), space({2, 3});
  const PointwiseInput in[] = {{x, &column}, {y, &row}};
  std::vector<float> result(6);
  void* out[] = {result.data()};
  RunPointwise(p, space, in, out);
  EXPECT_EQ(result, (std::vector<float>{11, 12, 13, 21, 22, 23}));
}

TEST(Pointwise, AnOutputMayBeAnInput) {
  const PointwiseProgram p = OneStep(Fn::kMul, DType::kFloat32, 2);
  std::vector<float> x(1000, 3), y(1000, 2);
  const Shape shape({1000});
  const PointwiseInput in[] = {{x.data(), &shape}, {y.data(), &shape}};
  void* out[] = {x.data()};
  RunPointwise(p, shape, in, out);
  EXPECT_EQ(x, std::vector<float>(1000, 6));
}

// w += m / 3 and m *= w in parts whose borders lie anywhere, and at once.
TEST(Pointwise, PartsGiveTheBitsOfTheWhole) {
  PointwiseProgram p = OneStep(Fn::kDiv, DType::kFloat32, 2);
  p.num_steps = 3;
  p.num_constants = 1;
  p.constants[0].f = 3;
  p.steps[1] = p.steps[2] = p.steps[0];
  p.steps[0].args[0] = In(1), p.steps[0].args[1] = Const(0);
  p.steps[1].fn = Fn::kAdd, p.steps[1].args[0] = In(0), p.steps[1].args[1] = Step(0);
  p.steps[2].fn = Fn::kMul, p.steps[2].args[0] = In(1), p.steps[2].args[1] = In(0);
  p.num_outputs = 2;
  p.outputs[0] = Step(1), p.outputs[1] = Step(2);
  constexpr int64_t kSize = 200'003;
  const auto run = [&](auto&& each) {
    std::vector<float> w(kSize), m(kSize);
    for (int64_t i = 0; i < kSize; ++i)
      w[i] = 1.0f / static_cast<float>(i + 1), m[i] = static_cast<float>(i % 17);
    const Shape space{kSize - 1};  // begins between two lines of memory
    const PointwiseInput in[] = {{&w[1], &space}, {&m[1], &space}};
    void* const out[] = {&w[1], &m[1]};
    each(space, in, out);
    w.insert(w.end(), m.begin(), m.end());
    return w;
  };
  const auto whole = run([&](const Shape& space, auto& in, auto& out) {
    RunPointwise(p, space, in, out);
  });
  const auto parts = run([&](const Shape& space, auto& in, auto& out) {
    const int64_t borders[] = {0, 7, 7, 1031, 150'000, space[0]};
    for (int i = 0; i < 5; ++i)
      RunPointwisePart(p, space[0], in, out, borders[i], borders[i + 1]);
  });
  EXPECT_EQ(parts, whole);
}

std::vector<float> Reduce(std::vector<float> x, Shape space, Reduction reduction,
                          uint64_t axes, int64_t kept, double scale = 1) {
  PointwiseProgram p;
  p.num_inputs = p.num_outputs = 1;
  p.inputs[0] = DType::kFloat32;
  p.outputs[0] = In(0);
  const PointwiseInput in{x.data(), &space};
  std::vector<float> result(kept, -1);
  ReducePointwise(p, space, {&in, 1}, reduction, axes, scale, result.data());
  return result;
}

TEST(Reduce, AnySetOfAxes) {
  const std::vector<float> x = {1, 2, 3, 4, 5, 6, 7, 8};
  const Shape space({2, 2, 2});
  using V = std::vector<float>;
  EXPECT_EQ(Reduce(x, space, Reduction::kSum, 0b111, 1), V({36}));
  EXPECT_EQ(Reduce(x, space, Reduction::kSum, 0b100, 4), V({3, 7, 11, 15}));
  EXPECT_EQ(Reduce(x, space, Reduction::kSum, 0b001, 4), V({6, 8, 10, 12}));
  EXPECT_EQ(Reduce(x, space, Reduction::kSum, 0b101, 2), V({14, 22}));
  EXPECT_EQ(Reduce(x, space, Reduction::kMax, 0b010, 4), V({3, 4, 7, 8}));
  EXPECT_EQ(Reduce(x, space, Reduction::kProd, 0b110, 2), V({24, 1680}));
  EXPECT_EQ(Reduce(x, space, Reduction::kSum, 0b111, 1, 1.0 / 8), V({4.5}));
}

TEST(Reduce, InfinitiesStay) {
  const float inf = std::numeric_limits<float>::infinity();
  EXPECT_EQ(Reduce({inf, inf}, {2}, Reduction::kSum, 1, 1)[0], inf);
  EXPECT_EQ(Reduce({inf, inf}, {2}, Reduction::kMin, 1, 1)[0], inf);
  EXPECT_EQ(Reduce({-inf, -inf}, {2}, Reduction::kMax, 1, 1)[0], -inf);
  EXPECT_TRUE(std::isnan(Reduce({inf, -inf}, {2}, Reduction::kSum, 1, 1)[0]));
}

TEST(Reduce, NanWinsAMaximum) {
  EXPECT_TRUE(std::isnan(Reduce({1, NAN, 5}, {3}, Reduction::kMax, 1, 1)[0]));
  EXPECT_TRUE(std::isnan(Reduce({NAN, 1, 5}, {3}, Reduction::kMin, 1, 1)[0]));
}

TEST(Reduce, AnEmptyAxisGivesTheNeutralElement) {
  const Shape space({2, 0});
  EXPECT_EQ(Reduce({}, space, Reduction::kSum, 0b10, 2), (std::vector<float>{0, 0}));
  EXPECT_EQ(Reduce({}, space, Reduction::kProd, 0b10, 2), (std::vector<float>{1, 1}));
}

TEST(Convert, FloatsToIntegersSaturateAndTruncate) {
  const float x[] = {1.9f, -1.9f, 3e9f, -3e9f, NAN, INFINITY};
  int32_t y[6];
  Convert(x, DType::kFloat32, y, DType::kInt32, 6);
  EXPECT_EQ(std::vector<int32_t>(y, y + 6),
            (std::vector<int32_t>{1, -1, INT32_MAX, INT32_MIN, 0, INT32_MAX}));
}

TEST(Convert, BoolIsWhetherTheValueIsNotZero) {
  const float x[] = {0.5f, 0, -0.0f, NAN};
  bool y[4];
  Convert(x, DType::kFloat32, y, DType::kBool, 4);
  EXPECT_TRUE(y[0] && !y[1] && !y[2] && y[3]);
}

TEST(Convert, DoubleToHalfRoundsOnce) {
  // Just above a tie between two halves: rounding to float first would reach the tie.
  const double x[] = {1.0 + 0x1p-11 + 0x1p-40};
  uint16_t y[1];
  Convert(x, DType::kFloat64, y, DType::kFloat16, 1);
  EXPECT_EQ(y[0], 0x3c01);
}

}  // namespace
}  // namespace plait::cpu
