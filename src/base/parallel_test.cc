// Tests of ParallelFor: it covers every item once, on the threads it was given.

#include "base/parallel.h"

#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <set>
#include <stdexcept>
#include <thread>
#include <vector>

namespace plait {
namespace {

TEST(ParallelFor, CoversEveryItemOnce) {
  for (int threads : {1, 2, 5}) {
    const ScopedComputeThreads scope(threads);
    for (int64_t n : {0, 1, 2, 7, 1000}) {
      for (int64_t grain : {0, 1, 3, 2000}) {
        std::vector<std::atomic<int>> seen(static_cast<size_t>(n));
        ParallelFor(n, grain, [&](int64_t first, int64_t last) {
          for (; first < last; ++first) ++seen[static_cast<size_t>(first)];
        });
        for (const auto& count : seen) ASSERT_EQ(count, 1);
      }
    }
  }
}

std::set<std::thread::id> ThreadsOf(int64_t n, int64_t grain) {
  std::mutex mutex;
  std::set<std::thread::id> ids;
  ParallelFor(n, grain, [&](int64_t, int64_t) {
    const std::lock_guard lock(mutex);
    ids.insert(std::this_thread::get_id());
  });
  return ids;
}

TEST(ParallelFor, UsesTheThreadsItMayAndNoOthers) {
  EXPECT_EQ(ComputeThreads(), 1);
  EXPECT_EQ(ThreadsOf(1000, 1).size(), 1u);
  const ScopedComputeThreads scope(3);
  EXPECT_EQ(ComputeThreads(), 3);
  EXPECT_EQ(ThreadsOf(1000, 1).size(), 3u);
  EXPECT_EQ(ThreadsOf(1000, 400).size(), 2u);
  EXPECT_EQ(ThreadsOf(1000, 1000), std::set{std::this_thread::get_id()});
}

TEST(ParallelFor, RunsSeriallyInsideItself) {
  const ScopedComputeThreads scope(2);
  ParallelFor(2, 1, [&](int64_t, int64_t) {
    EXPECT_EQ(ComputeThreads(), 1);
    EXPECT_EQ(ThreadsOf(1000, 1).size(), 1u);
  });
  EXPECT_EQ(ComputeThreads(), 2);
}

TEST(ParallelFor, PassesAnExceptionOnAndGoesOn) {
  const ScopedComputeThreads scope(2);
  for (int i = 0; i < 100; ++i) {
    EXPECT_THROW(
        ParallelFor(2, 1, [](int64_t, int64_t) { throw std::runtime_error("thrown"); }),
        std::runtime_error);
  }
  EXPECT_EQ(ThreadsOf(1000, 1).size(), 2u);
}

TEST(ParallelFor, WorksOnSeveralThreadsAtOnce) {
  std::atomic<int64_t> total{0};
  std::vector<std::thread> callers;
  for (int i = 0; i < 4; ++i) {
    callers.emplace_back([&] {
      const ScopedComputeThreads scope(2);
      for (int round = 0; round < 50; ++round) {
        ParallelFor(100, 1,
                    [&](int64_t first, int64_t last) { total += last - first; });
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(total, 4 * 50 * 100);
}

TEST(AvailableThreads, IsAtLeastOne) {
  EXPECT_GE(AvailableThreads(), 1);
}

}  // namespace
}  // namespace plait
