// Size classes: how the bytes asked for are rounded up to the bytes of a block.

#ifndef PLAIT_MEMORY_SIZE_CLASS_H_
#define PLAIT_MEMORY_SIZE_CLASS_H_

#include <algorithm>
#include <bit>
#include <cstddef>

namespace plait::memory {

inline constexpr size_t kPageBytes = 4096;
inline constexpr size_t kHugePageBytes = size_t{2} << 20;
inline constexpr size_t kSmallMax = size_t{32} << 10;  // the largest small class
inline constexpr size_t kMediumMax = size_t{1} << 20;  // the largest medium class
inline constexpr size_t kBytesMax = size_t{1} << 60;   // sums of these cannot overflow
inline constexpr int kSmallClasses = 56;

constexpr size_t RoundUp(size_t bytes, size_t multiple) {
  return (bytes + multiple - 1) / multiple * multiple;
}

// The step between classes near `bytes` is 2^ClassShift(bytes).
constexpr int ClassShift(size_t bytes) {
  const int width = std::bit_width(bytes - 1);
  return bytes <= kMediumMax ? std::max(width - 4, 6) : width - 6;
}

// The smallest class that holds `bytes`. REQUIRES: 0 < bytes <= kBytesMax.
constexpr size_t ClassBytes(size_t bytes) {
  const int shift = ClassShift(bytes);
  return (((bytes - 1) >> shift) + 1) << shift;
}

// The number of the small class that holds `bytes`. REQUIRES: 0 < bytes <= kSmallMax.
constexpr int SmallClass(size_t bytes) {
  const int shift = std::max(static_cast<int>(std::bit_width(bytes - 1)) - 4, 6);
  return (shift - 6) * 8 + static_cast<int>((bytes - 1) >> shift);
}

// The bytes of small class c.
constexpr size_t SmallClassBytes(int c) {
  if (c < 8) return (static_cast<size_t>(c) + 1) * 64;
  return (static_cast<size_t>(c % 8) + 9) << (c / 8 + 5);
}

static_assert(SmallClass(kSmallMax) == kSmallClasses - 1);
static_assert(SmallClassBytes(kSmallClasses - 1) == kSmallMax);

}  // namespace plait::memory

#endif  // PLAIT_MEMORY_SIZE_CLASS_H_
