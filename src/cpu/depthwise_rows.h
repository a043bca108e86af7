// Rows of depthwise windows that lie inside a padded copy, for the Highway target at
// hand.
//
// Included once for each target, after hwy/foreach_target.h.

#if defined(PLAIT_CPU_DEPTHWISE_ROWS_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PLAIT_CPU_DEPTHWISE_ROWS_H_
#undef PLAIT_CPU_DEPTHWISE_ROWS_H_
#else
#define PLAIT_CPU_DEPTHWISE_ROWS_H_
#endif

#include <array>
#include <utility>

#include "cpu/blocked_finish.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace plait::cpu::HWY_NAMESPACE::depthwise {

namespace hn = hwy::HWY_NAMESPACE;
constexpr int kBlock = HWY_LANES(float);
using D = hn::CappedTag<float, kBlock>;
using V = hn::Vec<D>;
// Sums at once: they wait for each other where they are few, and are spilled where they
// are more than registers.
constexpr int kMostPixels = 8;

// Rows of windows of one block of channels, one after the other in y.
struct RowsArgs {
  const float* x;  // padded: the first pixel under the first window
  int64_t x_row;   // floats from one row of x to the next
  const float* w;
  int64_t kernel_h, kernel_w, stride_h, stride_w;
  float* y;
  int64_t rows, width;  // of y
};

// 3 x 3 windows (kThree), whose filters stay in registers, or any other ones. kStride:
// 0 for what the arguments say. Rows are cut into groups of kPixels, the last two of
// which may overlap.
template <int kPixels, bool kThree, int kStride>
HWY_NOINLINE void Rows(const RowsArgs& args, const Finish<D>& end) {
  const D d;
  // Stores might otherwise change them, for all that the compiler knows.
  const RowsArgs t = args;
  const Finish<D> finish = end;
  const int64_t step = (kStride > 0 ? kStride : t.stride_w) * kBlock;
  V three[9];
  if constexpr (kThree) {
#pragma GCC unroll 9
    for (int i = 0; i < 9; ++i) three[i] = hn::LoadU(d, t.w + i * kBlock);
  }
  float* y = t.y;
  for (int64_t row = 0; row < t.rows; ++row, y += t.width * kBlock) {
    const float* from = t.x + row * t.stride_h * t.x_row;
    for (int64_t done = 0; done < t.width; done += kPixels) {
      const int64_t first = done + kPixels <= t.width ? done : t.width - kPixels;
      const float* HWY_RESTRICT x = from + first * step;
      V acc[kPixels];
#pragma GCC unroll 8
      for (int i = 0; i < kPixels; ++i) acc[i] = hn::Zero(d);
      if constexpr (kThree) {
        // A vector of x serves all windows that it lies in.
        constexpr int kColumns = (kPixels - 1) * kStride + 3;
#pragma GCC unroll 3
        for (int a = 0; a < 3; ++a, x += t.x_row) {
#pragma GCC unroll 32
          for (int c = 0; c < kColumns; ++c) {
            const V v = hn::LoadU(d, x + c * kBlock);
#pragma GCC unroll 3
            for (int b = 0; b < 3; ++b) {
              if ((c - b) % kStride == 0 && c >= b && (c - b) / kStride < kPixels)
                acc[(c - b) / kStride] =
                    hn::MulAdd(v, three[a * 3 + b], acc[(c - b) / kStride]);
            }
          }
        }
      } else {
        const float* HWY_RESTRICT w = t.w;
        for (int64_t a = 0; a < t.kernel_h; ++a, x += t.x_row) {
          for (int64_t b = 0; b < t.kernel_w; ++b, w += kBlock) {
            const V v = hn::LoadU(d, w);
#pragma GCC unroll 8
            for (int i = 0; i < kPixels; ++i)
              acc[i] = hn::MulAdd(hn::LoadU(d, x + b * kBlock + i * step), v, acc[i]);
          }
        }
      }
      float* to = y + first * kBlock;
#pragma GCC unroll 8
      for (int i = 0; i < kPixels; ++i)
        hn::StoreU(finish(acc[i], nullptr, 0), d, to + i * kBlock);
    }
  }
}

using RowsFn = void (*)(const RowsArgs&, const Finish<D>&);
template <bool kThree, int kStride>
RowsFn FindRows(int64_t width) {
  static constexpr auto kTable = []<size_t... I>(std::index_sequence<I...>) {
    return std::array<RowsFn, sizeof...(I)>{Rows<I + 1, kThree, kStride>...};
  }
  (std::make_index_sequence<kMostPixels>());
  const int64_t groups = (width + kMostPixels - 1) / kMostPixels;
  return kTable[(width + groups - 1) / groups - 1];
}

HWY_INLINE void RunRows(const RowsArgs& t, const Finish<D>& finish) {
  const bool three = t.kernel_h == 3 && t.kernel_w == 3;
  const RowsFn rows = three && t.stride_w == 1   ? FindRows<true, 1>(t.width)
                      : three && t.stride_w == 2 ? FindRows<true, 2>(t.width)
                                                 : FindRows<false, 0>(t.width);
  rows(t, finish);
}

}  // namespace plait::cpu::HWY_NAMESPACE::depthwise
HWY_AFTER_NAMESPACE();

#endif  // PLAIT_CPU_DEPTHWISE_ROWS_H_
