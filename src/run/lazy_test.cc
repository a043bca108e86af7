// Lazy programs: whatever the order of calls, views, writes and threads, the values are
// those of calls that run at once, bit for bit.

#include "run/lazy.h"

#include <gtest/gtest.h>

#include <chrono>
#include <random>
#include <thread>

#include "engine/engine.h"
#include "memory/storage.h"
#include "run/testing.h"

namespace plait {
namespace {

using testing::BytesOf;
using testing::CallOp;
using testing::Make;
using testing::Scalar;
using testing::ValuesOf;

TEST(Lazy, ChainOfAdditionsGivesEveryStepItsValue) {
  NDArray x = Make({3}, {1, 2, 3});
  const NDArray one = Make({3}, {1, 1, 1});
  std::vector<NDArray> kept;
  for (int i = 0; i < 100; ++i) {
    x = CallOp("broadcast_add", {x, one});
    if (i % 7 == 0) kept.push_back(x);
  }
  EXPECT_EQ(ValuesOf(x), (std::vector<double>{101, 102, 103}));
  for (size_t k = 0; k < kept.size(); ++k) {
    EXPECT_EQ(ValuesOf(kept[k])[0], 2.0 + 7.0 * static_cast<double>(k));
  }
}

TEST(Lazy, WriteToAnInputComesAfterEarlierReads) {
  const NDArray x = Make({2}, {1, 2});
  const NDArray y = Scalar("_mul_scalar", x, 10);  // pending: reads x
  Scalar("_plus_scalar", x, 5, x);                 // writes x
  const NDArray z = Scalar("_mul_scalar", x, 10);  // reads the new x
  EXPECT_EQ(ValuesOf(y), (std::vector<double>{10, 20}));
  EXPECT_EQ(ValuesOf(z), (std::vector<double>{60, 70}));
  EXPECT_EQ(ValuesOf(x), (std::vector<double>{6, 7}));
}

TEST(Lazy, HostWriteComesAfterPendingReads) {
  const NDArray x = Make({2}, {1, 2});
  const NDArray y = Scalar("_mul_scalar", x, 10);
  const float fresh[] = {7, 7};
  x.CopyFromHost(fresh);
  EXPECT_EQ(ValuesOf(y), (std::vector<double>{10, 20}));
}

TEST(Lazy, ViewsSeePendingWrites) {
  const NDArray x = Make({4}, {1, 2, 3, 4});
  const NDArray tail = x.Slice(2, 4);
  Scalar("_mul_scalar", x, 2, x);
  EXPECT_EQ(ValuesOf(tail), (std::vector<double>{6, 8}));
  Scalar("_plus_scalar", tail, 100, tail);
  EXPECT_EQ(ValuesOf(x), (std::vector<double>{2, 4, 106, 108}));
}

TEST(Lazy, OverlappingOutputAndInputDoNotMix) {
  const NDArray x = Make({5}, {1, 2, 3, 4, 5});
  const NDArray head = x.Slice(0, 4), tail = x.Slice(1, 5);
  CallOp("broadcast_add", {head, head}, {}, tail);
  EXPECT_EQ(ValuesOf(x), (std::vector<double>{1, 2, 4, 6, 8}));
}

TEST(Lazy, DetachedViewOfAPendingArraySharesItsMemory) {
  const NDArray x = Make({2}, {1, 2});
  const NDArray y = Scalar("_plus_scalar", x, 1);
  const NDArray view = y.Detach();
  Scalar("_mul_scalar", y, 10, y);
  EXPECT_EQ(ValuesOf(view), (std::vector<double>{20, 30}));
}

TEST(Lazy, NarrowTypesRoundAtEveryStep) {
  const NDArray bytes = Make({1}, {200}, DType::kUint8);
  const NDArray hundred = Make({1}, {100}, DType::kUint8);
  const NDArray sum = CallOp("broadcast_add", {bytes, hundred});
  EXPECT_EQ(ValuesOf(Scalar("_div_scalar", sum, 2))[0], 22);
  const NDArray half = Make({1}, {2048}, DType::kFloat16);
  const NDArray up = Scalar("_plus_scalar", half, 1);
  EXPECT_EQ(ValuesOf(Scalar("_minus_scalar", up, 2048))[0], 0);
}

TEST(Lazy, DroppedIntermediatesAreNotWritten) {
  const Device cpu;
  NDArray x = NDArray::Empty({1 << 16});
  x = Scalar("_mul_scalar", x, 0);
  x.WaitToRead();
  memory::ResetPeak(cpu);
  const size_t before = memory::GetStats(cpu).live;
  NDArray y = x;
  for (int i = 0; i < 12; ++i) y = Scalar("_plus_scalar", y, 1);
  y.WaitToRead();
  EXPECT_LE(memory::GetStats(cpu).peak - before, size_t{2} << 18);
}

TEST(Lazy, ManyLiveResultsFit) {
  const NDArray x = Make({2}, {1, 2});
  std::vector<NDArray> kept;
  for (int i = 0; i < 200; ++i) kept.push_back(Scalar("_plus_scalar", x, i));
  for (int i = 0; i < 200; ++i) EXPECT_EQ(ValuesOf(kept[i])[0], 1 + i);
}

TEST(Lazy, AnotherThreadReadsAPendingArray) {
  const NDArray x = Make({2}, {1, 2});
  const NDArray y = Scalar("_plus_scalar", x, 1);
  std::vector<double> seen;
  std::thread([&] { seen = ValuesOf(y); }).join();
  EXPECT_EQ(seen, (std::vector<double>{2, 3}));
}

TEST(Lazy, EndOfAThreadKeepsItsValues) {
  const NDArray x = Make({2}, {1, 2});
  NDArray y;
  std::thread([&] { y = Scalar("_plus_scalar", x, 1); }).join();
  EXPECT_EQ(ValuesOf(y), (std::vector<double>{2, 3}));
}

// Nobody asks for it, but the engine has nothing else to do.
TEST(Lazy, ALargeProgramThatIsLeftAloneIsFlushed) {
  const NDArray x = Scalar("_mul_scalar", NDArray::Empty({1 << 21}), 0);
  x.WaitToRead();
  for (int i = 0; i < 3; ++i) {
    const NDArray y = Scalar("_plus_scalar", x, i);
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (y.body()->pending != nullptr && std::chrono::steady_clock::now() < end) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    ASSERT_EQ(y.body()->pending, nullptr);
    EXPECT_EQ(ValuesOf(y)[1 << 20], i);
  }
}

TEST(Lazy, WrongShapesThrowAtTheCallAndLeaveEverythingAsItWas) {
  const NDArray x = Make({2}, {1, 2}), y = Make({3}, {1, 2, 3});
  const NDArray pending = Scalar("_plus_scalar", x, 1);
  EXPECT_THROW(CallOp("broadcast_add", {x, y}), Error);
  EXPECT_THROW(CallOp("broadcast_add", {x, x}, {}, y), Error);
  EXPECT_EQ(ValuesOf(pending), (std::vector<double>{2, 3}));
}

TEST(Lazy, AResultWithoutMemoryFailsAloneAndWhatFollowsWorks) {
  const Device cpu;
  const NDArray small = Make({2}, {1, 2});
  const NDArray row = NDArray::Empty({1, 6000}), column = NDArray::Empty({6000, 1});
  memory::SetLimit(cpu, size_t{64} << 20);
  const NDArray huge = CallOp("broadcast_add", {row, column});
  EXPECT_THROW(huge.WaitToRead(), Error);
  EXPECT_THROW(CallOp("negative", {huge}).WaitToRead(), Error);
  EXPECT_EQ(ValuesOf(Scalar("_plus_scalar", small, 1)), (std::vector<double>{2, 3}));
  memory::SetLimit(cpu, 0);
}

// ---------------------------------------------------------------- reductions

TEST(Lazy, AReductionOfATemporaryDoesNotWriteIt) {
  const Device cpu;
  const NDArray x =
      Scalar("_plus_scalar", Scalar("_mul_scalar", NDArray::Empty({1 << 16}), 0), 1);
  x.WaitToRead();
  memory::ResetPeak(cpu);
  const size_t before = memory::GetStats(cpu).live;
  const NDArray sum = CallOp("sum", {CallOp("broadcast_add", {x, x})});
  EXPECT_EQ(ValuesOf(sum), (std::vector<double>{1 << 17}));
  EXPECT_LE(memory::GetStats(cpu).peak - before, size_t{1} << 17);
}

TEST(Lazy, AReductionLeavesWhatIsStillHeld) {
  const NDArray x = Make({2, 3}, {1, 2, 3, 4, 5, 6});
  const NDArray y = Scalar("_mul_scalar", x, 2);
  const NDArray rows = CallOp("sum", {y}, {{"axis", {1}}});
  const NDArray largest = CallOp("max", {y});
  Scalar("_plus_scalar", x, 100, x);
  EXPECT_EQ(ValuesOf(rows), (std::vector<double>{12, 30}));
  EXPECT_EQ(ValuesOf(largest), (std::vector<double>{12}));
  EXPECT_EQ(ValuesOf(y), (std::vector<double>{2, 4, 6, 8, 10, 12}));
  EXPECT_EQ(ValuesOf(x)[5], 106);
}

TEST(Lazy, AReducedArrayIsUsedAtOnce) {
  const NDArray x = Make({2, 1}, {3, 4});
  const NDArray y = Scalar("_mul_scalar", x, 2);
  const NDArray same = CallOp("sum", {y}, {{"axis", {1}}, {"keepdims", {true}}});
  EXPECT_EQ(ValuesOf(CallOp("broadcast_add", {y, same})),
            (std::vector<double>{12, 16}));
  const NDArray total = CallOp("sum", {Scalar("_mul_scalar", x, 2)});
  Scalar("_plus_scalar", total, 1, total);
  EXPECT_EQ(ValuesOf(total), (std::vector<double>{15}));
  EXPECT_EQ(ValuesOf(CallOp("sum", {CallOp("sum", {Scalar("_mul_scalar", x, 3)})}))[0],
            21);
}

TEST(Lazy, AReductionThatNobodyWaitsForIsDropped) {
  const NDArray x = Make({2}, {3, 4});
  const NDArray y = Scalar("_mul_scalar", x, 2);
  CallOp("sum", {y});
  const NDArray mean = CallOp("mean", {y});
  EXPECT_EQ(ValuesOf(mean), (std::vector<double>{7}));
  EXPECT_EQ(ValuesOf(y), (std::vector<double>{6, 8}));
}

TEST(Lazy, AnotherThreadReadsAPendingReduction) {
  const NDArray x = Make({2}, {3, 4});
  const NDArray norm = CallOp("norm", {Scalar("_mul_scalar", x, 2)});
  std::vector<double> seen;
  std::thread([&] { seen = ValuesOf(CallOp("negative", {norm})); }).join();
  EXPECT_EQ(seen, (std::vector<double>{-10}));
}

TEST(Lazy, AWrongReductionThrowsAtTheCall) {
  const NDArray x = Make({2}, {1, 2});
  const NDArray y = Scalar("_plus_scalar", x, 1);
  EXPECT_THROW(CallOp("sum", {y}, {{"axis", {3}}}), Error);
  EXPECT_THROW(CallOp("sum", {y}, {}, Make({3}, {1, 2, 3})), Error);
  EXPECT_EQ(ValuesOf(CallOp("sum", {y})), (std::vector<double>{5}));
}

// ---------------------------------------------------------------- random programs

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
