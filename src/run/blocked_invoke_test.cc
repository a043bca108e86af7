// Imperative calls on blocks of channels: what anybody can see is plain arrays.

#include "run/blocked_invoke.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <thread>

#include "cpu/blocked.h"
#include "memory/storage.h"
#include "ndarray/outside.h"
#include "run/blocked_value.h"
#include "run/tape.h"
#include "run/testing.h"

namespace plait {
namespace {

using testing::CallOp;
using testing::Make;
using testing::Scalar;
using testing::ValuesOf;

using Numbers = std::vector<double>;

class Blocks : public ::testing::Test {
 protected:
  void SetUp() override {
    if (cpu::ChannelBlock() == 0 || !LazyEnabled()) GTEST_SKIP() << "there are none";
  }
};

// While it lives, calls give plain arrays, as before.
class Plain {
 public:
  Plain() { LazyEnabled() = false; }
  ~Plain() { LazyEnabled() = true; }
};

class Recorded {
 public:
  Recorded() { Recording() = Training() = true; }
  ~Recorded() { Recording() = Training() = false; }
};

NDArray Random(const Shape& shape, uint32_t seed, double size = 1) {
  std::mt19937 random(seed);
  Numbers values(static_cast<size_t>(shape.size()));
  for (double& v : values) v = size * (random() % 2001 / 1000.0 - 1);
  return Make(shape, values);
}
NDArray Images(int64_t channels = 48) {
  return Random({4, channels, 12, 12}, 1);
}
NDArray Filters(int64_t channels = 48, uint32_t seed = 2) {
  return Random({channels, channels, 3, 3}, seed, 0.1);
}

NDArray Conv(const NDArray& x, const NDArray& w) {
  return CallOp("Convolution", {x, w},
                {{"kernel", AttrCodec<Shape>::Encode({3, 3})},
                 {"pad", AttrCodec<Shape>::Encode({1, 1})},
                 {"num_filter", {w.shape()[0]}},
                 {"no_bias", {true}}});
}
NDArray Conv(const NDArray& x, const NDArray& w, const NDArray& bias) {
  return CallOp("Convolution", {x, w, bias},
                {{"kernel", AttrCodec<Shape>::Encode({3, 3})},
                 {"pad", AttrCodec<Shape>::Encode({1, 1})},
                 {"num_filter", {w.shape()[0]}}});
}
NDArray MaxPool(const NDArray& x) {
  return CallOp("Pooling", {x},
                {{"kernel", AttrCodec<Shape>::Encode({3, 3})},
                 {"pad", AttrCodec<Shape>::Encode({1, 1})},
                 {"pool_type", {std::string("max")}}});
}
NDArray Normed(const NDArray& x) {
  const Shape c{x.shape()[1]};
  const Numbers ones(static_cast<size_t>(c.size()), 1), zeros(ones.size(), 0);
  return CallOp("BatchNorm",
                {x, Make(c, ones), Make(c, zeros), Make(c, zeros), Make(c, ones)},
                {{"fix_gamma", {false}}});
}

bool InBlocks(const NDArray& x) {
  return static_cast<bool>(BlocksOf(x));
}

void ExpectNear(const Numbers& got, const Numbers& wanted, double tolerance = 2e-5) {
  ASSERT_EQ(got.size(), wanted.size());
  double largest = 0, error = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_EQ(std::isnan(got[i]), std::isnan(wanted[i]));
    if (std::isnan(got[i])) continue;
    largest = std::max(largest, std::abs(wanted[i]));
    error = std::max(error, std::abs(got[i] - wanted[i]));
  }
  EXPECT_LE(error, tolerance * std::max(largest, 1e-3));
}

Numbers PlainConv(const NDArray& x, const NDArray& w) {
  const Plain plain;
  return ValuesOf(Conv(x, w));
}

TEST_F(Blocks, AConvolutionIsPutInOrderForWhoeverLooks) {
  const NDArray x = Images(), w = Filters(), y = Conv(x, w);
  EXPECT_TRUE(InBlocks(y));
  ExpectNear(ValuesOf(y), PlainConv(x, w));
  EXPECT_FALSE(InBlocks(y));
}

TEST_F(Blocks, ANetworkStaysInThem) {
  const auto network = [](const NDArray& x, bool blocks) {
    const NDArray a = CallOp("relu", {Normed(Conv(x, Filters()))});
    const NDArray b = MaxPool(a), c = CallOp("broadcast_add", {a, b});
    const NDArray d = CallOp("Concat", {c, a}, {{"dim", {1}}, {"num_args", {2}}});
    for (const NDArray& y : {a, b, c, d}) EXPECT_EQ(InBlocks(y), blocks);
    return ValuesOf(d);
  };
  const NDArray x = Images();
  const Numbers got = network(x, true);
  const Plain plain;
  ExpectNear(got, network(x, false));
}

TEST_F(Blocks, SmallCallsAndTheirResultsArePlain) {
  const NDArray x = Random({1, 48, 4, 4}, 1);
  EXPECT_FALSE(InBlocks(Conv(x, Filters())));
  EXPECT_FALSE(InBlocks(CallOp("relu", {Images()})));
  const NDArray y = Conv(Images(), Filters()), out = Images();
  CallOp("relu", {y}, {}, out);  // a place that is there already
  EXPECT_FALSE(InBlocks(out));
}

// 60 channels do not fill their blocks, but nearly.
TEST_F(Blocks, WhatFillsTheLastBlockIsSeenByNobody) {
  const NDArray x = Images(60), w = Filters(60);
  const auto chain = [&](bool blocks) {
    const NDArray a = Conv(x, w), b = CallOp("tanh", {Normed(a)}), c = Conv(b, w);
    for (const NDArray& y : {a, b, c}) EXPECT_EQ(InBlocks(y), blocks);
    // Without the filling the exponential of zero would be there.
    const NDArray d = CallOp("exp", {c}), e = Conv(d, w);
    EXPECT_FALSE(InBlocks(d));
    EXPECT_EQ(InBlocks(e), blocks);
    return ValuesOf(Conv(CallOp("sigmoid", {e}), w));
  };
  const Numbers got = chain(true);
  const Plain plain;
  ExpectNear(got, chain(false));
}

TEST_F(Blocks, WhatFillsTheLastBlockStaysZero) {
  for (const auto& [dtype, size] :
       {std::pair{DType::kFloat32, 1e20}, {DType::kFloat16, 300.0}}) {
    for (const int64_t channels : {48, 60}) {
      const auto typed = [dtype = dtype](const NDArray& a) {
        return Make(a.shape(), ValuesOf(a), dtype);
      };
      const NDArray x = typed(Images(channels)), w = typed(Filters(channels));
      const NDArray bias =
          Make({channels}, Numbers(static_cast<size_t>(channels), size), dtype);
      // The square of the filling would be infinite, and zero times that is NaN.
      const NDArray y = Conv(x, w, bias);
      const bool blocks = InBlocks(y);
      EXPECT_TRUE(blocks || dtype == DType::kFloat16);
      const NDArray z = Scalar("_minus_scalar", y, size);
      EXPECT_EQ(InBlocks(z), blocks && channels == 48);
      const NDArray last = Conv(CallOp("broadcast_mul", {z, z}), w);
      EXPECT_EQ(InBlocks(last), blocks);
      for (double v : ValuesOf(last)) ASSERT_TRUE(std::isfinite(v));
    }
  }
}

TEST_F(Blocks, ViewsAndTheArrayShareOneMemory) {
  const NDArray y = Conv(Images(), Filters());
  const NDArray flat = y.Reshape({4, 48 * 144}), last = y.Slice(3, 4);
  EXPECT_TRUE(flat.SharesMemory(y));
  EXPECT_TRUE(last.SharesMemory(flat));
  Scalar("_mul_scalar", last, 0, last);
  const Numbers values = ValuesOf(y);
  EXPECT_EQ(values.back(), 0);
  EXPECT_NE(values.front(), 0);
  const NDArray z = CallOp("relu", {flat.Reshape(y.shape())});
  EXPECT_FALSE(InBlocks(z));
}

TEST_F(Blocks, AWriteIsSeenByAllThatShareTheValue) {
  const NDArray y = Conv(Images(), Filters());
  const NDArray twin(ShareBlocked(y.body()));
  const NDArray reader = CallOp("relu", {y});
  Scalar("_plus_scalar", y, 100, y);
  EXPECT_TRUE(twin.SharesMemory(y));
  EXPECT_EQ(ValuesOf(twin), ValuesOf(y));
  ExpectNear(ValuesOf(reader), [] {
    const Plain plain;
    return ValuesOf(CallOp("relu", {Conv(Images(), Filters())}));
  }());
  y.CopyFromHost(Images().data());
  EXPECT_EQ(ValuesOf(twin), ValuesOf(Images()));
}

TEST_F(Blocks, AValueOutlivesTheArraysItWasMadeFor) {
  NDArray y = Conv(Images(), Filters());
  NDArray twin(ShareBlocked(y.body()));
  y = NDArray();
  EXPECT_TRUE(InBlocks(twin));
  ExpectNear(ValuesOf(twin), PlainConv(Images(), Filters()));
}

TEST_F(Blocks, GradientsAreThoseOfPlainCalls) {
  const auto gradients = [](bool blocks) {
    const NDArray x = Images(), w = Filters(), v = Filters(48, 3);
    for (const NDArray& leaf : {x, w, v})
      AttachGrad(leaf, NDArray::Empty(leaf.shape()), GradReq::kWrite);
    NDArray loss;
    {
      const Recorded scope;
      const NDArray a = CallOp("tanh", {Normed(Conv(x, w))});
      const NDArray b = Conv(a, v);
      EXPECT_EQ(InBlocks(b), blocks);
      const NDArray c = CallOp("broadcast_mul", {CallOp("broadcast_add", {a, b}), a});
      loss = CallOp("sum", {c});
    }
    Backward({&loss, 1}, {}, false, true);
    Numbers all;
    for (const NDArray& leaf : {x, w, v}) {
      const Numbers values = ValuesOf(GradOf(leaf));
      all.insert(all.end(), values.begin(), values.end());
    }
    return all;
  };
  const Numbers got = gradients(true);
  const Plain plain;
  ExpectNear(got, gradients(false), 1e-4);
}

// These need no kernels for blocks, only copies.
TEST(BlockedValues, ReadersInSeveralThreadsSeeOneValue) {
  const NDArray x = Images(), z = CallOp("_block", {x}, {{"channels", {48}}});
  for (int round = 0; round < 8; ++round) {
    const NDArray y = MakeBlocked(z, x.shape());
    std::vector<Numbers> seen(4);
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        if (t == 0) seen[t] = ValuesOf(y);
        if (t == 1) seen[t] = ValuesOf(Scalar("_plus_scalar", y, 0));
        if (t == 2) seen[t] = ValuesOf(y.Detach());
        if (t == 3) {
          const Ref<ArrayBody> twin = ShareBlocked(y.body());
          seen[t] = ValuesOf(twin ? NDArray(twin) : y);
        }
      });
    }
    for (std::thread& t : threads) t.join();
    for (int t = 0; t < 4; ++t) EXPECT_EQ(seen[t], ValuesOf(x));
  }
}

TEST(BlockedValues, AreUsedAgainByOtherArrays) {
  const NDArray x = Images(), z = CallOp("_block", {x}, {{"channels", {48}}});
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 50; ++i) {
        NDArray y = MakeBlocked(z, x.shape());
        const NDArray twin(ShareBlocked(y.body()));
        if (i % 3 == 0) y = NDArray();
        if (i % 3 == 1) twin.WaitToRead();
        EXPECT_EQ(static_cast<bool>(BlocksOf(twin)), i % 3 != 1);
      }
    });
  }
  for (std::thread& t : threads) t.join();
}

TEST_F(Blocks, WrongShapesAreErrorsOfTheCallThatWasMade) {
  const NDArray y = Conv(Images(), Filters());
  for (const NDArray& other : {Images(40), Random({4, 48, 12, 11}, 1)}) {
    try {
      CallOp("broadcast_add", {y, other});
      FAIL() << "no error";
    } catch (const Error& e) {
      EXPECT_NE(std::string(e.what()).find("broadcast_add"), std::string::npos);
    }
  }
  try {
    Conv(y, Filters(40));
    FAIL() << "no error";
  } catch (const Error& e) {
    const std::string text = e.what();
    EXPECT_NE(text.find("Convolution"), std::string::npos) << text;
    EXPECT_EQ(text.find("blocked"), std::string::npos) << text;
  }
  EXPECT_TRUE(InBlocks(y));
}

TEST_F(Blocks, ErrorsHaveTheTextOfPlainCalls) {
  const NDArray y = Conv(Images(), Filters()), same = Images();
  for (const NDArray& other : {Images(40), Random({4, 48, 12, 11}, 1)}) {
    for (const char* op : {"elemwise_add", "broadcast_add", "add_n", "where"}) {
      const auto text = [&](const NDArray& x) -> std::string {
        std::vector<NDArray> in{x, other};
        if (op == std::string("where")) in.push_back(same);
        try {
          CallOp(op, in);
        } catch (const Error& e) {
          return e.what();
        }
        return "no error";
      };
      EXPECT_EQ(text(y), text(same));
      EXPECT_NE(text(y), "no error") << op;
    }
  }
  EXPECT_TRUE(InBlocks(y));
}

TEST_F(Blocks, WithoutMemoryForThePlainFormTheReaderGetsTheError) {
  const NDArray x = Random({16, 48, 64, 64}, 1), w = Filters();
  const NDArray y = Conv(x, w);
  WaitAll();
  memory::EmptyCache(Device{});
  memory::SetLimit(Device{}, memory::GetStats(Device{}).live + 4096);
  EXPECT_THROW(y.WaitToRead(), Error);
  EXPECT_TRUE(InBlocks(y));
  memory::SetLimit(Device{}, 0);
  ExpectNear(ValuesOf(y), PlainConv(x, w));
}

TEST_F(Blocks, KeptFiltersFollowTheirArray) {
  const NDArray x = Images(), w = Filters(), other = Filters(48, 5);
  AttachGrad(w, NDArray::Empty(w.shape()), GradReq::kWrite);
  const auto check = [&] { ExpectNear(ValuesOf(Conv(x, w)), PlainConv(x, w)); };
  check();
  check();
  Scalar("_mul_scalar", w, 3, w);  // still lazy
  check();
  CopyInto(other, w);
  check();
  w.CopyFromHost(Filters(48, 6).data());
  check();
  const NDArray row = w.Slice(7, 8);
  Scalar("_plus_scalar", row, 1, row);
  check();
  BeginLending(w.chunk());  // somebody else may write without a word
  w.data<float>()[5] += 2;
  check();
  w.data<float>()[5] -= 7;
  check();
  NoteWrite(w.body()->chunk);
  EndLending(w.chunk());
  check();
}

size_t Live() {
  WaitAll();
  return memory::GetStats(Device{}).live;
}

TEST_F(Blocks, KeptFiltersMakeRoomForWhateverNeedsIt) {
  const NDArray x = Images(96), w = Filters(96);
  AttachGrad(w, NDArray::Empty(w.shape()), GradReq::kWrite);
  const size_t before = Live();
  Conv(x, w);
  const size_t kept = Live() - before;
  ASSERT_GE(kept, static_cast<size_t>(w.nbytes()));
  memory::EmptyCache(Device{});
  memory::SetLimit(Device{}, before + kept);
  EXPECT_NO_THROW(NDArray::Empty({static_cast<int64_t>(kept / 8)}));
  memory::SetLimit(Device{}, 0);
  EXPECT_LT(Live(), before + kept);
  ExpectNear(ValuesOf(Conv(x, w)), PlainConv(x, w));
}

TEST_F(Blocks, APredictionNeedsNoMoreMemoryThanWithoutKeptFilters) {
  const NDArray x = Images(96);
  std::vector<NDArray> filters;
  for (uint32_t i = 0; i < 4; ++i) filters.push_back(Filters(96, i));
  const auto predict = [&] {
    NDArray y = x;
    for (const NDArray& w : filters) {
      y = Conv(y, w);
      WaitAll();
    }
    return ValuesOf(y);
  };
  size_t before = Live();
  memory::ResetPeak(Device{});
  const Numbers wanted = predict();
  const size_t needed = memory::GetStats(Device{}).peak - before;
  for (const NDArray& w : filters)
    AttachGrad(w, NDArray::Empty(w.shape()), GradReq::kWrite);
  before = Live();
  memory::EmptyCache(Device{});
  // An operation that has just ended may hold its filters for a moment still; all four
  // would take 5 MB.
  memory::SetLimit(Device{}, before + needed + (3 << 20));
  for (int i = 0; i < 2; ++i) {
    Numbers got;
    EXPECT_NO_THROW(got = predict());
    ExpectNear(got, wanted);
  }
  memory::SetLimit(Device{}, 0);
}

TEST_F(Blocks, FiltersOfAnOldVersionAreNotKept) {
  const NDArray w = Filters(160), x = Images(160);
  const NDArray small = Random({1, 160, 8, 8}, 1);  // whose kernel has another order
  AttachGrad(w, NDArray::Empty(w.shape()), GradReq::kWrite);
  const auto kept_by = [&](const std::vector<NDArray>& images) {
    for (const NDArray& a : images) Conv(a, w);
    const size_t live = Live();
    Scalar("_mul_scalar", w, 1, w);
    w.WaitToRead();
    return live;
  };
  const size_t of_one = kept_by({x});
  kept_by({small, x});
  EXPECT_LT(kept_by({x}), of_one + static_cast<size_t>(w.nbytes()) / 2);
}

TEST_F(Blocks, RandomProgramsGiveWhatPlainCallsGive) {
  int in_blocks = 0;
  const auto run = [&](uint32_t seed) {
    std::mt19937 random(seed);
    const auto pick = [&](int n) {
      return static_cast<int>(random() % static_cast<uint32_t>(n));
    };
    const int64_t channels = seed % 2 == 0 ? 48 : 60;
    const NDArray w = Filters(channels, seed);
    std::vector<NDArray> arrays{Images(channels), Images(channels)};
    const auto any = [&] { return arrays[pick(static_cast<int>(arrays.size()))]; };
    for (int step = 0; step < 25; ++step) {
      const NDArray x = any();
      NDArray y = x;
      switch (pick(11)) {
        case 0:
        case 1:
        case 2:
          y = Conv(x, w);
          break;
        case 3:
          y = CallOp("tanh", {x});
          break;
        case 4:
          y = CallOp("broadcast_add", {x, any()});
          break;
        case 5:
          Scalar("_mul_scalar", x, 0.5, x);
          break;
        case 6:
          y = MaxPool(x);
          break;
        case 7:
          y = Normed(x);
          break;
        case 8: {
          const NDArray part = x.Slice(1, 3);
          Scalar("_plus_scalar", part, 0.25, part);
          break;
        }
        case 9:
          y = x.Detach();
          break;
        default:
          y = CallOp("cos", {x});
      }
      in_blocks += InBlocks(y);
      if (arrays.size() < 5) {
        arrays.push_back(y);
      } else {
        arrays[pick(5)] = y;
      }
    }
    std::vector<Numbers> values;
    for (const NDArray& a : arrays) values.push_back(ValuesOf(a));
    return values;
  };
  for (uint32_t seed = 0; seed < 8; ++seed) {
    in_blocks = 0;
    const std::vector<Numbers> got = run(seed);
    EXPECT_GT(in_blocks, 0);
    const Plain plain;
    const std::vector<Numbers> wanted = run(seed);
    ASSERT_EQ(got.size(), wanted.size());
    for (size_t i = 0; i < got.size(); ++i) ExpectNear(got[i], wanted[i], 1e-3);
  }
}

}  // namespace
}  // namespace plait
