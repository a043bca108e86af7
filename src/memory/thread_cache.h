// ThreadCache: one thread's free small blocks, and the protocol by which others claim
// them.

#ifndef PLAIT_MEMORY_THREAD_CACHE_H_
#define PLAIT_MEMORY_THREAD_CACHE_H_

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "memory/size_class.h"

namespace plait::memory {

// A list of free blocks, linked through their first bytes.
struct FreeList {
  void* head = nullptr;
  uint32_t count = 0;

  void Push(void* block) {
    *static_cast<void**>(block) = head;
    head = block;
    ++count;
  }
  void* Pop() {
    --count;
    return std::exchange(head, *static_cast<void**>(head));
  }
};

// Blocks of small class c that a cache may hold; half of them move at a time.
constexpr uint32_t CacheLimit(int c) {
  return static_cast<uint32_t>(
      std::clamp<size_t>((size_t{128} << 10) / SmallClassBytes(c), 4, 64));
}
inline constexpr auto kCacheLimits = [] {
  std::array<uint32_t, kSmallClasses> limits = {};
  for (int c = 0; c < kSmallClasses; ++c) limits[c] = CacheLimit(c);
  return limits;
}();
inline constexpr int64_t kCacheBytesMax = int64_t{1} << 20;

// The owner uses the lists between Enter() and Leave(), or while it holds the pool's
// mutex; others only after they have claimed the cache, holding that mutex.
struct alignas(64) ThreadCache {
  // False: another thread claims the cache; take the pool's mutex instead.
  bool Enter() {
    if (fenced) {
      busy.exchange(true, std::memory_order_seq_cst);
    } else {
      // The claimer's barrier orders this store before the load below, seen from it.
      busy.store(true, std::memory_order_relaxed);
      std::atomic_signal_fence(std::memory_order_seq_cst);
    }
    if (!claimed.load(std::memory_order_seq_cst)) [[likely]]
      return true;
    Leave();
    return false;
  }
  void Leave() { busy.store(false, std::memory_order_release); }

  // Only the owner writes these counters, so no atomic addition is needed.
  void Count(int64_t bytes) {
    live.store(live.load(std::memory_order_relaxed) + bytes, std::memory_order_relaxed);
  }
  void CountAllocation() {
    allocations.store(allocations.load(std::memory_order_relaxed) + 1,
                      std::memory_order_relaxed);
  }
  // Bytes in the lists.
  int64_t cached() const { return out - live.load(std::memory_order_relaxed); }

  std::atomic<bool> busy = false;
  std::atomic<bool> claimed = false;
  bool fenced = false;                    // the system has no barrier for claimers
  std::atomic<int64_t> live = 0;          // bytes allocated here less bytes freed here
  std::atomic<uint64_t> allocations = 0;  // calls of Allocate that used this cache
  int64_t out = 0;  // bytes fetched from the pool less bytes sent back to it
  std::array<FreeList, kSmallClasses> lists;
};

}  // namespace plait::memory

#endif  // PLAIT_MEMORY_THREAD_CACHE_H_
