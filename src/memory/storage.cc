// Allocate and Free: the fast paths over the calling thread's cache, and fork handlers.

#include "memory/storage.h"

#include <pthread.h>

#include <atomic>

#include "base/error.h"
#include "memory/pool.h"

namespace plait::memory {
namespace {

// One load instead of a call: the library is loaded with room for a few such pointers.
[[gnu::tls_model("initial-exec")]] constinit thread_local ThreadCache* cache = nullptr;

void RetireThread(void* retired);

// What the process shares. Never destroyed: blocks may be freed while it exits.
struct Shared {
  Shared();
  Pool pool;
  pthread_key_t key = 0;  // its destructor runs after those of thread_local objects
};

Shared& GetShared() {
  static Shared& shared = *new Shared;
  return shared;
}

Pool& GetPool() {
  return GetShared().pool;
}

Shared::Shared() {
  pthread_key_create(&key, RetireThread);
  pthread_atfork([] { GetPool().BeforeFork(); }, [] { GetPool().AfterForkInParent(); },
                 [] { GetPool().AfterForkInChild(cache); });
}

// At load, so that the engine registers its handlers later: before a fork handlers run
// backwards, and the pool must be the last to lock.
[[maybe_unused]] const Shared& made_at_load = GetShared();

void RetireThread(void* retired) {
  cache = nullptr;
  GetPool().RetireCache(static_cast<ThreadCache*>(retired));
}

// The calling thread's cache; nullptr when there is no memory for one.
ThreadCache* GetCache() noexcept {
  if (cache == nullptr) {
    cache = GetPool().NewCache();
    if (cache != nullptr) pthread_setspecific(GetShared().key, cache);
  }
  return cache;
}

void CheckDevice(Device device) {
  Check(device.is_cpu(), ErrorKind::kNotImplemented, "memory: ", device,
        " is not available in this build; cpu(0) is");
}

Block AllocateOnce(Device device, size_t bytes) {
  if constexpr (!kPooled) return GetPool().AllocateAlone(device, bytes);
  if (bytes > kSmallMax) return GetPool().AllocateLarge(device, bytes);
  return GetPool().AllocateSmall(device, GetCache(), SmallClass(bytes));
}

std::atomic<Reclaim> reclaim_hook{nullptr};

[[gnu::noinline]] Block AllocateSlow(Device device, size_t bytes) {
  CheckDevice(device);
  if (bytes == 0) return {};
  try {
    return AllocateOnce(device, bytes);
  } catch (const Error& e) {
    const Reclaim reclaim = reclaim_hook.load(std::memory_order_acquire);
    if (e.kind() != ErrorKind::kMemory || reclaim == nullptr || !reclaim()) throw;
  }
  return AllocateOnce(device, bytes);
}

[[gnu::noinline]] void FreeSlow(Block block) noexcept {
  if constexpr (!kPooled) return GetPool().FreeAlone(block);
  if (block.capacity > kSmallMax) return GetPool().FreeLarge(block);
  GetPool().FreeSmall(GetCache(), block.data, SmallClass(block.capacity));
}

[[gnu::noinline]] void Overflow(ThreadCache* full, int c) noexcept {
  GetPool().Overflow(full, c);
}

}  // namespace

Block Allocate(Device device, size_t bytes) {
  ThreadCache* own = cache;
  const bool small = bytes - 1 < kSmallMax;  // 0 is not
  if (kPooled && small && device.is_cpu() && own != nullptr && own->Enter()) {
    const int c = SmallClass(bytes);
    FreeList& list = own->lists[c];
    if (list.head != nullptr) [[likely]] {
      const size_t capacity = ClassBytes(bytes);
      void* data = list.Pop();
      own->Count(static_cast<int64_t>(capacity));
      own->CountAllocation();
      own->Leave();
      return {data, capacity};
    }
    own->Leave();
  }
  return AllocateSlow(device, bytes);
}

void Free(Device device, Block block) noexcept {
  if (block.data == nullptr || !device.is_cpu()) return;
  ThreadCache* own = cache;
  if (kPooled && block.capacity <= kSmallMax && own != nullptr && own->Enter()) {
    const int c = SmallClass(block.capacity);
    FreeList& list = own->lists[c];
    list.Push(block.data);
    own->Count(-static_cast<int64_t>(block.capacity));
    const bool full = list.count > kCacheLimits[c] || own->cached() > kCacheBytesMax;
    own->Leave();
    if (full) [[unlikely]]
      Overflow(own, c);
    return;
  }
  FreeSlow(block);
}

Stats GetStats(Device device) {
  CheckDevice(device);
  return GetPool().GetStats();
}

void ResetPeak(Device device) {
  CheckDevice(device);
  GetPool().ResetPeak();
}

void SetLimit(Device device, size_t bytes) {
  CheckDevice(device);
  GetPool().SetLimit(bytes);
}

void EmptyCache(Device device) noexcept {
  if (device.is_cpu()) GetPool().EmptyCache();
}

void SetReclaim(Reclaim reclaim) {
  GetPool();  // who registers for forks afterwards is asked before it
  reclaim_hook.store(reclaim, std::memory_order_release);
}

}  // namespace plait::memory
