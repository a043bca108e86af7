// Reductions of random programs and shapes against the plain executor.

#include <gtest/gtest.h>

#include "base/parallel.h"
#include "cpu/pointwise_plain.h"
#include "cpu/random_program.h"
#include "cpu/simd/kernels.h"

namespace plait::cpu {
namespace {

constexpr PointwiseArg In(int i) {
  return {PointwiseArg::kInput, static_cast<uint8_t>(i)};
}

class RandomReductions : public testing::TestWithParam<int64_t> {
 protected:
  void SetUp() override { internal::UseTargetForTest(GetParam()); }
  void TearDown() override { internal::UseTargetForTest(-1); }
};

// A reduction whose sums are exact, so that every order of additions agrees.
struct ExactCase {
  explicit ExactCase(uint64_t seed, int64_t max_elements)
      : base(seed, true, max_elements), random(seed) {
    const auto below = [this](int64_t n) { return static_cast<int64_t>(random() % n); };
    constexpr DType kDTypes[] = {DType::kFloat32, DType::kFloat64, DType::kFloat16,
                                 DType::kInt32,   DType::kInt8,    DType::kUint8,
                                 DType::kInt64,   DType::kUint64,  DType::kUint32,
                                 DType::kBool,    DType::kBfloat16};
    dtype = kDTypes[below(std::size(kDTypes))];
    space = base.space;
    shapes.push_back(space);
    std::vector<int64_t> sizes(space.begin(), space.end());
    for (int64_t& size : sizes) size = below(2) ? size : 1;
    shapes.emplace_back(sizes.begin(), sizes.end());
    reduction = static_cast<Reduction>(below(4));
    axes = random() & ((uint64_t{1} << space.rank()) - 1);
    program.num_inputs = 2;
    program.num_steps = program.num_outputs = 1;
    program.inputs[0] = program.inputs[1] = dtype;
    program.steps[0].fn = Fn::kMul;
    program.steps[0].compute = ComputeOf(dtype);
    program.steps[0].dtype = dtype;
    program.steps[0].args[0] = In(0);
    program.steps[0].args[1] = In(1);
    program.outputs[0] = {PointwiseArg::kStep, 0};
    if (below(3) == 0) {  // no step at all
      program.num_steps = 0;
      program.outputs[0] = In(0);
    }
    kept = 1;
    for (int i = 0; i < space.rank(); ++i) kept *= axes >> i & 1 ? 1 : space[i];
    for (const Shape& shape : shapes) {
      std::vector<char> bytes(shape.size() * SizeOf(dtype));
      VisitDType(dtype, [&]<typename T>() {
        for (int64_t i = 0; i < shape.size(); ++i) {
          // No zeros where -0 and 0 are both the maximum.
          int64_t n = below(5) - 2;
          if (n == 0 && reduction != Reduction::kSum) n = 3;
          const T value = reduction == Reduction::kProd
                              ? T(static_cast<float>(n < 0 ? -1 : 1))
                              : T(static_cast<float>(n));
          std::memcpy(&bytes[i * sizeof(T)], &value, sizeof(T));
        }
      });
      data.push_back(std::move(bytes));
    }
  }
  using Executor = decltype(&plain::ReducePointwise);
  std::vector<char> Run(Executor executor) const {
    const std::vector<PointwiseInput> in = {{data[0].data(), &shapes[0]},
                                            {data[1].data(), &shapes[1]}};
    std::vector<char> result(kept * SizeOf(dtype), 0x55);
    executor(program, space, in, reduction, axes, 0.25, result.data());
    return result;
  }

  RandomCase base;
  std::mt19937_64 random;
  DType dtype;
  Shape space;
  std::vector<Shape> shapes;
  std::vector<std::vector<char>> data;
  PointwiseProgram program;
  Reduction reduction;
  uint64_t axes;
  int64_t kept;
};

TEST_P(RandomReductions, EqualThePlainExecutor) {
  for (uint64_t seed = 0; seed < 1500 && !HasFailure(); ++seed) {
    const ExactCase c(seed, seed % 50 == 0 ? 300000 : 4000);
    EXPECT_EQ(c.Run(ReducePointwise), c.Run(plain::ReducePointwise))
        << "seed " << seed << ", " << c.dtype << " " << c.space << ", axes " << c.axes
        << ", reduction " << static_cast<int>(c.reduction);
  }
}

TEST_P(RandomReductions, DoNotDependOnThreads) {
  for (uint64_t seed = 0; seed < 40 && !HasFailure(); ++seed) {
    ExactCase c(seed, 400000);
    if (IsFloat(c.dtype)) {  // sums that do depend on their order
      VisitFloat(c.dtype, [&]<typename T>() {
        for (size_t i = 0; i < c.data[0].size(); i += sizeof(T)) {
          const T value = T(static_cast<float>(1.0 / (1 + c.random() % 1000)));
          std::memcpy(&c.data[0][i], &value, sizeof(T));
        }
      });
    }
    const auto serial = c.Run(ReducePointwise);
    const ScopedComputeThreads threads(2 + static_cast<int>(seed % 3));
    EXPECT_EQ(c.Run(ReducePointwise), serial) << "seed " << seed << " " << c.space;
  }
}

// What an executor that reduces the last output needs and makes beside the outputs.
struct Tail {
  PointwiseReduction reduction;
  std::vector<char> result;
};
thread_local Tail tail;

void ReduceTheLastOutput(const PointwiseProgram& program, const Shape& space,
                         std::span<const PointwiseInput> inputs,
                         std::span<void* const> outputs) {
  ReducePointwise(program, space, inputs, outputs.first(outputs.size() - 1),
                  tail.reduction, tail.result.data());
}

TEST_P(RandomReductions, AreThoseOfTheStoredValuesBesideOtherOutputs) {
  for (uint64_t seed = 30000; seed < 31500 && !HasFailure(); ++seed) {
    RandomCase c(seed, false, seed % 50 == 0 ? 200000 : 5000);
    const int last = c.program.num_outputs - 1;
    const DType dtype = c.OutputDType(last);
    PointwiseReduction& r = tail.reduction;
    r.kind = static_cast<Reduction>(c.Below(4));
    r.axes =
        static_cast<uint64_t>(c.Below(1 << 4)) & ((uint64_t{1} << c.space.rank()) - 1);
    r.scale = c.Below(2) ? 1 : 0.125;
    r.root = c.Below(4) == 0;
    r.dtype = c.Below(3) == 0 ? DType::kFloat64 : dtype;
    int64_t kept = 1;
    for (int i = 0; i < c.space.rank(); ++i) kept *= r.axes >> i & 1 ? 1 : c.space[i];
    tail.result.assign(kept * SizeOf(r.dtype), 0x55);
    const auto stored = c.Run(RunPointwise);
    const auto fused = c.Run(ReduceTheLastOutput);
    for (int o = 0; o < last; ++o) EXPECT_EQ(fused[o], stored[o]) << "seed " << seed;

    PointwiseProgram identity;
    identity.num_inputs = identity.num_outputs = 1;
    identity.inputs[0] = dtype;
    identity.outputs[0] = In(0);
    const PointwiseInput values{stored[last].data(), &c.space};
    std::vector<char> expected(tail.result.size(), 0x55);
    ReducePointwise(identity, c.space, {&values, 1}, {}, r, expected.data());
    RandomCase::SameNan(r.dtype, expected);
    RandomCase::SameNan(r.dtype, tail.result);
    EXPECT_EQ(tail.result, expected)
        << "seed " << seed << ", " << dtype << " " << c.space << ", axes " << r.axes;
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, RandomReductions,
                         testing::ValuesIn(internal::TargetsForTest()));

template <typename T>
T Sum(const std::vector<T>& x, double scale = 1) {
  PointwiseProgram p;
  p.num_inputs = p.num_outputs = 1;
  p.inputs[0] = kDTypeOf<T>;
  p.outputs[0] = In(0);
  const Shape space({static_cast<int64_t>(x.size())});
  const std::vector<PointwiseInput> in = {{x.data(), &space}};
  T result;
  ReducePointwise(p, space, in, Reduction::kSum, 1, scale, &result);
  return result;
}

TEST(Reduce, LongSumsKeepTheirDigits) {
  // A running float sum of ones stops at 2^24.
  EXPECT_EQ(Sum(std::vector<float>(20'000'001, 1.f)), 20'000'000.f);
  std::vector<double> x(1'000'003, 0.1);
  EXPECT_NEAR(Sum(x), 100000.3, 1e-9);
}

// A long program has shorter tiles, but its sum is that of its values.
TEST(Reduce, ASumDoesNotDependOnTheProgramThatMakesItsValues) {
  std::mt19937 random(1);
  const Shape space({7, 5, 1300});
  std::vector<float> x(space.size());
  for (float& v : x) v = static_cast<float>(random()) / 4e9f;
  PointwiseProgram p;
  p.num_outputs = 1;
  p.num_inputs = PointwiseProgram::kMaxInputs;
  std::vector<PointwiseInput> in;
  for (int i = 0; i < p.num_inputs; ++i) {
    p.inputs[i] = DType::kFloat32;
    in.push_back({x.data(), &space});
  }
  p.outputs[0] = In(0);
  PointwiseProgram longer = p;
  longer.num_steps = PointwiseProgram::kMaxInputs;
  for (int s = 0; s < longer.num_steps; ++s) {
    longer.steps[s].fn = s == 0 ? Fn::kCopy : Fn::kMaximum;
    longer.steps[s].args[0] = In(s);
    longer.steps[s].args[1] = {PointwiseArg::kStep, static_cast<uint8_t>(s - 1)};
  }
  longer.outputs[0] = {PointwiseArg::kStep, static_cast<uint8_t>(longer.num_steps - 1)};
  for (uint64_t axes = 0; axes < 8; ++axes) {
    std::vector<float> a(space.size()), b(space.size());
    ReducePointwise(p, space, in, Reduction::kSum, axes, 1, a.data());
    ReducePointwise(longer, space, in, Reduction::kSum, axes, 1, b.data());
    EXPECT_EQ(a, b) << axes;
  }
}

TEST(Reduce, HalvesAccumulateInFloatAndRoundOnce) {
  const std::vector<Float16> ones(5000, Float16(1.f));
  EXPECT_EQ(static_cast<float>(Sum(ones)), 5000.f);
  const std::vector<Float16> large(100, Float16(1000.f));
  EXPECT_EQ(static_cast<float>(Sum(large, 0.01)), 1000.f);  // the sum itself overflows
}

}  // namespace
}  // namespace plait::cpu
