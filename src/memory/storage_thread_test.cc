// Tests of Storage with threads, fork() and exit.

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <functional>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "memory/pool.h"
#include "memory/storage.h"

namespace plait::memory {
namespace {

constexpr Device kCpu;

size_t Cached() {
  const Stats stats = GetStats(kCpu);
  return stats.reserved - stats.live;
}

// Threads that do something again and again until the end of the scope.
class Busy {
 public:
  Busy(int threads, std::function<void(std::mt19937&)> work) {
    for (int i = 0; i < threads; ++i) {
      threads_.emplace_back([this, i, work] {
        std::mt19937 random(i);
        while (!stop_) work(random);
      });
    }
  }
  ~Busy() {
    stop_ = true;
    for (std::thread& thread : threads_) thread.join();
  }

 private:
  std::atomic<bool> stop_ = false;
  std::vector<std::thread> threads_;
};

size_t RandomBytes(std::mt19937& random) {
  return 1 + random() % (64 << random() % 12);
}

TEST(StorageThreads, BlocksPassedBetweenThreadsNeverOverlap) {
  const size_t live = GetStats(kCpu).live;
  struct Item {
    Block block;
    size_t bytes = 0;
    unsigned char mark = 0;
  };
  std::mutex mutex;
  std::vector<Item> shared;
  std::atomic<int> wrong = 0;
  const auto check_and_free = [&](const Item& item) {
    const auto* data = static_cast<unsigned char*>(item.block.data);
    if (data[0] != item.mark || data[item.bytes - 1] != item.mark) ++wrong;
    Free(kCpu, item.block);
  };
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 random(t);
      for (int step = 0; step < 5000; ++step) {
        Item item{.bytes = RandomBytes(random),
                  .mark = static_cast<unsigned char>(random())};
        item.block = Allocate(kCpu, item.bytes);
        std::memset(item.block.data, item.mark, item.bytes);
        {
          const std::lock_guard lock(mutex);
          shared.push_back(item);
          std::swap(shared[random() % shared.size()], shared.back());
          if (shared.size() < 50) continue;
          item = shared.back();
          shared.pop_back();
        }
        check_and_free(item);
        if (step % 1000 == 0) EmptyCache(kCpu);
        if (step % 100 == 0 && GetStats(kCpu).live < live) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Item& item : shared) check_and_free(item);
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(GetStats(kCpu).live, live);
  EmptyCache(kCpu);
  EXPECT_EQ(Cached(), 0u);
}

TEST(StorageThreads, EmptyCacheReachesTheCacheOfAnIdleThread) {
  std::atomic<int> phase = 0;
  const auto await = [&phase](int wanted) {
    while (phase != wanted) std::this_thread::yield();
  };
  std::thread idle([&] {
    const Block block = Allocate(kCpu, 4096);
    Free(kCpu, block);
    phase = 1;
    await(2);
    Free(kCpu, Allocate(kCpu, 4096));  // the cache still works
    phase = 3;
  });
  await(1);
  if (kPooled) {
    EXPECT_GE(Cached(), 4096u);
  }
  EmptyCache(kCpu);
  EXPECT_EQ(Cached(), 0u);
  phase = 2;
  await(3);
  idle.join();
}

TEST(StorageThreads, AThreadThatEndsGivesItsCacheBack) {
  struct FreesLate {
    ~FreesLate() { Free(kCpu, block); }
    Block block;
  };
  const Stats before = GetStats(kCpu);
  std::thread([] {
    static thread_local FreesLate late;
    late.block = Allocate(kCpu, 256);
    Free(kCpu, Allocate(kCpu, 512));
  }).join();
  EXPECT_EQ(GetStats(kCpu).live, before.live);
  EXPECT_EQ(GetStats(kCpu).allocations, before.allocations + 2);
  if (!kPooled) return;
  const size_t reserved = GetStats(kCpu).reserved;
  const Block from_it = Allocate(kCpu, 512);  // comes from the central list
  EXPECT_EQ(GetStats(kCpu).reserved, reserved);
  Free(kCpu, from_it);
}

TEST(StorageThreads, PeakIsNeverBelowLiveWhileOthersAllocate) {
  const Busy others(3, [](std::mt19937& random) {
    const Block block = Allocate(kCpu, RandomBytes(random));
    Free(kCpu, block);
  });
  for (int i = 0; i < 300; ++i) {
    const Stats stats = GetStats(kCpu);
    ASSERT_LE(stats.live, stats.peak);
    ASSERT_LE(stats.live, stats.reserved);
    if (i % 50 == 0) EmptyCache(kCpu);
    if (i % 70 == 0) ResetPeak(kCpu);
  }
}

// What a forked child does; the exit code says what was wrong.
int UseInChild(const std::vector<Block>& inherited) {
  const size_t live = GetStats(kCpu).live;
  for (size_t bytes = 1; bytes < (4 << 20); bytes = 2 * bytes + 1) {
    const Block block = Allocate(kCpu, bytes);
    std::memset(block.data, 7, bytes);
    Free(kCpu, block);
  }
  if (GetStats(kCpu).live != live) return 1;
  for (const Block& block : inherited) Free(kCpu, block);
  EmptyCache(kCpu);
  if (Cached() != 0) return 2;
  return 0;
}

TEST(StorageThreads, AForkedChildUsesAndFreesWhatItInherits) {
  std::vector<Block> inherited;
  for (size_t bytes : {100, 5000, 50'000, 5'000'000}) {
    inherited.push_back(Allocate(kCpu, bytes));
  }
  {
    const Busy others(3, [](std::mt19937& random) {
      Block blocks[4];
      for (Block& block : blocks) block = Allocate(kCpu, RandomBytes(random));
      for (const Block& block : blocks) Free(kCpu, block);
    });
    for (int round = 0; round < 20; ++round) {
      const pid_t child = fork();
      ASSERT_GE(child, 0);
      if (child == 0) _exit(UseInChild(inherited));
      int status = 0;
      ASSERT_EQ(waitpid(child, &status, 0), child);
      ASSERT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
      ASSERT_EQ(WEXITSTATUS(status), 0);
    }
  }
  for (const Block& block : inherited) Free(kCpu, block);
}

// Destroyed when the process exits; a fault there would fail the run.
struct FreesAtExit {
  ~FreesAtExit() {
    Free(kCpu, small);
    Free(kCpu, large);
    Free(kCpu, Allocate(kCpu, 64));
  }
  Block small, large;
};
FreesAtExit frees_at_exit;

TEST(StorageThreads, GlobalsFreeTheirBlocksAtExit) {
  frees_at_exit.small = Allocate(kCpu, 64);
  frees_at_exit.large = Allocate(kCpu, 1 << 20);
  std::memset(frees_at_exit.large.data, 1, 1 << 20);
}

}  // namespace
}  // namespace plait::memory
