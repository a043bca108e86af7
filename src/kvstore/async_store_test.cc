// AsyncStore: each push is applied once, and a rank reads its own writes.

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "kvstore/array_work.h"
#include "kvstore/store.h"
#include "kvstore/testing.h"

namespace plait {
namespace {

NDArray Filled(int64_t n, double value) {
  const std::vector<double> values(static_cast<size_t>(n), value);
  return NDArray::FromHost(values.data(), {n}, DType::kFloat64);
}

std::vector<double> ValuesOf(const NDArray& x) {
  std::vector<double> values(static_cast<size_t>(x.size()));
  x.CopyToHost(values.data());
  return values;
}

class Adder final : public StoreUpdater {
 public:
  explicit Adder(bool elementwise = true) : elementwise_(elementwise) {}
  void Update(std::span<const Key> keys, std::span<const NDArray> pushed,
              std::span<const NDArray> stored) override {
    for (size_t i = 0; i < keys.size(); ++i) {
      const NDArray &g = pushed[i], &w = stored[i];
      PushWork("add", {&g, 1}, {&w, 1}, 0,
               [x = g.data<double>(), y = w.data<double>(), n = g.size()] {
                 for (int64_t k = 0; k < n; ++k) y[k] += x[k];
               });
    }
  }
  bool Elementwise() const override { return elementwise_; }

 private:
  bool elementwise_;
};

void PushOne(Store& store, const Key& key, const NDArray& value) {
  const Replicas values{value};
  store.Push({&key, 1}, {&values, 1}, 0);
}
NDArray PullOne(Store& store, const Key& key, int64_t n) {
  const NDArray out = Filled(n, -1);
  const Replicas outs{out};
  store.Pull({&key, 1}, {&outs, 1}, 0);
  return out;
}

TEST(AsyncStore, AppliesEachPushOnce) {
  for (const bool elementwise : {true, false}) {
    for (const int ranks : {1, 2, 4}) {
      for (const int64_t n : {3, 700, 200000}) {
        InRanks(ranks, [&](Exchange& exchange) {
          const auto store = MakeSharedStore(exchange, Consistency::kEventual);
          store->SetUpdater(std::make_shared<Adder>(elementwise));
          const Key key(std::string("w"));
          const NDArray first = Filled(n, 100);
          store->Init({&key, 1}, {&first, 1});
          constexpr int kPushes = 7;
          for (int i = 0; i < kPushes + exchange.rank(); ++i) {
            PushOne(*store, key, Filled(n, exchange.rank() + 1));
            // What this rank has pushed is there; of others more or less.
            const double w = ValuesOf(PullOne(*store, key, n)).back();
            ASSERT_GE(w, 100 + (i + 1) * (exchange.rank() + 1));
          }
          // Everybody's pushes have come to their owners, and these apply in order.
          store->Barrier();
          for (int r = 0; r < ranks; ++r) PullOne(*store, key, n).WaitToRead();
          store->Barrier();
          double expected = 100;
          for (int r = 0; r < ranks; ++r) expected += (kPushes + r) * (r + 1);
          EXPECT_EQ(ValuesOf(PullOne(*store, key, n)),
                    std::vector<double>(static_cast<size_t>(n), expected));
        });
      }
    }
  }
}

TEST(AsyncStore, CompressesPushes) {
  InRanks(2, [&](Exchange& exchange) {
    const auto store = MakeSharedStore(exchange, Consistency::kEventual);
    store->SetCompression(Compression::FromName("2bit", 0.5));
    store->SetUpdater(std::make_shared<Adder>());
    const Key key(int64_t{1});
    const NDArray first = Filled(5000, 0);
    store->Init({&key, 1}, {&first, 1});
    for (int i = 0; i < 4; ++i) PushOne(*store, key, Filled(5000, 0.25));
    ValuesOf(PullOne(*store, key, 5000));
    store->Barrier();
    EXPECT_EQ(ValuesOf(PullOne(*store, key, 5000)), std::vector<double>(5000, 2));
  });
}

TEST(AsyncStore, WithoutAnUpdaterAPushIsAnErrorAndTheNextOneWorks) {
  InRanks(2, [&](Exchange& exchange) {
    const auto store = MakeSharedStore(exchange, Consistency::kEventual);
    const Key key(std::string("w"));
    const NDArray first = Filled(600, 1);
    store->Init({&key, 1}, {&first, 1});
    const std::string error = ErrorOf([&] { PushOne(*store, key, Filled(600, 1)); });
    EXPECT_NE(error.find("'w' was pushed to an asynchronous store without an updater"),
              std::string::npos)
        << error;
    store->SetUpdater(std::make_shared<Adder>());
    store->Barrier();
    PushOne(*store, key, Filled(600, 1));
    EXPECT_GE(ValuesOf(PullOne(*store, key, 600)).front(), 2);
  });
}

// A rank that is ahead by more than the bound waits in its pull.
TEST(AsyncStore, AFastRankWaitsAtTheBound) {
  constexpr int kSteps = 30;
  for (const int64_t bound : {0, 2}) {
    for (const int ranks : {2, 3}) {
      std::vector<std::atomic<int>> begun(static_cast<size_t>(ranks));
      std::atomic<int> ahead{0};
      InRanks(ranks, [&](Exchange& exchange) {
        const auto store = MakeSharedStore(exchange, Consistency::kEventual);
        store->SetUpdater(std::make_shared<Adder>());
        const Key key(std::string("w"));
        const NDArray first = Filled(700, 0);
        store->Init({&key, 1}, {&first, 1});
        store->SetStaleness(bound);
        const auto rank = static_cast<size_t>(exchange.rank());
        for (int i = 1; i <= kSteps; ++i) {
          // The slowest of all does nothing before the others are at their bound.
          while (rank == 0 && i == 1 && ahead < ranks - 1) std::this_thread::yield();
          begun[rank] = i;
          PushOne(*store, key, Filled(700, 1));
          if (i == bound + 1 && rank != 0) ++ahead;
          const NDArray w = PullOne(*store, key, 700);
          EXPECT_GE(ValuesOf(w).back(), i);
          for (const auto& other : begun) EXPECT_GE(other + bound, i);
        }
        store->Barrier();
        for (int r = 0; r < ranks; ++r) PullOne(*store, key, 700).WaitToRead();
        store->Barrier();
        EXPECT_EQ(ValuesOf(PullOne(*store, key, 700)),
                  std::vector<double>(700, kSteps * ranks));
      });
    }
  }
}

// Ranks that push less often, wait elsewhere or end hold nobody up.
TEST(AsyncStore, WhoWaitsOrEndsHoldsNobodyUp) {
  InRanks(3, [&](Exchange& exchange) {
    const auto store = MakeSharedStore(exchange, Consistency::kEventual);
    store->SetUpdater(std::make_shared<Adder>());
    const Key key(std::string("w"));
    const NDArray first = Filled(700, 0);
    store->Init({&key, 1}, {&first, 1});
    store->SetStaleness(1);
    for (int round = 0; round < 3; ++round) {
      for (int i = 0; i < 3 + 4 * exchange.rank(); ++i) {
        PushOne(*store, key, Filled(700, 1));
        PullOne(*store, key, 700).WaitToRead();
      }
      if (round == 2 && exchange.rank() == 0) return;  // its program ends
      if (round < 2) exchange.Barrier();
    }
  });
}

TEST(AsyncStore, ARankMayMakeItsStoreAfterAnotherHasBegunToBoundIts) {
  InRanks(2, [&](Exchange& exchange) {
    if (exchange.rank() == 0) AwaitWordOfOthers(exchange);
    const auto store = MakeSharedStore(exchange, Consistency::kEventual);
    EXPECT_EQ(ErrorOf([&] { store->SetStaleness(1); }), "");
    // And the bound holds.
    store->SetUpdater(std::make_shared<Adder>());
    const Key key(std::string("w"));
    const NDArray first = Filled(700, 0);
    store->Init({&key, 1}, {&first, 1});
    for (int i = 0; i < 5; ++i) {
      PushOne(*store, key, Filled(700, 1));
      EXPECT_GE(ValuesOf(PullOne(*store, key, 700)).back(), 2 * i);
    }
    EXPECT_EQ(ErrorOf([&] { store->Barrier(); }), "");
  });
}

TEST(AsyncStore, OnlyAsynchronousStoresAreBounded) {
  InRanks(2, [&](Exchange& exchange) {
    const auto store = MakeSharedStore(exchange, Consistency::kSequential);
    EXPECT_NE(ErrorOf([&] { store->SetStaleness(3); }).find("only 'dist_async'"),
              std::string::npos);
  });
}

// The owner of a part fails: who pushed hears of it, and the owner goes on.
TEST(AsyncStore, AFailedUpdateComesBackToWhoPushed) {
  class Picky final : public StoreUpdater {
   public:
    void Update(std::span<const Key>, std::span<const NDArray>,
                std::span<const NDArray>) override {
      Fail(ErrorKind::kValue, "not today");
    }
  };
  InRanks(2, [&](Exchange& exchange) {
    const auto store = MakeSharedStore(exchange, Consistency::kEventual);
    store->SetUpdater(std::make_shared<Picky>());
    const Key key(std::string("w"));
    const NDArray first = Filled(600, 1);
    store->Init({&key, 1}, {&first, 1});
    if (exchange.rank() == 0) {
      PushOne(*store, key, Filled(600, 1));
      std::string error;
      for (int i = 0; i < 1000 && error.empty(); ++i) {  // each pull asks the owners
        error = ErrorOf([&] { ValuesOf(PullOne(*store, key, 600)); });
      }
      EXPECT_NE(error.find("'w': a push failed: not today"), std::string::npos)
          << error;
    }
    EXPECT_EQ(ErrorOf([&] { store->Barrier(); }), "");
  });
}

}  // namespace
}  // namespace plait
