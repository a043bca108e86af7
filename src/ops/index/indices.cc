// Reading indices of any dtype, and what becomes of those out of range.

#include "ops/index/indices.h"

#include <algorithm>
#include <limits>
#include <type_traits>

#include "base/parallel.h"

namespace plait {
namespace {

// Numbers that int64 does not hold become its ends.
template <typename T>
int64_t ToIndex(T value) {
  using Limits = std::numeric_limits<int64_t>;
  if constexpr (std::is_integral_v<T>) {
    if constexpr (std::is_same_v<T, uint64_t>) {
      return value > uint64_t{Limits::max()} ? Limits::max()
                                             : static_cast<int64_t>(value);
    }
    return static_cast<int64_t>(value);
  } else {
    const auto v = static_cast<Accumulate<T>>(value);
    constexpr Accumulate<T> kEnd = 9223372036854775808.0;
    if (!(v >= -kEnd)) return Limits::min();  // NaN too
    return v >= kEnd ? Limits::max() : static_cast<int64_t>(v);
  }
}

[[noreturn]] [[gnu::noinline]] void OutOfRange(int64_t index, int64_t size,
                                               IndexMode mode,
                                               const IndexPlace& place) {
  if (size == 0) {
    Fail(ErrorKind::kIndex, place.op, ": axis ", place.axis,
         " has no element that index ", index, " could mean; a size > 0 was expected");
  }
  Fail(ErrorKind::kIndex, place.op, ": index ", index, " is out of range for axis ",
       place.axis, " of size ", size, "; ", mode == IndexMode::kRaise ? 0 : -size,
       " <= index < ", size, " was expected");
}

template <IndexMode kMode, typename T>
void Resolve(const T* index, int64_t n, int64_t size, const IndexPlace& place,
             int64_t* out) {
  for (int64_t i = 0; i < n; ++i) {
    int64_t at = ToIndex(index[i]);
    if constexpr (kMode == IndexMode::kClip) {
      at = std::clamp<int64_t>(at, 0, size - 1);
    } else if constexpr (kMode == IndexMode::kWrap) {
      if (at < 0 || at >= size) [[unlikely]] {
        at %= size;
        if (at < 0) at += size;
      }
    } else {
      const int64_t given = at;
      if (kMode == IndexMode::kFromEnd && at < 0) at += size;
      if (at < 0 || at >= size) [[unlikely]]
        OutOfRange(given, size, kMode, place);
    }
    out[i] = at;
  }
}

}  // namespace

void ReadIndices(const View& index, int64_t first, int64_t n, int64_t* out) {
  VisitDType(index.dtype, [&]<typename T>() {
    const T* in = index.data<const T>() + first;
    for (int64_t i = 0; i < n; ++i) out[i] = ToIndex(in[i]);
  });
}

void ResolveIndices(const View& index, int64_t first, int64_t n, int64_t size,
                    IndexMode mode, const IndexPlace& place, int64_t* out) {
  VisitDType(index.dtype, [&]<typename T>() {
    const T* in = index.data<const T>() + first;
    if (size == 0 && n > 0) OutOfRange(ToIndex(in[0]), size, mode, place);
    switch (mode) {
      case IndexMode::kClip:
        return Resolve<IndexMode::kClip>(in, n, size, place, out);
      case IndexMode::kRaise:
        return Resolve<IndexMode::kRaise>(in, n, size, place, out);
      case IndexMode::kWrap:
        return Resolve<IndexMode::kWrap>(in, n, size, place, out);
      case IndexMode::kFromEnd:
        return Resolve<IndexMode::kFromEnd>(in, n, size, place, out);
    }
  });
}

ResolvedIndices::ResolvedIndices(const View& index, int64_t size, IndexMode mode,
                                 const IndexPlace& place)
    : memory_(cpu::Scratch::Bytes<int64_t>(index.size())) {
  ParallelFor(index.size(), 1 << 14, [&](int64_t first, int64_t last) {
    ResolveIndices(index, first, last - first, size, mode, place,
                   memory_.As<int64_t>() + first);
  });
}

}  // namespace plait
