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

// Copies the 6 x 6 pixels whose first one is (y, x) of a plane, zeros where none are.
HWY_NOINLINE inline void CopyTile(const float* plane, int64_t h, int64_t w, int64_t y,
                                  int64_t x, float* to) {
  const int64_t x0 = std::max<int64_t>(0, -x), x1 = std::min<int64_t>(kIn, w - x);
  std::fill_n(to, kIn * kIn * kBlock, 0.0f);
  if (x1 <= x0) return;
  for (int64_t i = std::max<int64_t>(0, -y); i < std::min<int64_t>(kIn, h - y); ++i) {
    std::copy_n(plane + ((y + i) * w + x + x0) * kBlock, (x1 - x0) * kBlock,
                to + (i * kIn + x0) * kBlock);
  }
}

// The values of the tiles of one panel of rows and one block of channels:
// (point, panel, block, tile of the panel). Tiles of the panels begin at `first`.
HWY_NOINLINE inline void GatherPanel(const WinogradPass& p, const float* x,
                                     int64_t blocks, int64_t block,
                                     const RowPanels& rows, int64_t panel,
                                     int64_t first, const Values& values) {
  HWY_ALIGN float pixels[kIn * kIn * kBlock];
  const int64_t row = p.in_w * kBlock, n = rows.Rows(panel);
  float* to = values.data + (rows.First(panel) * blocks + block * n) * kBlock;
  WinogradTile tile(p, first + rows.First(panel));
  for (int64_t i = 0; i < n; ++i, tile.Next(p), to += kBlock) {
    const float* plane = x + (tile.n * blocks + block) * p.in_h * row;
    const int64_t top = tile.y * kOut - p.pad_h, left = tile.x * kOut - p.pad_w;
    if (top >= 0 && left >= 0 && top + kIn <= p.in_h && left + kIn <= p.in_w) {
      DataTile(plane + top * row + left * kBlock, row, to, values.stride);
    } else {
      CopyTile(plane, p.in_h, p.in_w, top, left, pixels);
      DataTile(pixels, kIn * kBlock, to, values.stride);
    }
  }
}

}  // namespace winograd
}  // namespace HWY_NAMESPACE
}  // namespace plait::cpu::kernel
HWY_AFTER_NAMESPACE();

#endif  // PLAIT_CPU_WINOGRAD_GATHER_H_
