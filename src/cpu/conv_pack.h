// Panels of pixels from and to an image, for the Highway target at hand.
//
// Included once for each target, after hwy/foreach_target.h.

#if defined(PLAIT_CPU_CONV_PACK_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PLAIT_CPU_CONV_PACK_H_
#undef PLAIT_CPU_CONV_PACK_H_
#else
#define PLAIT_CPU_CONV_PACK_H_
#endif

#include <algorithm>
#include <cstdint>

#include "cpu/conv_plan.h"
#include "cpu/gemm_tile.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace plait::cpu::kernel {
namespace HWY_NAMESPACE {

// to[t * width + column] = element (first + t, column) of the matrix of taps and
// pixels, for `taps` taps and the pixels of panel `panel`; the columns up to `width`
// are 0.
template <typename T>
void PackPixels(const ConvPlan& plan, const T* image, int64_t first, int64_t taps,
                int64_t panel, int64_t columns, int64_t width, T* HWY_RESTRICT to) {
  const TileTag<T> d;
  const int64_t* tap = plan.tap.data() + first;
  if (columns < width) {
    for (int64_t t = 0; t < taps; ++t) {
      hn::StoreU(hn::Zero(d), d, to + (t + 1) * width - kLanes<T>);
    }
  }
  for (int64_t r = plan.first[panel]; r < plan.first[panel + 1]; ++r) {
    const ConvPlan::Run run = plan.runs[r];
    const T* from = image + run.offset;
    T* out = to + run.column;
    if (plan.step == 1 && run.length == kLanes<T>) {
      for (int64_t t = 0; t < taps; ++t, out += width) {
        hn::StoreU(hn::LoadU(d, from + tap[t]), d, out);
      }
    } else if (plan.step == 1 && kSafeMasks) {
      const auto mask = hn::FirstN(d, static_cast<size_t>(run.length));
      // A whole store may spill into the columns of the next run, which come later.
      if (run.column + kLanes<T> <= columns) {
        for (int64_t t = 0; t < taps; ++t, out += width) {
          hn::StoreU(hn::MaskedLoad(mask, d, from + tap[t]), d, out);
        }
      } else {
        for (int64_t t = 0; t < taps; ++t, out += width) {
          hn::BlendedStore(hn::MaskedLoad(mask, d, from + tap[t]), mask, d, out);
        }
      }
    } else {
      for (int64_t t = 0; t < taps; ++t, out += width) {
        const T* x = from + tap[t];
        for (int64_t i = 0; i < run.length; ++i) out[i] = x[i * plan.step];
      }
    }
  }
}

#if HWY_TARGET != HWY_SCALAR
// A vector of 16-byte blocks; block b comes from from[tap[b * stride]].
template <class D, typename T = hn::TFromD<D>>
HWY_INLINE hn::Vec<D> LoadTaps(D d, const T* from, const int64_t* tap, int64_t stride) {
  if constexpr (hn::MaxLanes(D()) * sizeof(T) == 16) {
    return hn::LoadU(d, from + *tap);
  } else {
    const hn::Half<D> half;
    constexpr int64_t kBlocks = hn::MaxLanes(D()) * sizeof(T) / 16;
    return hn::Combine(d, LoadTaps(half, from, tap + kBlocks / 2 * stride, stride),
                       LoadTaps(half, from, tap, stride));
  }
}

// to[p * width + c] = from[tap[c] + p] for one vector of taps and p < 16 / sizeof(T).
template <class D, typename T = hn::TFromD<D>>
HWY_INLINE void TransposeTaps(D d, const T* from, const int64_t* tap, T* to,
                              int64_t width) {
  if constexpr (sizeof(T) == 4) {
    const auto r0 = LoadTaps(d, from, tap, 4), r1 = LoadTaps(d, from, tap + 1, 4);
    const auto r2 = LoadTaps(d, from, tap + 2, 4), r3 = LoadTaps(d, from, tap + 3, 4);
    const auto a = hn::InterleaveLower(d, r0, r2), b = hn::InterleaveLower(d, r1, r3);
    const auto e = hn::InterleaveUpper(d, r0, r2), f = hn::InterleaveUpper(d, r1, r3);
    hn::StoreU(hn::InterleaveLower(d, a, b), d, to);
    hn::StoreU(hn::InterleaveUpper(d, a, b), d, to + width);
    hn::StoreU(hn::InterleaveLower(d, e, f), d, to + 2 * width);
    hn::StoreU(hn::InterleaveUpper(d, e, f), d, to + 3 * width);
  } else {
    const auto r0 = LoadTaps(d, from, tap, 2), r1 = LoadTaps(d, from, tap + 1, 2);
    hn::StoreU(hn::InterleaveLower(d, r0, r1), d, to);
    hn::StoreU(hn::InterleaveUpper(d, r0, r1), d, to + width);
  }
}
#endif

// to[p * width + c] = element (first + c, pixel p of panel `panel`), for c < width.
// Taps beyond the last one give values that mean nothing.
template <typename T>
void PackTaps(const ConvPlan& plan, const T* image, int64_t first, int64_t panel,
              int64_t width, T* HWY_RESTRICT to) {
  for (int64_t r = plan.first[panel]; r < plan.first[panel + 1]; ++r) {
    const ConvPlan::Run run = plan.runs[r];
    const T* from = image + run.offset;
    T* out = to + run.column * width;
    for (int64_t c = 0; c < width; c += kLanes<T>) {
      const int64_t* tap = plan.tap.data() + first + c;
      int64_t i = 0;
#if HWY_TARGET != HWY_SCALAR
      constexpr int64_t kStep = 16 / sizeof(T);
      if (plan.step == 1 && run.length >= kStep) {
        for (; i + kStep <= run.length; i += kStep) {
          TransposeTaps(TileTag<T>(), from + i, tap, out + i * width + c, width);
        }
        if (i < run.length) {  // again the last pixels, some for the second time
          i = run.length - kStep;
          TransposeTaps(TileTag<T>(), from + i, tap, out + i * width + c, width);
          i = run.length;
        }
      }
#endif
      for (; i < run.length; ++i) {
        const T* x = from + i * plan.step;
        T* row = out + i * width + c;
        for (int64_t j = 0; j < kLanes<T>; ++j) row[j] = x[tap[j]];
      }
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace plait::cpu::kernel
HWY_AFTER_NAMESPACE();

#endif  // PLAIT_CPU_CONV_PACK_H_
