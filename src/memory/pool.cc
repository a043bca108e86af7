// Pool: growth under the bounds, central lists, statistics, and claims of caches.

#include "memory/pool.h"

#include <sched.h>

#include <algorithm>
#include <cstdlib>
#include <new>

#include "base/error.h"
#include "base/options.h"
#include "memory/system.h"

namespace plait::memory {
namespace {

// Below this much the slack is not worth a system call.
constexpr size_t kSlackFloor = size_t{4} << 20;
constexpr size_t kArenaBytes = size_t{256} << 20;

using Lock = std::lock_guard<std::mutex>;

}  // namespace

Pool::Pool() : fenced_(!RegisterBarrier()) {}

// ---- Caches of threads ----

ThreadCache* Pool::NewCache() noexcept {
  auto* cache = new (std::nothrow) ThreadCache;
  if (cache == nullptr) return nullptr;
  cache->fenced = fenced_;
  const Lock lock(mutex_);
  try {
    caches_.push_back(cache);
  } catch (const std::bad_alloc&) {
    delete cache;
    return nullptr;
  }
  return cache;
}

void Pool::RetireCache(ThreadCache* cache) noexcept {
  const Lock lock(mutex_);
  Drain(*cache);
  retired_live_ += cache->live.load(std::memory_order_relaxed);
  allocations_ += cache->allocations.load(std::memory_order_relaxed);
  std::erase(caches_, cache);
  delete cache;
}

void Pool::MoveToCentral(ThreadCache& cache, int c, uint32_t count) noexcept {
  FreeList& list = cache.lists[c];
  for (uint32_t i = 0; i < count; ++i) central_[c].Push(list.Pop());
  const size_t bytes = count * SmallClassBytes(c);
  cache.out -= static_cast<int64_t>(bytes);
  small_out_ -= bytes;
}

void Pool::Drain(ThreadCache& cache) noexcept {
  for (int c = 0; c < kSmallClasses; ++c) MoveToCentral(cache, c, cache.lists[c].count);
}

void Pool::ClaimCaches(const ThreadCache* own) noexcept {
  bool others = false;
  for (ThreadCache* cache : caches_) {
    if (cache == own) continue;
    cache->claimed.store(true, std::memory_order_seq_cst);
    others = true;
  }
  if (!others) return;
  if (!fenced_) BarrierAllThreads();
  for (ThreadCache* cache : caches_) {
    if (cache == own) continue;
    while (cache->busy.load(std::memory_order_seq_cst)) sched_yield();
  }
}

void Pool::UnclaimCaches() noexcept {
  for (ThreadCache* cache : caches_) {
    cache->claimed.store(false, std::memory_order_release);
  }
}

// ---- Small blocks ----

Block Pool::AllocateSmall(Device device, ThreadCache* cache, int c) {
  const size_t bytes = SmallClassBytes(c);
  const Lock lock(mutex_);
  FreeList& central = central_[c];
  void* data;
  if (cache != nullptr && cache->lists[c].count > 0) {
    data = cache->lists[c].Pop();  // the cache was claimed a moment ago
  } else if (central.count > 0) {
    data = central.Pop();
    small_out_ += bytes;
    if (cache != nullptr) {
      const uint32_t more = std::min(central.count, kCacheLimits[c] / 2);
      for (uint32_t i = 0; i < more; ++i) cache->lists[c].Push(central.Pop());
      cache->out += static_cast<int64_t>(more * bytes + bytes);
      small_out_ += more * bytes;
    }
  } else {
    data = GrowSmall(device, bytes);
    small_out_ += bytes;
    if (cache != nullptr) cache->out += static_cast<int64_t>(bytes);
  }
  if (cache != nullptr) {
    cache->Count(static_cast<int64_t>(bytes));
    cache->CountAllocation();
  } else {
    retired_live_ += static_cast<int64_t>(bytes);
    ++allocations_;
  }
  NotePeak();
  return {data, bytes};
}

void Pool::FreeSmall(ThreadCache* cache, void* data, int c) noexcept {
  const size_t bytes = SmallClassBytes(c);
  const Lock lock(mutex_);
  central_[c].Push(data);
  small_out_ -= bytes;
  if (cache != nullptr) {
    cache->Count(-static_cast<int64_t>(bytes));
    cache->out -= static_cast<int64_t>(bytes);
  } else {
    retired_live_ -= static_cast<int64_t>(bytes);
  }
}

void Pool::Overflow(ThreadCache* cache, int c) noexcept {
  const Lock lock(mutex_);
  NotePeak();
  if (cache->lists[c].count > kCacheLimits[c]) {
    MoveToCentral(*cache, c, cache->lists[c].count / 2);
  }
  if (cache->cached() > kCacheBytesMax) {
    for (int i = 0; i < kSmallClasses; ++i) {
      MoveToCentral(*cache, i, (cache->lists[i].count + 1) / 2);
    }
  }
}

// ---- Medium and large blocks ----

Block Pool::AllocateLarge(Device device, size_t bytes) {
  const Lock lock(mutex_);
  if (bytes > kBytesMax) FailFull(device, bytes);
  const size_t capacity = ClassBytes(bytes);
  SpanHeap& heap = capacity <= kMediumMax ? medium_ : large_;
  void* data = heap.Take(capacity);
  while (data == nullptr) {
    GrowHeap(device, heap, capacity);
    data = heap.Take(capacity);
  }
  large_live_ += capacity;
  ++allocations_;
  NotePeak();
  return {data, capacity};
}

void Pool::FreeLarge(Block block) noexcept {
  SpanHeap& heap = block.capacity <= kMediumMax ? medium_ : large_;
  const Lock lock(mutex_);
  large_live_ -= block.capacity;
  reserved_ -= heap.Give(block.data, block.capacity);
}

// ---- Growth ----

// The most that may be reserved when `bytes` more become live.
size_t Pool::SlackBound(size_t bytes) {
  crest_ = std::max(crest_, Live());
  const size_t crest = std::max(crest_, Live() + bytes);
  // A block as large as a network's arena is asked for seldom; it is worth giving back
  // what lies around, so that a process needs no more than what is live at its peak.
  const size_t slack = bytes >= kArenaBytes ? crest / 32 : crest / 2;
  return std::max(kSlackFloor, crest + slack);
}

size_t Pool::Limit() {
  if (!limit_known_) {
    const int64_t bytes = GetOptionInt(Option::kMemoryLimit);
    Check(bytes >= 0, "PLAIT_MEMORY_LIMIT: ", bytes,
          " is negative; a number of bytes was expected, or 0 for none");
    limit_ = static_cast<size_t>(bytes);
    limit_known_ = true;
  }
  return limit_;
}

size_t Pool::Ceiling() {
  const size_t limit = Limit();
  return limit == 0 ? SystemBytes() : std::min(limit, SystemBytes());
}

// Gives back cached blocks until `growth` more bytes, of which `bytes` become live, are
// within the bounds, or throws.
void Pool::MakeRoom(Device device, size_t growth, size_t bytes) {
  const size_t ceiling = Ceiling();
  if (growth > ceiling || Live() > ceiling - growth) FailFull(device, bytes);
  const size_t wanted = reserved_ + growth;
  const size_t most = std::min(SlackBound(bytes), ceiling);
  if (wanted > most) ReleaseCached(wanted - most);
  if (reserved_ + growth > ceiling) ReleaseAll();
  if (reserved_ + growth > ceiling) FailFull(device, bytes);
}

void Pool::FailFull(Device device, size_t bytes) {
  const size_t limit = Limit();
  if (limit > 0 && (bytes > limit || Live() > limit - bytes)) {
    Fail(ErrorKind::kMemory, "memory: ", bytes, " bytes on ", device,
         " do not fit: ", Live(), " live of a limit of ", limit,
         "; free arrays, or raise the limit");
  }
  Fail(ErrorKind::kMemory, "memory: ", bytes, " bytes on ", device,
       " do not fit: ", Live(), " live of the ", SystemBytes(),
       " that the system has; free arrays, or use smaller ones");
}

void* Pool::GrowSmall(Device device, size_t bytes) {
  MakeRoom(device, bytes, bytes);
  void* data = std::aligned_alloc(kAlignment, bytes);
  if (data == nullptr) {
    ReleaseAll();
    data = std::aligned_alloc(kAlignment, bytes);
  }
  if (data == nullptr) FailFull(device, bytes);
  reserved_ += bytes;
  return data;
}

// Maps a region and makes it free in the heap: whole huge pages, where the bounds allow
// it at all.
void Pool::GrowHeap(Device device, SpanHeap& heap, size_t bytes) {
  size_t region = RoundUp(bytes, kHugePageBytes);
  if (Live() + region > std::min(SlackBound(bytes), Ceiling())) region = bytes;
  MakeRoom(device, region, bytes);
  void* start = MapPages(region);
  if (start == nullptr) {
    ReleaseAll();
    region = bytes;
    start = MapPages(region);
  }
  if (start == nullptr) FailFull(device, bytes);
  reserved_ += region;
  const size_t lost = heap.Give(start, region);
  reserved_ -= lost;
  if (lost > 0) FailFull(device, bytes);
}

// ---- Without the pool ----

Block Pool::AllocateAlone(Device device, size_t bytes) {
  const Lock lock(mutex_);
  if (bytes > kBytesMax) FailFull(device, bytes);
  const size_t capacity = RoundUp(bytes, kAlignment);
  void* data = GrowSmall(device, capacity);
  large_live_ += capacity;
  ++allocations_;
  NotePeak();
  return {data, capacity};
}

void Pool::FreeAlone(Block block) noexcept {
  const Lock lock(mutex_);
  std::free(block.data);
  large_live_ -= block.capacity;
  reserved_ -= block.capacity;
}

// ---- Giving back ----

// At least `bytes` of what no thread caches, if there are so many.
void Pool::ReleaseCached(size_t bytes) noexcept {
  size_t released = large_.Release(bytes);
  if (released < bytes) released += medium_.Release(bytes - released);
  for (int c = kSmallClasses; c-- > 0 && released < bytes;) {
    for (FreeList& list = central_[c]; list.count > 0 && released < bytes;) {
      std::free(list.Pop());
      released += SmallClassBytes(c);
    }
  }
  reserved_ -= released;
}

void Pool::ReleaseAll() noexcept {
  ClaimCaches(nullptr);
  for (ThreadCache* cache : caches_) Drain(*cache);
  UnclaimCaches();
  ReleaseCached(reserved_);
}

void Pool::EmptyCache() noexcept {
  {
    const Lock lock(mutex_);
    ReleaseAll();
    crest_ = Live();
  }
  TrimMalloc();
}

// ---- Statistics ----

size_t Pool::Live() const {
  int64_t small = retired_live_;
  for (const ThreadCache* cache : caches_) {
    small += cache->live.load(std::memory_order_relaxed);
  }
  // While other threads allocate, the sum may mix their states.
  small = std::clamp<int64_t>(small, 0, static_cast<int64_t>(small_out_));
  return large_live_ + static_cast<size_t>(small);
}

void Pool::NotePeak() {
  // The sum over threads is needed only where its bound could be a new peak.
  if (large_live_ + small_out_ > std::min(peak_, crest_)) {
    const size_t live = Live();
    peak_ = std::max(peak_, live);
    crest_ = std::max(crest_, live);
  }
}

Stats Pool::GetStats() {
  const Lock lock(mutex_);
  NotePeak();
  uint64_t allocations = allocations_;
  for (const ThreadCache* cache : caches_) {
    allocations += cache->allocations.load(std::memory_order_relaxed);
  }
  const size_t live = Live();
  peak_ = std::max(peak_, live);
  return {.live = live,
          .peak = peak_,
          .reserved = reserved_,
          .limit = Limit(),
          .allocations = allocations};
}

void Pool::ResetPeak() {
  const Lock lock(mutex_);
  peak_ = Live();
}

void Pool::SetLimit(size_t bytes) {
  const Lock lock(mutex_);
  limit_ = bytes;
  limit_known_ = true;
  if (bytes > 0 && reserved_ > bytes) ReleaseAll();
}

// ---- fork() ----

void Pool::BeforeFork() {
  mutex_.lock();
  ClaimCaches(nullptr);
}

void Pool::AfterForkInParent() {
  UnclaimCaches();
  mutex_.unlock();
}

void Pool::AfterForkInChild(ThreadCache* own) {
  if (!fenced_) RegisterBarrier();
  for (ThreadCache* cache : caches_) {
    if (cache == own) continue;
    Drain(*cache);
    retired_live_ += cache->live.load(std::memory_order_relaxed);
    allocations_ += cache->allocations.load(std::memory_order_relaxed);
    delete cache;
  }
  std::erase_if(caches_, [own](const ThreadCache* cache) { return cache != own; });
  AfterForkInParent();
}

}  // namespace plait::memory
