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

// The values of the tiles of one panel of rows and one block of channels:
// (point, panel, block, tile of the panel). Tiles of the panels begin at `first`.
HWY_NOINLINE inline void GatherPanel(const WinogradPass& p, const float* x,
                                     int64_t blocks, int64_t block,
                                     const RowPanels& rows, int64_t panel,
                                     int64_t first, const Values& values) {
  const int64_t row = p.in_w * kBlock, n = rows.Rows(panel);
  float* to = values.data + (rows.First(panel) * blocks + block * n) * kBlock;
  WinogradTile tile(p, first + rows.First(panel));
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
      DataTile<true>(pixels, to, values.stride);
    } else {
      DataTile<false>(pixels, to, values.stride);
    }
  }
}

}  // namespace winograd
}  // namespace HWY_NAMESPACE
}  // namespace plait::cpu::kernel
HWY_AFTER_NAMESPACE();

#endif  // PLAIT_CPU_WINOGRAD_GATHER_H_
