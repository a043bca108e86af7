// Reads tiles of blocked images into Winograd's values, for the Highway target at hand.
//
// Included once for each target, after hwy/foreach_target.h.

#if defined(PLAIT_CPU_WINOGRAD_GATHER_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PLAIT_CPU_WINOGRAD_GATHER_H_
#undef PLAIT_CPU_WINOGRAD_GATHER_H_
#else
#define PLAIT_CPU_WINOGRAD_GATHER_H_
#endif

#include <algorithm>
#include <cstdint>

#include "cpu/gemm_tile.h"
#include "cpu/winograd_plan.h"
#include "cpu/winograd_transform.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace plait::cpu::kernel {
namespace HWY_NAMESPACE {
namespace winograd {

// 36 matrices of vectors, one for each point. An odd number of vectors lies between
// two: a tile's 36 values would share lines of the caches otherwise.
struct Values {
  static int64_t Stride(int64_t vecs) { return (vecs | 1) * kBlock; }
  static int64_t Size(int64_t vecs) { return kPoints * Stride(vecs); }
  float* data;
  int64_t stride;
};

// The values of `n` tiles from the number `first` on of one block of channels: those of
// a point side by side at `to`, the points' `stride` apart.
HWY_NOINLINE inline void GatherData(const WinogradPass& p, const float* x,
                                    int64_t blocks, int64_t block, int64_t first,
                                    int64_t n, float* to, int64_t stride) {
  const int64_t row = p.in_w * kBlock;
  WinogradTile tile(p, first);
  for (int64_t i = 0; i < n; ++i, tile.Next(p), to += kBlock) {
    const float* plane = x + (tile.n * blocks + block) * p.in_h * row;
    const int64_t top = tile.y * kOut - p.pad_h, left = tile.x * kOut - p.pad_w;
    Pixels pixels;
    const float* from = plane + top * row + left * kBlock;
    for (int64_t k = 0; k < kIn; ++k) {
      pixels.row[k] = top + k >= 0 && top + k < p.in_h ? from + k * row : nullptr;
    }
    pixels.first = static_cast<int>(std::max<int64_t>(0, -left));
    pixels.last = static_cast<int>(std::min<int64_t>(kIn, p.in_w - left));
    if (top >= 0 && left >= 0 && top + kIn <= p.in_h && left + kIn <= p.in_w) {
      DataTile<true>(pixels, to, stride);
    } else {
      DataTile<false>(pixels, to, stride);
    }
  }
}

// The same of dy. Writes the sums of dy's channels to `sums`.
HWY_NOINLINE inline void GatherGradient(const WinogradPass& p, const float* dy,
                                        int64_t blocks, int64_t block, int64_t first,
                                        int64_t n, float* to, int64_t stride,
                                        float* sums) {
  const Tag d;
  const int64_t row = p.out_w * kBlock;
  V sum = hn::Zero(d);
  WinogradTile tile(p, first);
  for (int64_t i = 0; i < n; ++i, tile.Next(p), to += kBlock) {
    const float* from = dy +
                        ((tile.n * blocks + block) * p.out_h + tile.y * kOut) * row +
                        tile.x * kOut * kBlock;
    const int64_t h = p.out_h - tile.y * kOut, w = p.out_w - tile.x * kOut;
    sum = hn::Add(sum, GradientTile(from, row, h, w, to, stride));
  }
  hn::StoreU(sum, d, sums);
}

}  // namespace winograd
}  // namespace HWY_NAMESPACE
}  // namespace plait::cpu::kernel
HWY_AFTER_NAMESPACE();

#endif  // PLAIT_CPU_WINOGRAD_GATHER_H_
