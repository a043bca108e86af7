// Storage: pooled memory for arrays, with statistics and a hard limit for each device.
//
// Thread safety: every function may be called from any thread, also by an engine's
// workers. A block may be freed on another thread than the one that allocated it.
// After fork() the child may go on using and freeing all blocks it inherited.
//
// Invariants: (1) a block starts at a multiple of kAlignment and may be read up to the
// next multiple of kAlignment after its end (vector loads of a tail). (2) live <= peak
// and live <= reserved. (3) A freed block is kept for reuse until EmptyCache, a bound
// of the pool (docs/design/memory.md) or a failed system allocation gives it back.

#ifndef PLAIT_MEMORY_STORAGE_H_
#define PLAIT_MEMORY_STORAGE_H_

#include <cstddef>
#include <cstdint>

#include "base/device.h"

namespace plait::memory {

inline constexpr size_t kAlignment = 64;

struct Block {
  void* data = nullptr;
  size_t capacity = 0;  // bytes of the size class; Free wants the block unchanged
};

// At least `bytes` bytes, not cleared; {nullptr, 0} for 0 bytes. Throws
// Error(kMemory) naming bytes, device, live bytes and the limit; before that it gives
// back cached blocks, then has others reclaim theirs, and tries once more each time.
Block Allocate(Device device, size_t bytes);
void Free(Device device, Block block) noexcept;

struct Stats {
  size_t live = 0;           // bytes in blocks that are in use
  size_t peak = 0;           // the most that live has been since ResetPeak
  size_t reserved = 0;       // bytes taken from the system: live and cached
  size_t limit = 0;          // 0: none
  uint64_t allocations = 0;  // calls of Allocate with bytes > 0
};
Stats GetStats(Device device);
void ResetPeak(Device device);
void SetLimit(Device device, size_t bytes);  // 0: none
void EmptyCache(Device device) noexcept;     // gives cached blocks back to the system

// Lets go of blocks that somebody keeps only to be faster, and says whether there were
// any. Called by an allocation that does not fit, on its thread and without a lock of
// the pool; then that tries once more.
using Reclaim = bool (*)() noexcept;
void SetReclaim(Reclaim reclaim);

}  // namespace plait::memory

#endif  // PLAIT_MEMORY_STORAGE_H_
