// Pool: the blocks of one memory, shared by all threads under one mutex.

#ifndef PLAIT_MEMORY_POOL_H_
#define PLAIT_MEMORY_POOL_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

#include "base/device.h"
#include "memory/size_class.h"
#include "memory/span_heap.h"
#include "memory/storage.h"
#include "memory/thread_cache.h"

namespace plait::memory {

#if defined(__SANITIZE_ADDRESS__)
#define PLAIT_ADDRESS_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define PLAIT_ADDRESS_SANITIZER 1
#endif
#endif

// False: every block is allocated and freed by itself, for AddressSanitizer to see.
#ifdef PLAIT_ADDRESS_SANITIZER
inline constexpr bool kPooled = false;
#else
inline constexpr bool kPooled = true;
#endif

// Thread safety: all public functions lock mutex_ themselves. A ThreadCache given to
// one must be the calling thread's. Invariant: reserved_ = live + bytes free in heaps,
// central lists and caches.
class Pool {
 public:
  Pool();

  // A cache for the calling thread, noted here; nullptr when there is no memory for it.
  ThreadCache* NewCache() noexcept;
  // The thread ends: the pool keeps the blocks and the counts.
  void RetireCache(ThreadCache* cache) noexcept;

  // The slow paths. `cache` may be nullptr.
  Block AllocateSmall(Device device, ThreadCache* cache, int c);
  void FreeSmall(ThreadCache* cache, void* data, int c) noexcept;
  void Overflow(ThreadCache* cache, int c) noexcept;  // a limit of the cache is passed

  Block AllocateLarge(Device device, size_t bytes);
  void FreeLarge(Block block) noexcept;

  Block AllocateAlone(Device device, size_t bytes);  // not pooled
  void FreeAlone(Block block) noexcept;

  Stats GetStats();
  void ResetPeak();
  void SetLimit(size_t bytes);
  void EmptyCache() noexcept;

  // fork(): the child owns all that was cached, also by the threads it does not have.
  void BeforeFork();
  void AfterForkInParent();
  void AfterForkInChild(ThreadCache* own);

 private:
  size_t Live() const;
  void NotePeak();
  size_t Limit();
  size_t Ceiling();
  size_t SlackBound(size_t bytes);

  void MakeRoom(Device device, size_t growth, size_t bytes);
  void* GrowSmall(Device device, size_t bytes);
  void GrowHeap(Device device, SpanHeap& heap, size_t bytes);
  [[noreturn]] void FailFull(Device device, size_t bytes);

  void MoveToCentral(ThreadCache& cache, int c, uint32_t count) noexcept;
  void Drain(ThreadCache& cache) noexcept;
  void ReleaseCached(size_t bytes) noexcept;
  void ReleaseAll() noexcept;
  void ClaimCaches(const ThreadCache* own) noexcept;
  void UnclaimCaches() noexcept;

  std::mutex mutex_;
  const bool fenced_;  // no barrier for claimers: see ThreadCache
  std::vector<ThreadCache*> caches_;
  std::array<FreeList, kSmallClasses> central_;
  SpanHeap medium_;
  SpanHeap large_;

  size_t reserved_ = 0;
  size_t large_live_ = 0;  // live bytes that no thread counts: medium and large blocks
  size_t small_out_ = 0;   // small bytes that are live or in a thread's cache
  int64_t retired_live_ = 0;  // small live bytes counted outside of caches
  uint64_t allocations_ = 0;  // those that no cache counted
  size_t peak_ = 0;
  size_t crest_ = 0;  // the most that was live since EmptyCache: base of the slack
  size_t limit_ = 0;
  bool limit_known_ = false;  // PLAIT_MEMORY_LIMIT is read at the first need
};

}  // namespace plait::memory

#endif  // PLAIT_MEMORY_POOL_H_
