// Simulation: what many ranks really send is what the cost model says.

#include "kvstore/cost_model.h"

#include <gtest/gtest.h>

#include "kvstore/array_work.h"
#include "kvstore/store.h"
#include "kvstore/testing.h"

namespace plait {
namespace {

class Adder final : public StoreUpdater {
 public:
  void Update(std::span<const Key> keys, std::span<const NDArray> pushed,
              std::span<const NDArray> stored) override {
    for (size_t i = 0; i < keys.size(); ++i) {
      const NDArray &g = pushed[i], &w = stored[i];
      PushWork("add", {&g, 1}, {&w, 1}, 0,
               [x = g.data<float>(), y = w.data<float>(), n = g.size()] {
                 for (int64_t k = 0; k < n; ++k) y[k] += x[k];
               });
    }
  }
  bool Elementwise() const override { return true; }
};

struct Sent {
  int64_t payload, entry_bytes, messages;
};

Sent Now(const Exchange& exchange) {
  const Traffic& traffic = exchange.traffic();
  return {traffic.payload_sent, traffic.entry_bytes_sent, traffic.messages_sent};
}

// A push and a pull of all keys by every rank, with so many devices each.
void Simulate(int ranks, int devices, const std::vector<int64_t>& sizes) {
  const std::vector<Ranges> cut = CutKeys(sizes, sizeof(float), ranks);
  InRanks(ranks, [&](Exchange& exchange) {
    const auto store = MakeSharedStore(exchange, Consistency::kSequential);
    store->SetUpdater(std::make_shared<Adder>());
    std::vector<Key> keys;
    std::vector<NDArray> first;
    std::vector<Replicas> grads, outs;
    for (size_t k = 0; k < sizes.size(); ++k) {
      const std::vector<float> ones(static_cast<size_t>(sizes[k]), 1);
      const auto array = [&] {
        return NDArray::FromHost(ones.data(), {sizes[k]}, DType::kFloat32);
      };
      keys.emplace_back(static_cast<int64_t>(k));
      first.push_back(array());
      outs.push_back({array()});
      grads.emplace_back();
      for (int d = 0; d < devices; ++d) grads.back().push_back(array());
    }
    store->Init(keys, first);
    store->Pull(keys, outs, 0);
    for (const Replicas& out : outs) out[0].WaitToRead();
    store->Barrier();
    const Sent before = Now(exchange);
    store->Push(keys, grads, 0);
    store->Pull(keys, outs, 0);
    for (const Replicas& out : outs) {
      float value = 0;
      std::vector<float> values(static_cast<size_t>(out[0].size()));
      out[0].CopyToHost(values.data());
      value = values.back();
      EXPECT_EQ(value, static_cast<float>(1 + ranks * devices));
    }
    const Sent after = Now(exchange);
    const StepCost model = CostOfStep(cut, sizeof(float), exchange.rank());
    EXPECT_EQ(after.payload - before.payload, model.payload) << ranks << " ranks";
    EXPECT_EQ(after.entry_bytes - before.entry_bytes, 40 * model.entries);
    EXPECT_GE(after.messages - before.messages, model.least_messages);
    EXPECT_LE(after.messages - before.messages, model.most_messages);
    store->Barrier();
  });
}

TEST(CostModel, RanksSendWhatItSays) {
  for (const int ranks : {2, 3, 4, 8, 16, 32, 64}) {
    Simulate(ranks, 1, {7, 300, 256 * 64, 1000, 256 * 64 + 1});
  }
}

TEST(CostModel, DevicesOfARankSendNothingMore) {
  for (const int ranks : {2, 8}) {
    for (const int devices : {2, 4}) Simulate(ranks, devices, {7, 300, 40000});
  }
}

TEST(CostModel, LargeArraysAreCutInPieces) {
  Simulate(2, 1, {1 << 20, 3, 150000});
}

// For long keys the bytes are 2 (N-1)/N of them, for any number of ranks.
TEST(CostModel, BytesOfAStepAreThoseOfTheFormula) {
  for (const int ranks : {2, 64, 1024}) {
    const std::vector<int64_t> sizes(10, 256 * 1024 * 3);
    const std::vector<Ranges> cut = CutKeys(sizes, 4, ranks);
    const int64_t bytes = 10 * 256 * 1024 * 3 * int64_t{4};
    for (const int rank : {0, ranks - 1}) {
      EXPECT_EQ(CostOfStep(cut, 4, rank).payload, 2 * bytes / ranks * (ranks - 1));
    }
  }
}

}  // namespace
}  // namespace plait
