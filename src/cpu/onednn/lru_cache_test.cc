// LruCache: what it keeps, and what it forgets.

#include "cpu/onednn/lru_cache.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <thread>
#include <vector>

namespace plait::cpu::onednn {
namespace {

struct Key {
  int64_t a, b;
};

TEST(LruCache, MakesAValueOnceAndForgetsTheOneUnusedForTheLongest) {
  LruCache<Key, int64_t> cache(2);
  int made = 0;
  const auto get = [&](int64_t a) {
    return *cache.Get({a, 0}, [&](const Key& key) {
      ++made;
      return key.a * 10;
    });
  };
  EXPECT_EQ(get(1), 10);
  EXPECT_EQ(get(2), 20);
  EXPECT_EQ(get(1), 10);
  EXPECT_EQ(made, 2);
  EXPECT_EQ(get(3), 30);  // forgets 2
  EXPECT_EQ(cache.size(), 2u);
  get(1);
  EXPECT_EQ(made, 3);
  get(2);
  EXPECT_EQ(made, 4);
}

TEST(LruCache, KeepsNothingWhenMakingThrows) {
  LruCache<Key, int> cache(2);
  EXPECT_THROW(
      cache.Get({1, 1}, [](const Key&) -> int { throw std::runtime_error("no"); }),
      std::runtime_error);
  EXPECT_EQ(cache.size(), 0u);
  EXPECT_EQ(*cache.Get({1, 1}, [](const Key&) { return 7; }), 7);
}

TEST(LruCache, ServesSeveralThreads) {
  LruCache<Key, int64_t> cache(8);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int64_t i = 0; i < 2000; ++i) {
        const int64_t a = i * 7 % 13;
        EXPECT_EQ(*cache.Get({a, 1}, [](const Key& key) { return key.a; }), a);
      }
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(cache.size(), 8u);
}

}  // namespace
}  // namespace plait::cpu::onednn
