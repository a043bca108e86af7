// Lazy programs: whatever the order of calls, views, writes and threads, the values are
// those of calls that run at once, bit for bit.

#include "run/lazy.h"

#include <gtest/gtest.h>

#include <chrono>
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
  for (int i = 0; i < 20; ++i) y = Scalar("_plus_scalar", y, 1);
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
  const NDArray x = CallOp("zeros_like", {NDArray::Empty({1 << 21})});
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

// Calls come just when the program is taken for left alone.
TEST(Lazy, CallsMeetTheFlushOfWhatWasLeftAlone) {
  const NDArray x = CallOp("zeros_like", {NDArray::Empty({1 << 20})});
  for (int i = 0; i < 40; ++i) {
    NDArray y = Scalar("_plus_scalar", x, i);
    std::this_thread::sleep_for(std::chrono::microseconds(50 * (i % 12)));
    Scalar("_plus_scalar", x, 1, x);
    const NDArray z = CallOp("broadcast_add", {x, y});
    std::this_thread::sleep_for(std::chrono::microseconds(30 * (i % 20)));
    const NDArray most = CallOp("max", {z});
    y = NDArray();
    EXPECT_EQ(ValuesOf(most)[0], 5 * i + 1);
    EXPECT_EQ(ValuesOf(z)[i], 5 * i + 1);
    Scalar("_plus_scalar", x, 1, x);
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
      Scalar("_plus_scalar", CallOp("zeros_like", {NDArray::Empty({1 << 16})}), 1);
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

}  // namespace
}  // namespace plait
