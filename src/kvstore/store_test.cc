// Store: keys, devices and ranks, with and without updaters; what goes wrong.

#include "kvstore/store.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "kvstore/array_work.h"
#include "kvstore/testing.h"

namespace plait {
namespace {

NDArray Filled(int64_t n, double value, Device device = {}) {
  const std::vector<double> values(static_cast<size_t>(n), value);
  return NDArray::FromHost(values.data(), {n}, DType::kFloat64, device);
}

std::vector<double> ValuesOf(const NDArray& x) {
  std::vector<double> values(static_cast<size_t>(x.size()));
  x.CopyToHost(values.data());
  return values;
}

// w = 0.5 w - g, which does not commute, and counts its calls.
class Halver : public StoreUpdater {
 public:
  explicit Halver(bool elementwise = true) : elementwise_(elementwise) {}
  void Update(std::span<const Key> keys, std::span<const NDArray> pushed,
              std::span<const NDArray> stored) override {
    for (size_t i = 0; i < keys.size(); ++i) {
      ++updates;
      const NDArray &g = pushed[i], &w = stored[i];
      Check(g.size() == w.size(), "halver: sizes differ");
      PushWork("halve", {&g, 1}, {&w, 1}, 0,
               [x = g.data<double>(), y = w.data<double>(), n = g.size()] {
                 for (int64_t k = 0; k < n; ++k) y[k] = 0.5 * y[k] - x[k];
               });
    }
  }
  bool Elementwise() const override { return elementwise_; }
  int updates = 0;

 private:
  bool elementwise_;
};

void InitOne(Store& store, const Key& key, const NDArray& value) {
  store.Init({&key, 1}, {&value, 1});
}
void PushOne(Store& store, const Key& key, const Replicas& values) {
  store.Push({&key, 1}, {&values, 1}, 0);
}
NDArray PullOne(Store& store, const Key& key, int64_t n) {
  const NDArray out = Filled(n, -1);
  const Replicas outs{out};
  store.Pull({&key, 1}, {&outs, 1}, 0);
  return out;
}

// ---------------------------------------------------------------- one process

TEST(LocalStore, SumsOverDevicesAndReplacesWithoutUpdater) {
  const auto store = MakeLocalStore();
  InitOne(*store, Key(std::string("w")), Filled(10, 5));
  EXPECT_EQ(ValuesOf(PullOne(*store, Key(std::string("w")), 10)),
            std::vector<double>(10, 5));
  Replicas devices;
  for (int16_t d = 0; d < 4; ++d)
    devices.push_back(Filled(10, 1 + d, {DeviceType::kCpu, d}));
  PushOne(*store, Key(std::string("w")), devices);
  EXPECT_EQ(ValuesOf(PullOne(*store, Key(std::string("w")), 10)),
            std::vector<double>(10, 10));
}

TEST(LocalStore, GivesTheSumToTheUpdaterAndPullsAfterwards) {
  const auto store = MakeLocalStore();
  store->SetUpdater(std::make_shared<Halver>());
  InitOne(*store, Key(int64_t{3}), Filled(1000, 8));
  PushOne(*store, Key(int64_t{3}), {Filled(1000, 1), Filled(1000, 2)});
  PushOne(*store, Key(int64_t{3}), {Filled(1000, 1)});
  EXPECT_EQ(ValuesOf(PullOne(*store, Key(int64_t{3}), 1000)),
            std::vector<double>(1000, (8 * .5 - 3) * .5 - 1));
}

TEST(LocalStore, PushPullWithoutUpdaterLeavesTheStoredArray) {
  const auto store = MakeLocalStore();
  const Key key(int64_t{0});
  InitOne(*store, key, Filled(5, 7));
  const Replicas values{Filled(5, 1), Filled(5, 2)};
  store->PushPull({&key, 1}, {&values, 1}, {&values, 1}, 0);
  EXPECT_EQ(ValuesOf(values[0]), std::vector<double>(5, 3));
  EXPECT_EQ(ValuesOf(values[1]), std::vector<double>(5, 3));
  EXPECT_EQ(ValuesOf(PullOne(*store, key, 5)), std::vector<double>(5, 7));
}

TEST(LocalStore, CompressesWhatSeveralDevicesPush) {
  const auto store = MakeLocalStore();
  store->SetCompression(Compression::FromName("2bit", 0.5));
  const Key key(int64_t{0});
  InitOne(*store, key, Filled(300, 0));
  const Replicas values{Filled(300, 0.3), Filled(300, 0.6)};
  PushOne(*store, key, values);  // 0 and .5 are said, .3 and .1 are kept
  EXPECT_EQ(ValuesOf(PullOne(*store, key, 300)), std::vector<double>(300, 0.5));
  PushOne(*store, key, values);  // .6 and .7
  EXPECT_EQ(ValuesOf(PullOne(*store, key, 300)), std::vector<double>(300, 1.0));
}

TEST(LocalStore, NamesTheKeyInErrors) {
  const auto store = MakeLocalStore();
  InitOne(*store, Key(std::string("w")), Filled(4, 0));
  const auto error = [&](const Key& key, const Replicas& values) {
    return ErrorOf([&] { PushOne(*store, key, values); });
  };
  EXPECT_NE(error(Key(std::string("v")), {Filled(4, 0)}).find("'v' is not initialized"),
            std::string::npos);
  EXPECT_NE(error(Key(int64_t{1}), {Filled(4, 0)}).find("the key 1 is a number"),
            std::string::npos);
  EXPECT_EQ(error(Key(std::string("w")), {Filled(5, 0)}),
            "KVStore.push: the value of 'w' has shape (5,); (4,) was expected");
  EXPECT_NE(ErrorOf([&] {
              InitOne(*store, Key(std::string("w")), Filled(4, 0));
            }).find("'w' is initialized already"),
            std::string::npos);
  EXPECT_NE(error(Key(std::string("w")), {}).find("has no array"), std::string::npos);
}

// ---------------------------------------------------------------- ranks in step

TEST(SharedStore, TrainsAsOneProcessWithAllGradients) {
  constexpr int kSteps = 4;
  const std::vector<int64_t> sizes{1, 3, 300, 5000, 200000, 17};
  for (const bool elementwise : {true, false}) {
    for (const int ranks : {1, 2, 4}) {
      std::vector<std::vector<double>> expected;
      for (size_t k = 0; k < sizes.size(); ++k) {
        double w = static_cast<double>(k);
        for (int step = 0; step < kSteps; ++step) {
          double g = 0;
          for (int r = 0; r < ranks; ++r) g += 2 * (r + 1) * (step + 1);
          w = 0.5 * w - g;
        }
        expected.push_back(std::vector<double>(static_cast<size_t>(sizes[k]), w));
      }
      InRanks(ranks, [&](Exchange& exchange) {
        const auto store = MakeSharedStore(exchange, Consistency::kSequential);
        store->SetUpdater(std::make_shared<Halver>(elementwise));
        std::vector<Key> keys;
        std::vector<NDArray> first;
        std::vector<Replicas> outs;
        for (size_t k = 0; k < sizes.size(); ++k) {
          keys.emplace_back("w" + std::to_string(k));
          // Only rank 0's values count.
          first.push_back(Filled(sizes[k], static_cast<double>(k) + exchange.rank()));
          outs.push_back({Filled(sizes[k], 0)});
        }
        store->Init(keys, first);
        for (int step = 0; step < kSteps; ++step) {
          std::vector<Replicas> grads;
          const double g = (exchange.rank() + 1) * (step + 1);
          for (const int64_t size : sizes) {
            grads.push_back({Filled(size, g), Filled(size, g)});  // two devices
          }
          if (step % 2 == 0) {
            store->PushPull(keys, grads, outs, 0);
          } else {
            store->Push(keys, grads, 0);
            store->Pull(keys, outs, 0);
          }
        }
        for (size_t k = 0; k < keys.size(); ++k) {
          EXPECT_EQ(ValuesOf(outs[k][0]), expected[k]) << ranks << " ranks, key " << k;
        }
      });
    }
  }
}

TEST(SharedStore, RanksOwnNearlyEqualBytes) {
  Partition partition(4);
  for (int i = 0; i < 8; ++i) partition.Split(5120000 + 37 * i, 4);
  for (int i = 0; i < 50; ++i) partition.Split(64 + i, 4);
  const auto [least, most] =
      std::minmax_element(partition.owned().begin(), partition.owned().end());
  EXPECT_LT(static_cast<double>(*most) / static_cast<double>(*least), 1.01);
}

TEST(SharedStore, CompressesWhatRanksSend) {
  for (const char* kind : {"2bit", "1bit", "bfloat16"}) {
    InRanks(2, [&](Exchange& exchange) {
      const auto store = MakeSharedStore(exchange, Consistency::kSequential);
      store->SetCompression(Compression::FromName(kind, 0.5));
      const Key key(std::string("w"));
      InitOne(*store, key, Filled(100000, 0));
      PullOne(*store, key, 100000).WaitToRead();
      const int64_t before = exchange.traffic().payload_sent;
      double total = 0;
      constexpr int kSteps = 20;
      for (int i = 0; i < kSteps; ++i) {
        PushOne(*store, key, {Filled(100000, 0.25 * (exchange.rank() + 1))});
        total += ValuesOf(PullOne(*store, key, 100000))[77777];
      }
      // What is not said in one step is said in a later one.
      EXPECT_NEAR(total, 0.75 * kSteps, 1.0) << kind;
      const double sent = static_cast<double>(exchange.traffic().payload_sent - before);
      const double plain = 2 * 0.5 * 100000 * 8 * kSteps;
      const double codes = std::string(kind) == "bfloat16" ? 0.13 : 0.02;
      EXPECT_LT(sent, plain * (0.5 + codes)) << kind;
    });
  }
}

TEST(SharedStore, DifferentShapesAreAnErrorOnAllRanksThatNamesTheKey) {
  InRanks(3, [&](Exchange& exchange) {
    const auto store = MakeSharedStore(exchange, Consistency::kSequential);
    const std::vector<Key> keys{std::string("a"), std::string("b")};
    const std::vector<NDArray> values{Filled(4, 0),
                                      Filled(exchange.rank() == 1 ? 5 : 4, 0)};
    const std::string error = ErrorOf([&] { store->Init(keys, values); });
    EXPECT_EQ(error,
              "KVStore.init: rank 0 starts 'b': float64 (4,) and rank 1 starts 'b': "
              "float64 (5,); equal keys, shapes and dtypes were expected on all ranks");
    // The store is as it was.
    InitOne(*store, keys[0], Filled(4, 2));
    EXPECT_EQ(ValuesOf(PullOne(*store, keys[0], 4)), std::vector<double>(4, 2));
    // Twice, with another shape on one rank.
    const std::string again = ErrorOf(
        [&] { InitOne(*store, keys[0], Filled(exchange.rank() == 0 ? 9 : 4, 0)); });
    EXPECT_NE(again.find("'a' is initialized already"), std::string::npos) << again;
  });
}

TEST(SharedStore, AWrongPushOnOneRankFailsTheRoundOnAll) {
  for (const bool with_updater : {false, true}) {
    InRanks(3, [&](Exchange& exchange) {
      const auto store = MakeSharedStore(exchange, Consistency::kSequential);
      if (with_updater) store->SetUpdater(std::make_shared<Halver>());
      const Key key(std::string("w"));
      InitOne(*store, key, Filled(2000, 8));
      if (exchange.rank() == 1) {
        EXPECT_NE(ErrorOf([&] { PushOne(*store, key, {Filled(9, 1)}); }).find("'w'"),
                  std::string::npos);
      } else {
        PushOne(*store, key, {Filled(2000, 1)});
        const std::string error =
            ErrorOf([&] { PullOne(*store, key, 2000).WaitToRead(); });
        EXPECT_NE(error.find("the key 'w'"), std::string::npos) << error;
        EXPECT_NE(error.find("rank 1: KVStore.push: the value of 'w' has shape (9,)"),
                  std::string::npos)
            << error;
      }
      PushOne(*store, key, {Filled(2000, 1)});
      const double expected = with_updater ? 8 * .5 - 3 : 3;
      EXPECT_EQ(ValuesOf(PullOne(*store, key, 2000)),
                std::vector<double>(2000, expected));
    });
  }
}

TEST(SharedStore, AFailedGradientOfOneRankFailsTheRoundOnAll) {
  InRanks(2, [&](Exchange& exchange) {
    const auto store = MakeSharedStore(exchange, Consistency::kSequential);
    store->SetUpdater(std::make_shared<Halver>());
    const Key key(std::string("w"));
    InitOne(*store, key, Filled(2000, 8));
    const NDArray bad = Filled(2000, 1);
    if (exchange.rank() == 0) {
      PushWork("bad", {}, {&bad, 1}, 0,
               [] { Fail(ErrorKind::kValue, "the gradient exploded"); });
    }
    PushOne(*store, key, {bad});
    const std::string error = ErrorOf([&] { PullOne(*store, key, 2000).WaitToRead(); });
    EXPECT_NE(error.find(exchange.rank() == 0 ? "exploded" : "rank 0"),
              std::string::npos)
        << error;
  });
}

// Random calls give the same on both engines and on any number of ranks.
TEST(SharedStore, RandomSchedulesAgreeWithOneProcess) {
  for (int seed = 0; seed < 4; ++seed) {
    const auto play = [seed](Store& store, int ranks_played, int rank, int ranks) {
      store.SetUpdater(std::make_shared<Halver>());
      std::mt19937 random(static_cast<unsigned>(seed));
      std::vector<Key> keys;
      std::vector<int64_t> sizes;
      std::vector<NDArray> outs;
      for (int k = 0; k < 6; ++k) {
        keys.emplace_back(int64_t{k});
        sizes.push_back(1 + static_cast<int64_t>(random() % 20000));
        outs.push_back(Filled(sizes.back(), 0));
        InitOne(store, keys.back(), Filled(sizes.back(), k));
      }
      for (int i = 0; i < 40; ++i) {
        const size_t k = random() % 6;
        const int what = static_cast<int>(random() % 3);
        const int priority = static_cast<int>(random() % 9);
        Replicas values;
        for (int r = 0; r < ranks; ++r) {
          const double g = static_cast<double>(random() % 16);
          if (ranks_played > 1 || r == rank) values.push_back(Filled(sizes[k], g));
        }
        const Replicas out{outs[k]};
        if (what == 0) store.Push({&keys[k], 1}, {&values, 1}, priority);
        if (what == 1) store.Pull({&keys[k], 1}, {&out, 1}, priority);
        if (what == 2) store.PushPull({&keys[k], 1}, {&values, 1}, {&out, 1}, priority);
      }
      std::vector<std::vector<double>> result;
      for (size_t k = 0; k < keys.size(); ++k) {
        result.push_back(ValuesOf(PullOne(store, keys[k], sizes[k])));
        result.push_back(ValuesOf(outs[k]));
      }
      return result;
    };
    const auto local = MakeLocalStore();
    const auto expected = play(*local, 3, 0, 3);
    InRanks(3, [&](Exchange& exchange) {
      const auto store = MakeSharedStore(exchange, Consistency::kSequential);
      EXPECT_EQ(play(*store, 1, exchange.rank(), 3), expected);
    });
  }
}

}  // namespace
}  // namespace plait
