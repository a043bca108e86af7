// Packing of matrix operands into panels, for the Highway target at hand.
//
// Included once for each target, after hwy/foreach_target.h.

#if defined(PLAIT_CPU_GEMM_PACK_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PLAIT_CPU_GEMM_PACK_H_
#undef PLAIT_CPU_GEMM_PACK_H_
#else
#define PLAIT_CPU_GEMM_PACK_H_
#endif

#include <algorithm>
#include <cstdint>

#include "cpu/gemm_tile.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace plait::cpu::kernel {
namespace HWY_NAMESPACE {

// An operand by its strides: element (i, p) is at data[i * row + p * k].
template <typename T>
struct Operand {
  const T* data;
  int64_t row, k;
  const T* At(int64_t i, int64_t p) const { return data + i * row + p * k; }
  Operand From(int64_t i, int64_t p) const { return {At(i, p), row, k}; }
};

#if HWY_TARGET != HWY_SCALAR
// A vector of 16-byte blocks, block b read from `from + b * stride`.
template <class D, typename T = hn::TFromD<D>>
HWY_INLINE hn::Vec<D> LoadBlocks(D d, const T* from, int64_t stride) {
  if constexpr (hn::MaxLanes(D()) * sizeof(T) == 16) {
    return hn::LoadU(d, from);
  } else {
    const hn::Half<D> half;
    constexpr int64_t kBlocks = hn::MaxLanes(D()) * sizeof(T) / 16;
    return hn::Combine(d, LoadBlocks(half, from + kBlocks / 2 * stride, stride),
                       LoadBlocks(half, from, stride));
  }
}

// to[p * width + i] = from[i * row + p], for one vector of i and p < 16 / sizeof(T).
template <class D, typename T = hn::TFromD<D>>
HWY_INLINE void TransposeStrip(D d, const T* from, int64_t row, T* to, int64_t width) {
  if constexpr (sizeof(T) == 4) {
    const auto r0 = LoadBlocks(d, from, 4 * row);
    const auto r1 = LoadBlocks(d, from + row, 4 * row);
    const auto r2 = LoadBlocks(d, from + 2 * row, 4 * row);
    const auto r3 = LoadBlocks(d, from + 3 * row, 4 * row);
    const auto a = hn::InterleaveLower(d, r0, r2), b = hn::InterleaveLower(d, r1, r3);
    const auto e = hn::InterleaveUpper(d, r0, r2), f = hn::InterleaveUpper(d, r1, r3);
    hn::StoreU(hn::InterleaveLower(d, a, b), d, to);
    hn::StoreU(hn::InterleaveUpper(d, a, b), d, to + width);
    hn::StoreU(hn::InterleaveLower(d, e, f), d, to + 2 * width);
    hn::StoreU(hn::InterleaveUpper(d, e, f), d, to + 3 * width);
  } else {
    const auto r0 = LoadBlocks(d, from, 2 * row);
    const auto r1 = LoadBlocks(d, from + row, 2 * row);
    hn::StoreU(hn::InterleaveLower(d, r0, r1), d, to);
    hn::StoreU(hn::InterleaveUpper(d, r0, r1), d, to + width);
  }
}

// to[p * width + i] = from[i * row + p] for all i < n, p < k that whole vectors of the
// type D cover; returns how many i are done.
template <class D, typename T = hn::TFromD<D>>
HWY_INLINE int64_t TransposeRows(D d, const T* from, int64_t row, int64_t n, int64_t k,
                                 int64_t width, T* to) {
  constexpr int64_t kL = hn::MaxLanes(D()), kStep = 16 / sizeof(T);
  int64_t i = 0;
  for (; i + kL <= n; i += kL) {
    int64_t p = 0;
    for (; p + kStep <= k; p += kStep) {
      TransposeStrip(d, from + i * row + p, row, to + p * width + i, width);
    }
    for (; p < k; ++p) {
      for (int64_t r = i; r < i + kL; ++r) to[p * width + r] = from[r * row + p];
    }
  }
  return i;
}
#endif

// to[p * width + i] = x(i, p) for i < n; zeros for n <= i < width.
template <typename T>
void Pack(const Operand<T>& x, int64_t n, int64_t k, int64_t width, T* to) {
  if (x.row == 1) {
    const TileTag<T> d;
    const int64_t whole = n / kLanes<T> * kLanes<T>, rest = n - whole;
    const auto mask = hn::FirstN(d, static_cast<size_t>(rest));
    for (int64_t p = 0; p < k; ++p, to += width) {
      const T* from = x.data + p * x.k;
      for (int64_t i = 0; i < whole; i += kLanes<T>) {
        hn::StoreU(hn::LoadU(d, from + i), d, to + i);
      }
      if (rest == 0) continue;
      if (!kSafeMasks) {
        std::copy_n(from + whole, rest, to + whole);
        std::fill(to + n, to + width, T(0));
      } else if (whole + kLanes<T> <= width) {
        hn::StoreU(hn::MaskedLoad(mask, d, from + whole), d, to + whole);
      } else {
        hn::BlendedStore(hn::MaskedLoad(mask, d, from + whole), mask, d, to + whole);
      }
    }
    return;
  }
  int64_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  if (x.k == 1) {
    i = TransposeRows(TileTag<T>(), x.data, x.row, n, k, width, to);
    i += TransposeRows(hn::FixedTag<T, 16 / sizeof(T)>(), x.data + i * x.row, x.row,
                       n - i, k, width, to + i);
  }
#endif
  for (; i < width; ++i) {
    const T* from = x.data + i * x.row;
    for (int64_t p = 0; p < k; ++p) to[p * width + i] = i < n ? from[p * x.k] : T(0);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace plait::cpu::kernel
HWY_AFTER_NAMESPACE();

#endif  // PLAIT_CPU_GEMM_PACK_H_
