// Random workloads: whatever threads, lanes and inline runs do, some serial order that
// keeps the order of pushes must give the same values.

#include <array>
#include <atomic>
#include <random>
#include <set>

#include "engine/testing.h"

namespace plait {
namespace {

constexpr int kVars = 12;

uint64_t Mix(uint64_t a, uint64_t b) {
  a = (a ^ b) * 0x9E3779B97F4A7C15u;
  return a ^ (a >> 29);
}

// What a Var guards. No locks: ThreadSanitizer sees it when two get in at once.
struct Cell {
  Var var;
  uint64_t value = 1;
  std::vector<int> writers;  // operations, in the order they wrote
};

struct Plan {
  std::vector<int> reads, writes;
  bool may_run_inline = false;
  bool asks_another = false;  // computes by an operation that it pushes and waits for
  Lane lane = Lane::kCompute;
  int priority = 0;
  std::vector<size_t> versions;  // found by the operation: writes before it, per read
};

Plan RandomPlan(std::mt19937& random) {
  Plan plan;
  const auto pick = [&random](int n) { return static_cast<int>(random() % n); };
  std::set<int> used;
  for (int i = pick(4); i > 0; --i) {
    const int v = pick(kVars);
    if (used.insert(v).second) plan.reads.push_back(v);
  }
  for (int i = 1 + pick(pick(8) == 0 ? 8 : 2); i > 0; --i) {
    const int v = pick(kVars);
    if (used.insert(v).second) plan.writes.push_back(v);
  }
  plan.may_run_inline = pick(2) == 0;
  plan.asks_another = pick(4) == 0;
  plan.lane = static_cast<Lane>(pick(static_cast<int>(Lane::kCount)));
  plan.priority = pick(3);
  return plan;
}

class Workload {
 public:
  Workload(Engine& engine, int threads, int each, unsigned seed)
      : engine_(engine), threads_(threads), each_(each), seed_(seed) {
    std::mt19937 random(seed);
    for (int i = 0; i < threads * each; ++i) plans_.push_back(RandomPlan(random));
  }

  void Run() {
    std::vector<std::thread> threads;
    for (int t = 0; t < threads_; ++t) threads.emplace_back([this, t] { Thread(t); });
    for (std::thread& thread : threads) thread.join();
    engine_.WaitAll();
  }

  // Orders the operations by what they saw and by the order in which each thread issued
  // them, runs them in that order, and compares.
  void Check() {
    std::vector<std::set<int>> after(plans_.size());
    AddSeenOrder(after);
    AddIssueOrder(after);
    std::vector<int> before(plans_.size(), 0), ready, order;
    for (const auto& next : after) {
      for (int id : next) ++before[id];
    }
    for (size_t id = 0; id < plans_.size(); ++id) {
      if (before[id] == 0) ready.push_back(static_cast<int>(id));
    }
    while (!ready.empty()) {
      const int id = ready.back();
      ready.pop_back();
      order.push_back(id);
      for (int next : after[id]) {
        if (--before[next] == 0) ready.push_back(next);
      }
    }
    ASSERT_EQ(order.size(), plans_.size()) << "no serial order explains what was seen";
    std::array<uint64_t, kVars> value;
    value.fill(1);
    for (int id : order) {
      const uint64_t h = Hash(id, [&](int v) { return value[v]; });
      for (int v : plans_[id].writes) value[v] = Mix(value[v], h);
    }
    for (int v = 0; v < kVars; ++v) {
      EXPECT_EQ(cells_[v].value, value[v]) << "Var " << v;
      EXPECT_TRUE(cells_[v].var.idle());
      EXPECT_EQ(cells_[v].var.version(), cells_[v].writers.size());
    }
  }

  uint64_t Digest() const {
    uint64_t digest = 0;
    for (const Cell& cell : cells_) digest = Mix(digest, cell.value);
    return digest;
  }

 private:
  template <typename F>
  uint64_t Hash(int id, F value) const {
    uint64_t h = static_cast<uint64_t>(id) + 17;
    for (int v : plans_[id].reads) h = Mix(h, value(v));
    return h;
  }

  void Work(int id, bool pushed) {
    Plan& plan = plans_[id];
    for (int v : plan.reads) plan.versions.push_back(cells_[v].writers.size());
    uint64_t h = 0;
    const auto hash = [&] { h = Hash(id, [this](int v) { return cells_[v].value; }); };
    if (plan.asks_another && pushed) {
      Var result;
      Vars reads;
      for (int v : plan.reads) reads.push_back(&cells_[v].var);
      PushTo(engine_, hash, reads, {&result}, static_cast<Lane>(id % 5));
      engine_.WaitToRead(result);
    } else {
      hash();
    }
    for (int v : plan.writes) {
      cells_[v].value = Mix(cells_[v].value, h);
      cells_[v].writers.push_back(id);
    }
  }

  void Thread(int t) {
    std::mt19937 random(seed_ + 100 + t);
    for (int id = t * each_; id < (t + 1) * each_; ++id) {
      const Plan& plan = plans_[id];
      Vars reads, writes;
      for (int v : plan.reads) reads.push_back(&cells_[v].var);
      for (int v : plan.writes) writes.push_back(&cells_[v].var);
      if (plan.may_run_inline && engine_.TryBegin(reads, writes)) {
        Work(id, false);
        engine_.End(reads, writes);
      } else {
        PushTo(
            engine_, [this, id] { Work(id, true); }, reads, writes, plan.lane,
            plan.priority);
      }
      if (random() % 64 == 0) engine_.WaitToRead(cells_[random() % kVars].var);
      if (random() % 128 == 0) engine_.WaitToWrite(cells_[random() % kVars].var);
      if (random() % 512 == 0) engine_.WaitAll();
    }
  }

  void AddSeenOrder(std::vector<std::set<int>>& after) const {
    for (const Cell& cell : cells_) {
      for (size_t i = 1; i < cell.writers.size(); ++i) {
        after[cell.writers[i - 1]].insert(cell.writers[i]);
      }
    }
    for (size_t id = 0; id < plans_.size(); ++id) {
      for (size_t i = 0; i < plans_[id].reads.size(); ++i) {
        const std::vector<int>& writers = cells_[plans_[id].reads[i]].writers;
        const size_t version = plans_[id].versions[i];
        if (version > 0) after[writers[version - 1]].insert(static_cast<int>(id));
        if (version < writers.size()) after[id].insert(writers[version]);
      }
    }
  }

  void AddIssueOrder(std::vector<std::set<int>>& after) const {
    for (int t = 0; t < threads_; ++t) {
      std::array<int, kVars> last_write;
      last_write.fill(-1);
      std::array<std::vector<int>, kVars> reads_since;
      for (int id = t * each_; id < (t + 1) * each_; ++id) {
        for (int v : plans_[id].reads) {
          if (last_write[v] >= 0) after[last_write[v]].insert(id);
          reads_since[v].push_back(id);
        }
        for (int v : plans_[id].writes) {
          if (last_write[v] >= 0) after[last_write[v]].insert(id);
          for (int reader : reads_since[v]) after[reader].insert(id);
          reads_since[v].clear();
          last_write[v] = id;
        }
      }
    }
  }

  Engine& engine_;
  const int threads_, each_;
  const unsigned seed_;
  std::vector<Plan> plans_;
  std::array<Cell, kVars> cells_;
};

using RandomWorkload = BothEngines;
INSTANTIATE_TEST_SUITE_P(Engine, RandomWorkload, testing::Bool(), EngineName);

TEST_P(RandomWorkload, OfSeveralThreadsHasASerialOrder) {
  for (unsigned seed = 0; seed < 6; ++seed) {
    Workload workload(engine(), 4, 500, seed);
    workload.Run();
    workload.Check();
    if (HasFailure()) return;
  }
}

TEST(RandomWorkload, OfOneThreadGivesTheValuesOfTheSerialEngine) {
  SerialEngine serial;
  ThreadedEngine threaded(2, kNoLimit), one(1, 0);
  for (unsigned seed = 0; seed < 6; ++seed) {
    Workload first(serial, 1, 1000, seed), second(threaded, 1, 1000, seed),
        third(one, 1, 1000, seed);
    first.Run();
    second.Run();
    third.Run();
    second.Check();
    EXPECT_EQ(first.Digest(), second.Digest()) << "seed " << seed;
    EXPECT_EQ(first.Digest(), third.Digest()) << "seed " << seed;
  }
}

}  // namespace
}  // namespace plait
