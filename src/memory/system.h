// What the room asks of the operating system: pages, and how much memory there is.

#ifndef PLAIT_MEMORY_SYSTEM_H_
#define PLAIT_MEMORY_SYSTEM_H_

#include <cstddef>

namespace plait::memory {

// Maps zeroed pages; nullptr on failure. kHugePageBytes or more are aligned to it and
// marked for huge pages. REQUIRES: bytes is a multiple of kPageBytes.
void* MapPages(size_t bytes) noexcept;

// Gives back any whole pages of what MapPages returned; false when the system refuses,
// as it may when it must cut a mapping in two.
bool UnmapPages(void* start, size_t bytes) noexcept;

// The memory and swap that this process could ever have: the machine's or the control
// group's, whichever is less. Read once.
size_t SystemBytes();

// Lets the C library give back what it keeps of freed blocks.
void TrimMalloc() noexcept;

// Makes later calls of BarrierAllThreads possible; false when the system has none.
bool RegisterBarrier() noexcept;

// Every other thread of the process passes a full memory barrier before this returns.
void BarrierAllThreads() noexcept;

}  // namespace plait::memory

#endif  // PLAIT_MEMORY_SYSTEM_H_
