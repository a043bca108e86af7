// Pages, memory sizes and barriers, through Linux's system calls.

#include "memory/system.h"

#include <linux/membarrier.h>
#include <malloc.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <fstream>

#include "memory/size_class.h"

namespace plait::memory {
namespace {

void* Map(size_t bytes) noexcept {
  void* p =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return p == MAP_FAILED ? nullptr : p;
}

bool IsHugeAligned(const void* p) {
  return reinterpret_cast<uintptr_t>(p) % kHugePageBytes == 0;
}

// A region of which the part before and after an aligned range is unmapped again.
char* MapAligned(size_t bytes) noexcept {
  char* p = static_cast<char*>(Map(bytes + kHugePageBytes));
  if (p == nullptr) return nullptr;
  const size_t before = -reinterpret_cast<uintptr_t>(p) % kHugePageBytes;
  if (before > 0) munmap(p, before);
  munmap(p + before + bytes, kHugePageBytes - before);
  return p + before;
}

// The number in a control group's file, or the largest size when there is none.
size_t ReadLimit(const char* path) {
  std::ifstream file(path);
  size_t bytes = 0;
  return file >> bytes ? bytes : SIZE_MAX;
}

}  // namespace

void* MapPages(size_t bytes) noexcept {
  if (bytes < kHugePageBytes) return Map(bytes);
  // Next to an aligned region a new one is often aligned by itself, and then both make
  // one long span.
  void* p = Map(bytes);
  if (p != nullptr && !IsHugeAligned(p)) {
    munmap(p, bytes);
    p = MapAligned(bytes);
  }
  // Without huge pages in the kernel this fails, and nothing is lost but speed.
  if (p != nullptr) madvise(p, bytes, MADV_HUGEPAGE);
  return p;
}

bool UnmapPages(void* start, size_t bytes) noexcept {
  return munmap(start, bytes) == 0;
}

size_t SystemBytes() {
  static const size_t bytes = [] {
    struct sysinfo info = {};
    if (sysinfo(&info) != 0) return kBytesMax;
    const size_t swap = static_cast<size_t>(info.totalswap) * info.mem_unit;
    const size_t machine = static_cast<size_t>(info.totalram) * info.mem_unit;
    const size_t group =
        std::min(ReadLimit("/sys/fs/cgroup/memory.max"),
                 ReadLimit("/sys/fs/cgroup/memory/memory.limit_in_bytes"));
    return std::min(machine, group) + swap;
  }();
  return bytes;
}

void TrimMalloc() noexcept {
#ifdef __GLIBC__
  malloc_trim(0);
#endif
}

bool RegisterBarrier() noexcept {
  return syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0;
}

void BarrierAllThreads() noexcept {
  syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
}

}  // namespace plait::memory
