// Exchange: sums and distributions among ranks of one process.

#include "kvstore/exchange.h"

#include <gtest/gtest.h>

#include <functional>
#include <numeric>
#include <thread>

#include "base/error.h"
#include "base/options.h"
#include "kvstore/push_transfer.h"
#include "kvstore/testing.h"

namespace plait {
namespace {

CollectiveSpec SpecOf(uint32_t slot, bool reduce, bool gather, int ranks, int64_t n,
                      DType dtype = DType::kFloat64) {
  CollectiveSpec spec;
  spec.slot = slot;
  spec.reduce = reduce;
  spec.gather = gather;
  spec.codec.dtype = dtype;
  Partition partition(ranks);
  spec.ranges =
      std::make_shared<Ranges>(partition.Split(n, static_cast<int64_t>(SizeOf(dtype))));
  spec.label = "the key " + std::to_string(slot);
  return spec;
}

TEST(Exchange, SumsArraysOfAnySizeOverRanks) {
  for (int ranks : {1, 2, 3, 4}) {
    for (int64_t n : {1, 255, 256, 1000, 300000}) {
      InRanks(ranks, [&](Exchange& exchange) {
        std::vector<double> values(static_cast<size_t>(n));
        for (int64_t i = 0; i < n; ++i) values[i] = exchange.rank() + i * 0.5;
        NDArray x = NDArray::FromHost(values.data(), {n}, DType::kFloat64);
        exchange.AllReduce(x, "x");
        x.CopyToHost(values.data());
        for (int64_t i = 0; i < n; ++i) {
          ASSERT_EQ(values[i], ranks * (ranks - 1) / 2 + ranks * i * 0.5);
        }
      });
    }
  }
}

TEST(Exchange, CopiesTheArrayOfOneRankToAll) {
  InRanks(3, [&](Exchange& exchange) {
    for (int root = 0; root < 3; ++root) {
      std::vector<float> values(1000, static_cast<float>(exchange.rank()));
      NDArray x = NDArray::FromHost(values.data(), {1000}, DType::kFloat32);
      exchange.Broadcast(x, root, "x");
      x.CopyToHost(values.data());
      EXPECT_EQ(values, std::vector<float>(1000, static_cast<float>(root)));
    }
  });
}

TEST(Exchange, CarriesManyKeysInAnyOrder) {
  // Where every push waits for its end, ranks must push in one order.
  if (GetOption(Option::kEngine) == "serial") GTEST_SKIP();
  constexpr int kKeys = 40, kRounds = 3;
  InRanks(4, [&](Exchange& exchange) {
    const uint32_t store = exchange.NewStore();
    std::vector<NDArray> arrays;
    for (int k = 0; k < kKeys; ++k) {
      const std::vector<double> ones(static_cast<size_t>(100 + 977 * k), 1);
      arrays.push_back(NDArray::FromHost(
          ones.data(), {static_cast<int64_t>(ones.size())}, DType::kFloat64));
    }
    for (int round = 0; round < kRounds; ++round) {
      for (int k = 0; k < kKeys; ++k) {
        const int key = exchange.rank() % 2 == 0 ? k : kKeys - 1 - k;  // any order
        const NDArray& x = arrays[static_cast<size_t>(key)];
        const uint32_t slot = store + static_cast<uint32_t>(key);
        PushTransfer(exchange.Collect(SpecOf(slot, true, true, 4, x.size()), x, x), {},
                     x);
      }
    }
    for (const NDArray& x : arrays) {
      std::vector<double> values(static_cast<size_t>(x.size()));
      x.CopyToHost(values.data());
      EXPECT_EQ(values, std::vector<double>(values.size(), 64));  // 4^3
    }
  });
}

TEST(Exchange, SendsTwiceTheArrayLessTheOwnPart) {
  constexpr int64_t kSize = 1 << 16;
  for (int ranks : {2, 4}) {
    InRanks(ranks, [&](Exchange& exchange) {
      const std::vector<double> zeros(kSize, 0);
      const NDArray x = NDArray::FromHost(zeros.data(), {kSize}, DType::kFloat64);
      exchange.AllReduce(x, "x");
      const int64_t bytes = kSize * 8;
      EXPECT_EQ(exchange.traffic().payload_sent, 2 * (ranks - 1) * bytes / ranks);
      EXPECT_EQ(exchange.traffic().payload_received, 2 * (ranks - 1) * bytes / ranks);
    });
  }
}

TEST(Exchange, ARankThatRefusesFailsTheRoundOnAllRanksAndTheNextOneWorks) {
  InRanks(3, [&](Exchange& exchange) {
    const uint32_t slot = exchange.NewStore();
    const std::vector<double> ones(5000, 1);
    const NDArray x = NDArray::FromHost(ones.data(), {5000}, DType::kFloat64);
    const CollectiveSpec spec = SpecOf(slot, true, true, 3, 5000);
    if (exchange.rank() == 1) {
      exchange.Refuse(spec, "rank 1: no gradient");
    } else {
      PushTransfer(exchange.Collect(spec, x, x), {}, x);
      EXPECT_NE(ErrorOf([&] { x.WaitToRead(); }).find("rank 1: no gradient"),
                std::string::npos);
    }
    const NDArray y = NDArray::FromHost(ones.data(), {5000}, DType::kFloat64);
    PushTransfer(exchange.Collect(spec, y, y), {}, y);
    std::vector<double> values(5000);
    y.CopyToHost(values.data());
    EXPECT_EQ(values, std::vector<double>(5000, 3));
  });
}

TEST(Exchange, ArraysOfDifferentSizesAreAnErrorOnAllRanks) {
  InRanks(2, [&](Exchange& exchange) {
    const int64_t n = exchange.rank() == 0 ? 40000 : 50000;
    const std::vector<double> ones(static_cast<size_t>(n), 1);
    const NDArray x = NDArray::FromHost(ones.data(), {n}, DType::kFloat64);
    const std::string error = ErrorOf([&] { exchange.AllReduce(x, "the key 'w'"); });
    EXPECT_NE(error.find("the key 'w'"), std::string::npos) << error;
    EXPECT_NE(error.find("equal shapes"), std::string::npos) << error;
  });
}

TEST(Exchange, ARankThatEndsItsProgramIsNamed) {
  InRanks(3, [&](Exchange& exchange) {
    if (exchange.rank() == 2) return;  // its exchange says goodbye
    const std::vector<double> ones(100, 1);
    const NDArray x = NDArray::FromHost(ones.data(), {100}, DType::kFloat64);
    const std::string error = ErrorOf([&] { exchange.AllReduce(x, "x"); });
    EXPECT_NE(error.find("rank 2 has ended its program"), std::string::npos) << error;
  });
}

TEST(Exchange, AFaultEndsWhatIsUnderWayAndWhatComesLater) {
  InRanks(3, [&](Exchange& exchange) {
    const std::vector<double> ones(100000, 1);
    for (int i = 0; i < 2; ++i) {
      const NDArray x = NDArray::FromHost(ones.data(), {100000}, DType::kFloat64);
      if (exchange.rank() == 2) {
        exchange.Abort("the roof is on fire");
      }
      const std::string error = ErrorOf([&] { exchange.AllReduce(x, "x"); });
      EXPECT_NE(error.find("rank 2: the roof is on fire"), std::string::npos) << error;
    }
  });
}

TEST(Exchange, WhatIsAskedOfOneThatIsRetiredFailsWithTheFaultAndTheReason) {
  InRanks(2, [&](Exchange& exchange) {
    if (exchange.rank() == 1) exchange.Abort("the roof is on fire");
    const std::vector<double> ones(100000, 1);
    const NDArray x = NDArray::FromHost(ones.data(), {100000}, DType::kFloat64);
    EXPECT_NE(ErrorOf([&] { exchange.AllReduce(x, "x"); }), "");
    for (int i = 0; i < 2; ++i) {
      exchange.Retire("; move to another house");
      const std::string error = ErrorOf([&] { exchange.AllReduce(x, "x"); });
      EXPECT_NE(error.find("on fire; move to another house"), std::string::npos)
          << error;
    }
  });
}

TEST(Exchange, OneThatNoLauncherStartedHasNobodyToGoOnWith) {
  const std::chrono::milliseconds time(1);
  EXPECT_NE(ErrorOf([&] { ShrinkWorldExchange(time); }).find("no rank is lost"),
            std::string::npos);
  EXPECT_EQ(WorldFault(), "");
}

}  // namespace
}  // namespace plait
