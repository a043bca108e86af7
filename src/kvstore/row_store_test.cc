// RowStore: rows reach their owners, which update them, and come back.

#include "kvstore/row_store.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <random>
#include <thread>

#include "kvstore/array_work.h"
#include "kvstore/testing.h"
#include "run/sparse.h"

namespace plait {
namespace {

constexpr int64_t kRows = 23, kWidth = 3;

using Rows = std::map<int64_t, double>;  // by number, each of equal values

NDArray RowSparse(const Rows& rows, int64_t height = kRows) {
  std::vector<double> values;
  RowIds ids;
  for (const auto& [id, value] : rows) {
    ids.push_back(id);
    values.insert(values.end(), kWidth, value);
  }
  const auto count = static_cast<int64_t>(ids.size());
  if (count == 0) {
    return EmptySparse(Storage::kRowSparse, {height, kWidth}, DType::kFloat64);
  }
  return MakeSparse({Storage::kRowSparse,
                     NDArray::FromHost(values.data(), {count, kWidth}, DType::kFloat64),
                     NDArray::FromHost(ids.data(), {count}, DType::kInt64),
                     {}},
                    {height, kWidth});
}

std::vector<double> ValuesOf(const NDArray& x) {
  const NDArray dense = ToDense(x);
  std::vector<double> values(static_cast<size_t>(dense.size()));
  dense.CopyToHost(values.data());
  return values;
}

std::vector<double> Dense(const Rows& rows) {
  return ValuesOf(RowSparse(rows));
}

// w = w / 2 - g in the rows of g, which does not commute.
class RowHalver final : public StoreUpdater {
 public:
  void Update(std::span<const Key>, std::span<const NDArray> pushed,
              std::span<const NDArray> stored) override {
    const SparseParts g = PartsOf(pushed[0]);
    const RowIds ids = Integers(g.indices);
    if (ids.empty()) return;
    const bool sparse = IsSparse(stored[0]);
    const NDArray w = ToDense(stored[0]);
    g.data.chunk();
    PushWork("halve", {&g.data, 1}, {&w, 1}, 0,
             [ids, x = g.data.data<double>(), y = w.data<double>()] {
               for (size_t i = 0; i < ids.size(); ++i) {
                 for (int64_t k = 0; k < kWidth; ++k) {
                   double& at = y[ids[i] * kWidth + k];
                   at = 0.5 * at - x[static_cast<int64_t>(i) * kWidth + k];
                 }
               }
             });
    if (sparse) AssignSparse(w, stored[0]);
  }
};

NDArray PullRows(RowStore& store, const Key& key, const RowIds& ids) {
  const NDArray out = RowSparse({});
  store.PullRows(key, ids, out, 0);
  return out;
}

// Random pushes and pulls of a key give what one process gives.
void Play(int ranks, bool sparse, bool by_rows, unsigned seed) {
  InRanks(ranks, [&](Exchange& exchange) {
    RowStore store(exchange, Consistency::kSequential);
    exchange.Barrier();
    store.SetUpdater(std::make_shared<RowHalver>(), by_rows);
    const Key key(std::string("w"));
    std::vector<double> expected;
    NDArray stored;
    if (sparse) {
      const Rows first{{0, 4}, {7, 8}, {kRows - 1, 16}};
      store.Init(key, RowSparse(exchange.rank() == 0 ? first : Rows{{3, 99}}));
      expected = Dense(first);
    } else {
      stored = ToDense(RowSparse({{5, 32}}));
      store.Adopt(key, stored);
      expected = ValuesOf(stored);
    }
    std::mt19937 random(seed);
    for (int step = 0; step < 12; ++step) {
      std::vector<Rows> pushed(static_cast<size_t>(ranks));
      Rows sum;
      for (Rows& rows : pushed) {
        const int count = static_cast<int>(random() % 6);
        for (int i = 0; i < count; ++i) rows[random() % kRows] = random() % 8;
        for (const auto& [id, value] : rows) sum[id] += value;
      }
      store.Push(key, RowSparse(pushed[static_cast<size_t>(exchange.rank())]), true, 0);
      for (const auto& [id, value] : sum) {
        for (int64_t k = 0; k < kWidth; ++k) {
          double& at = expected[static_cast<size_t>(id * kWidth + k)];
          at = 0.5 * at - value;
        }
      }
      // Not all ranks pull, and those that do pull other rows.
      if (random() % 2 == static_cast<unsigned>(exchange.rank()) % 2) {
        const RowIds ids{step % kRows, exchange.rank(), step % kRows};
        const std::vector<double> got = ValuesOf(PullRows(store, key, ids));
        for (const int64_t id : ids) {
          const auto at = static_cast<size_t>(id * kWidth);
          EXPECT_EQ(got[at], expected[at]) << "row " << id << " in step " << step;
        }
      }
    }
    const NDArray all = NDArray::Empty({kRows, kWidth}, DType::kFloat64);
    store.Pull(key, all, 0);
    EXPECT_EQ(ValuesOf(all), expected);
    if (!sparse) {
      EXPECT_EQ(ValuesOf(stored), expected);
    }
    exchange.Barrier();
  });
}

TEST(RowStore, PushesAndPullsAreThoseOfOneProcess) {
  for (const int ranks : {1, 2, 3, 5}) {
    for (const bool sparse : {true, false}) {
      for (const bool by_rows : {true, false}) Play(ranks, sparse, by_rows, 7);
    }
  }
}

TEST(RowStore, MoreRanksThanRowsIsFine) {
  InRanks(5, [](Exchange& exchange) {
    RowStore store(exchange, Consistency::kSequential);
    const Key key(int64_t{3});
    store.Init(key, RowSparse({{1, 2}}, 2));
    store.Push(key, RowSparse({{0, exchange.rank() + 1.0}}, 2), true, 0);
    const NDArray out = RowSparse({}, 2);
    store.PullRows(key, {0, 1}, out, 0);
    const std::vector<double> expected{15, 15, 15, 0, 0, 0};
    EXPECT_EQ(ValuesOf(out), expected);
    exchange.Barrier();
  });
}

TEST(RowStore, AnUpdaterThatFailsFailsTheRoundOnAll) {
  class Bad final : public StoreUpdater {
    void Update(std::span<const Key>, std::span<const NDArray>,
                std::span<const NDArray>) override {
      Fail(ErrorKind::kValue, "no update today");
    }
  };
  for (const bool sparse : {true, false}) {
    InRanks(2, [&](Exchange& exchange) {
      RowStore store(exchange, Consistency::kSequential);
      exchange.Barrier();
      const Key key(std::string("w"));
      if (sparse) {
        store.Init(key, RowSparse({{1, 2}}));
      } else {
        store.Adopt(key, ToDense(RowSparse({{1, 2}})));
      }
      if (exchange.rank() == 1) store.SetUpdater(std::make_shared<Bad>(), true);
      if (exchange.rank() == 0) store.SetUpdater(std::make_shared<RowHalver>(), true);
      const std::string error = ErrorOf([&] {
        store.Push(key, RowSparse({{1, 1}, {kRows - 1, 1}}), true, 0);
        ValuesOf(PullRows(store, key, {kRows - 1}));
      });
      EXPECT_NE(error.find("no update today"), std::string::npos) << error;
      if (exchange.rank() == 0) {
        EXPECT_NE(error.find("the key 'w': rank 1"), std::string::npos) << error;
      }
      exchange.Barrier();
    });
  }
}

// A push whose values come late, in a program that ends: an error, and not a wait for
// ever.
TEST(RowStore, WhatWasNotSentWhenTheProgramEndsFails) {
  InRanks(2, [](Exchange& exchange) {
    RowStore store(exchange, Consistency::kSequential);
    const Key key(int64_t{3});
    const NDArray stored = ToDense(RowSparse({{1, 2}}));
    exchange.Barrier();
    store.Adopt(key, stored);
    const NDArray value = RowSparse({{1, 1}, {kRows - 1, 1}});
    std::promise<void> closed;
    auto slow =
        MakeOperation("slow", [gate = closed.get_future().share()] { gate.wait(); });
    slow->lane = Lane::kCallback;
    Var* const written = &PartsOf(value).data.var();
    Engine::Get().Push(std::move(slow), {}, {&written, 1});
    store.Push(key, value, true, 0);
    exchange.Barrier();
    exchange.Close();
    closed.set_value();
    const std::string error = ErrorOf([&] { stored.WaitToRead(); });
    EXPECT_NE(error.find("the key 3"), std::string::npos) << error;
  });
}

TEST(RowStore, KeysMustBeEqual) {
  InRanks(2, [](Exchange& exchange) {
    RowStore store(exchange, Consistency::kSequential);
    const std::string error =
        ErrorOf([&] { store.Init(Key(int64_t{exchange.rank()}), RowSparse({})); });
    EXPECT_NE(error.find("rank 0 starts 0"), std::string::npos) << error;
    const Key key(int64_t{9});
    store.Init(key, RowSparse({}));
    EXPECT_NE(ErrorOf([&] { store.Init(key, RowSparse({})); }).find("already"),
              std::string::npos);
    exchange.Barrier();
  });
}

TEST(RowStore, PushesInAnotherOrderAreAnErrorOnAllRanks) {
  InRanks(3, [](Exchange& exchange) {
    RowStore store(exchange, Consistency::kSequential);
    const Key a(std::string("a")), b(std::string("b"));
    for (const Key& key : {a, b}) store.Init(key, RowSparse({}));
    for (const Key& key : {a, b}) store.Push(key, RowSparse({{1, 1}}), true, 0);
    const std::string error = ErrorOf([&] {
      exchange.Barrier();  // the fault may find a rank here, when others have gone on
      for (const Key& key :
           exchange.rank() == 1 ? std::vector{b, a} : std::vector{a, b})
        store.Push(key, RowSparse({{1, 1}}), true, 0);
    });
    EXPECT_NE(error.find("must be pushed in one order on all ranks"), std::string::npos)
        << error;
    EXPECT_NE(error.find("the key 'a'"), std::string::npos) << error;
    EXPECT_NE(error.find("the key 'b'"), std::string::npos) << error;
  });
}

TEST(RowStore, DenseKeysThatBeginInAnotherOrderAreAnErrorOnAllRanks) {
  InRanks(2, [](Exchange& exchange) {
    RowStore store(exchange, Consistency::kSequential);
    std::vector<Key> keys{Key(std::string("a")), Key(std::string("b"))};
    if (exchange.rank() == 1) std::swap(keys[0], keys[1]);
    const std::string error = ErrorOf([&] {
      exchange.Barrier();  // all have made their stores
      for (const Key& key : keys) {
        store.Adopt(key, ToDense(RowSparse({{0, 1}})));
        store.Push(key, RowSparse({{1, 1}}), true, 0);
      }
    });
    EXPECT_NE(error.find("must be pushed in one order on all ranks"), std::string::npos)
        << error;
  });
}

class RowAdder final : public StoreUpdater {
  void Update(std::span<const Key>, std::span<const NDArray> pushed,
              std::span<const NDArray> stored) override {
    AssignSparse(AddSparse(pushed[0], stored[0]), stored[0]);
  }
};

// Whoever owns the rows that are pushed, or that are pulled, and if none are pushed.
TEST(RowStore, AtOnceAFastRankWaitsAtTheBound) {
  constexpr int kSteps = 8;
  for (const int64_t bound : {0, 2}) {
    std::vector<std::atomic<int>> begun(3);
    std::atomic<int> ahead{0};
    InRanks(3, [&](Exchange& exchange) {
      RowStore store(exchange, Consistency::kEventual);
      store.SetUpdater(std::make_shared<RowAdder>(), true);
      const Key key(std::string("w"));
      store.Init(key, RowSparse({}));
      store.SetStaleness(bound);
      exchange.Barrier();
      const int rank = exchange.rank();
      for (int i = 1; i <= kSteps; ++i) {
        // The slowest of all does nothing before the others are at their bound.
        while (rank == 0 && i == 1 && ahead < 2) std::this_thread::yield();
        begun[static_cast<size_t>(rank)] = i;
        const bool none = rank == 2 && i % 2 == 0;
        store.Push(key, none ? RowSparse({}) : RowSparse({{rank, 1}}), true, 0);
        if (i == bound + 1 && rank != 0) ++ahead;
        ValuesOf(PullRows(store, key, {i % 2 == 0 ? 1 : kRows - 1}));
        for (const auto& other : begun) EXPECT_GE(other + bound, i);
      }
      exchange.Barrier();
      for (int r = 0; r < 3; ++r) ValuesOf(PullRows(store, key, {r}));
      exchange.Barrier();
      EXPECT_EQ(ValuesOf(PullRows(store, key, {0, 1, 2})),
                Dense({{0, kSteps}, {1, kSteps}, {2, kSteps / 2}}));
      store.SetStaleness(-1);
      exchange.Barrier();
      for (int i = 0; rank == 0 && i < 20; ++i) {
        store.Push(key, RowSparse({{0, 1}}), true, 0);
        ValuesOf(PullRows(store, key, {0}));
      }
      exchange.Barrier();
    });
  }
}

// Ranks that push less often, wait elsewhere or end hold nobody up.
TEST(RowStore, AtOnceWhoWaitsOrEndsHoldsNobodyUp) {
  InRanks(3, [](Exchange& exchange) {
    RowStore store(exchange, Consistency::kEventual);
    store.SetUpdater(std::make_shared<RowAdder>(), true);
    const Key key(std::string("w"));
    store.Init(key, RowSparse({}));
    store.SetStaleness(1);
    exchange.Barrier();
    for (int round = 0; round < 3; ++round) {
      for (int i = 0; i < 3 + 4 * exchange.rank(); ++i) {
        store.Push(key, RowSparse({{9, 1}}), true, 0);
        ValuesOf(PullRows(store, key, {9, 20}));
      }
      if (round == 2 && exchange.rank() == 0) return;  // its program ends
      if (round < 2) exchange.Barrier();
    }
  });
}

TEST(RowStore, ARankMayMakeItsStoreAfterAnotherHasBegunToBoundIts) {
  InRanks(2, [&](Exchange& exchange) {
    if (exchange.rank() == 0) AwaitWordOfOthers(exchange);
    RowStore store(exchange, Consistency::kEventual);
    EXPECT_EQ(ErrorOf([&] { store.SetStaleness(1); }), "");
    EXPECT_EQ(ErrorOf([&] { exchange.Barrier(); }), "");
  });
}

TEST(RowStore, AtOnceEachPushIsAppliedOnce) {
  InRanks(3, [](Exchange& exchange) {
    RowStore store(exchange, Consistency::kEventual);
    store.SetUpdater(std::make_shared<RowAdder>(), true);
    const Key key(std::string("w"));
    store.Init(key, RowSparse({}));
    for (int i = 0; i < 20; ++i) {
      store.Push(key, RowSparse({{exchange.rank(), 1}, {20, 1}}), true, 0);
      // A rank reads its own writes.
      const double own = ValuesOf(
          PullRows(store, key,
                   {exchange.rank()}))[static_cast<size_t>(exchange.rank() * kWidth)];
      EXPECT_EQ(own, i + 1);
    }
    exchange.Barrier();
    EXPECT_EQ(ValuesOf(PullRows(store, key, {0, 1, 2, 20})),
              Dense({{0, 20}, {1, 20}, {2, 20}, {20, 60}}));
    exchange.Barrier();
  });
}

}  // namespace
}  // namespace plait
