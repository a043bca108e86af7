// Lazy programs: random ones, in one thread and several, give the eager result.

#include <gtest/gtest.h>

#include <random>
#include <thread>

#include "run/lazy.h"
#include "run/testing.h"

namespace plait {
namespace {

using testing::BytesOf;
using testing::CallOp;
using testing::Make;
using testing::Scalar;
using testing::ValuesOf;

// A sequence of calls on a few arrays, the same for the same seed.
class RandomProgram {
 public:
  RandomProgram(uint32_t seed, int steps) : seed_(seed), steps_(steps) {}

  // The bytes of every array that was alive at the end.
  std::vector<std::string> Execute(bool lazy) {
    const bool before = LazyEnabled();
    LazyEnabled() = lazy;
    random_.seed(seed_);
    arrays_.clear();
    for (int i = 0; i < 4; ++i) arrays_.push_back(Start());
    for (int i = 0; i < steps_; ++i) Step();
    std::vector<std::string> bytes;
    for (const NDArray& a : arrays_) bytes.push_back(BytesOf(a));
    arrays_.clear();
    LazyEnabled() = before;
    return bytes;
  }

 private:
  static constexpr DType kTypes[] = {DType::kFloat32,  DType::kFloat64, DType::kFloat16,
                                     DType::kBfloat16, DType::kInt32,   DType::kUint8,
                                     DType::kInt64};
  int Pick(int n) { return static_cast<int>(random_() % static_cast<uint32_t>(n)); }

  NDArray Start() {
    const Shape shapes[] = {{6}, {1}, {5, 6}, {5, 1}, {40, 50}, {2, 3, 400}};
    const Shape& shape = shapes[Pick(6)];
    std::vector<double> values(shape.size());
    for (double& v : values) v = Pick(2001) / 100.0 - 10;
    return Make(shape, values, kTypes[Pick(7)]);
  }

  const NDArray& Any() { return arrays_[Pick(static_cast<int>(arrays_.size()))]; }

  void Keep(NDArray a) {
    if (arrays_.size() < 8) {
      arrays_.push_back(std::move(a));
    } else {
      arrays_[Pick(8)] = std::move(a);
    }
  }

  void Step() {
    const char* unary[] = {"negative", "abs", "tanh", "square", "sigmoid", "floor"};
    const char* binary[] = {"broadcast_add", "broadcast_sub", "broadcast_mul",
                            "broadcast_maximum", "broadcast_greater"};
    const char* scalar[] = {"_plus_scalar", "_mul_scalar", "_rminus_scalar",
                            "_maximum_scalar"};
    const NDArray x = Any();
    switch (Pick(12)) {
      case 9:
      case 10:
      case 11:
        return Reduce();
      case 0:
        return Keep(CallOp(unary[Pick(6)], {x}));
      case 1:
      case 2: {
        const NDArray y = Any();
        try {
          return Keep(CallOp(binary[Pick(5)], {x, y}));
        } catch (const Error&) {
          return;  // shapes that do not broadcast
        }
      }
      case 3:
        return Keep(Scalar(scalar[Pick(4)], x, Pick(9) - 4));
      case 4:
        Scalar(scalar[Pick(4)], x, Pick(9) - 4, x);
        return;
      case 5: {
        const NDArray y = Any();
        try {
          CallOp(binary[Pick(5)], {x, y}, {}, x);
        } catch (const Error&) {
        }
        return;
      }
      case 6: {
        if (x.shape()[0] < 2) return;
        const int64_t first = Pick(static_cast<int>(x.shape()[0] - 1));
        return Keep(x.Slice(first, first + 1 + Pick(2)));
      }
      case 7:
        return Keep(x.Reshape({x.size()}));
      default:
        return Keep(x.Detach());
    }
  }

  // A reduction, mostly of something that was just computed, and sometimes its value
  // goes to an array that is there already.
  void Reduce() {
    const char* ops[] = {"sum", "mean", "prod", "max", "min", "norm", "nansum"};
    NDArray x = Any();
    if (Pick(3) > 0) {
      const NDArray y = CallOp("broadcast_mul", {x, x});
      if (Pick(2)) Keep(y);
      x = y;
    }
    std::vector<NamedAttr> attrs = {{"keepdims", {Pick(2) == 1}}};
    const int64_t axis = Pick(x.shape().rank() + 1);
    if (axis < x.shape().rank()) attrs.push_back({"axis", {axis}});
    const char* op = ops[Pick(7)];
    if (Pick(4) > 0) return Keep(CallOp(op, {x}, attrs));
    try {
      CallOp(op, {x}, attrs, Any());
    } catch (const Error&) {
    }
  }

  const uint32_t seed_;
  const int steps_;
  std::mt19937 random_;
  std::vector<NDArray> arrays_;
};

TEST(Lazy, RandomProgramsGiveTheEagerResult) {
  for (uint32_t seed = 0; seed < 300; ++seed) {
    RandomProgram program(seed, 60);
    const auto eager = program.Execute(false);
    const auto lazy = program.Execute(true);
    ASSERT_EQ(eager.size(), lazy.size());
    for (size_t i = 0; i < eager.size(); ++i) {
      ASSERT_EQ(eager[i], lazy[i]) << "seed " << seed << ", array " << i;
    }
  }
}

TEST(Lazy, RandomProgramsInSeveralThreadsGiveTheEagerResult) {
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (uint32_t t = 0; t < 4; ++t) {
    threads.emplace_back([t, &wrong] {
      for (uint32_t i = 0; i < 25; ++i) {
        RandomProgram program(1000 + 100 * t + i, 60);
        if (program.Execute(false) != program.Execute(true)) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong.load(), 0);
}

// Threads pass arrays on while they are pending, and write what others read.
TEST(Lazy, ThreadsShareArrays) {
  const NDArray weight = Make({64}, std::vector<double>(64, 1));
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 300; ++i) {
        NDArray y = Scalar("_plus_scalar", weight, t);
        y = CallOp("broadcast_mul", {y, weight});
        if (i % 3 == 0) y = Scalar("_minus_scalar", y, 1, y);
        const NDArray sum = CallOp("sum", {y});
        if (i % 2 == 0) y = NDArray();
        const double expected = t + 1 - (i % 3 == 0);
        if (ValuesOf(sum)[0] != 64 * expected) ++wrong;
        if (y && ValuesOf(y)[5] != expected) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong.load(), 0);
}

}  // namespace
}  // namespace plait
