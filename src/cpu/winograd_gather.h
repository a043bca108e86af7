// Reads tiles of images into Winograd's values, for the Highway target at hand.
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
#include <type_traits>

#include "cpu/bfloat16_vectors.h"
#include "cpu/gemm_pack.h"
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
template <typename F>
struct Values {
  static int64_t Stride(int64_t vecs) { return (vecs | 1) * kBlock<F>; }
  static int64_t Size(int64_t vecs) { return kPoints * Stride(vecs); }
  F* data;
  int64_t stride;
};

// Images as a pass reads them: S is F, or a half type where F is float.
template <typename F, typename S>
struct Images {
  const S* data;
  int64_t channels, h, w;
  ImageLayout layout;
  int64_t Blocks() const { return CeilDiv(channels, kBlock<F>); }
  // The block's plane of image n; of plain images that of the block's first channel.
  int64_t Plane(int64_t n, int64_t block) const {
    return layout == ImageLayout::kPlain ? (n * channels + block * kBlock<F>)*h * w
                                         : (n * Blocks() + block) * h * w * kBlock<F>;
  }
};

// Tiles side by side that are worked on at a time, and a buffer for their pixels.
constexpr int64_t kRun = 12;
constexpr int64_t kRunPixels = kIn * (kRun * kOut + kIn - kOut);

// Where the pixels of a run of tiles are, from the first tile's first one on.
template <typename S>
struct RunPixels {
  const S* data;
  int64_t row;
};

// Images that are not blocked become that here, `rows` x `columns` pixels from (top,
// left) on as far as they exist, into `buffer`.
template <typename F, typename S>
inline RunPixels<S> FindRun(const Images<F, S>& x, int64_t n, int64_t block,
                            int64_t top, int64_t left, int64_t rows, int64_t columns,
                            F* buffer) {
  const S* plane = x.data + x.Plane(n, block);
  if constexpr (std::is_same_v<F, S>) {
    if (x.layout == ImageLayout::kPlain) {
      const int64_t c0 = std::max<int64_t>(0, -left),
                    c1 = std::min(columns, x.w - left);
      const int64_t channels = std::min(kBlock<F>, x.channels - block * kBlock<F>);
      const int64_t r1 = std::min(rows, x.h - top);
      for (int64_t r = std::max<int64_t>(0, -top); c0 < c1 && r < r1; ++r) {
        Pack(Operand<F>{plane + (top + r) * x.w + left + c0, x.h * x.w, 1}, channels,
             c1 - c0, kBlock<F>, buffer + (r * columns + c0) * kBlock<F>);
      }
      return {buffer, columns * kBlock<F>};
    }
  }
  return {plane + (top * x.w + left) * kBlock<F>, x.w * kBlock<F>};
}

// to[p * width + i] = from[i * kBlock<F> + p] for i < n and p < k.
template <typename F>
void Transpose(const F* from, int64_t n, int64_t k, int64_t width, F* to) {
  int64_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  i = TransposeRows(Tag<F>(), from, kBlock<F>, n, k, width, to);
#endif
  for (int64_t p = 0; p < k; ++p) {
    for (int64_t r = i; r < n; ++r) to[p * width + r] = from[r * kBlock<F> + p];
  }
}

// Calls f(tile, done, run) for runs of the `n` tiles from the number `first` on.
template <class F>
HWY_INLINE void ForEachRun(const WinogradPass& p, int64_t first, int64_t n, F&& f) {
  for (int64_t done = 0; done < n;) {
    const WinogradTile tile(p, first + done);
    const int64_t run = std::min({n - done, p.tiles_w - tile.x, kRun});
    f(tile, done, run);
    done += run;
  }
}

// The values of `n` tiles from the number `first` on of one block of channels: those of
// a point side by side at `to`, the points' `stride` apart.
template <typename F, typename S>
HWY_NOINLINE void GatherData(const WinogradPass& p, const Images<F, S>& x,
                             int64_t block, int64_t first, int64_t n, F* to,
                             int64_t stride) {
  HWY_ALIGN F buffer[kRunPixels * kBlock<F>];
  ForEachRun(p, first, n, [&](const WinogradTile& tile, int64_t, int64_t run) HWY_ATTR {
    const int64_t top = tile.y * kOut - p.pad_h;
    int64_t left = tile.x * kOut - p.pad_w;
    const RunPixels<S> pixels =
        FindRun(x, tile.n, block, top, left, kIn, run * kOut + kIn - kOut, buffer);
    const S* from = pixels.data;
    for (int64_t t = 0; t < run; ++t) {
      Pixels<S> in;
      for (int64_t k = 0; k < kIn; ++k) {
        in.row[k] = top + k >= 0 && top + k < x.h ? from + k * pixels.row : nullptr;
      }
      in.first = static_cast<int>(std::max<int64_t>(0, -left));
      in.last = static_cast<int>(std::min<int64_t>(kIn, x.w - left));
      if (top >= 0 && left >= 0 && top + kIn <= x.h && left + kIn <= x.w) {
        DataTile<F, S, true>(in, to, stride);
      } else {
        DataTile<F, S, false>(in, to, stride);
      }
      left += kOut;
      from += kOut * kBlock<F>;
      to += kBlock<F>;
    }
  });
}

// The same of dy. Writes the sums of dy's channels to `sums`.
template <typename F, typename S>
HWY_NOINLINE void GatherGradient(const WinogradPass& p, const Images<F, S>& dy,
                                 int64_t block, int64_t first, int64_t n, F* to,
                                 int64_t stride, F* sums) {
  HWY_ALIGN F buffer[kRunPixels * kBlock<F>];
  const Tag<F> d;
  V<F> sum = hn::Zero(d);
  ForEachRun(p, first, n, [&](const WinogradTile& tile, int64_t, int64_t run) HWY_ATTR {
    const int64_t top = tile.y * kOut, left = tile.x * kOut;
    const RunPixels<S> pixels =
        FindRun(dy, tile.n, block, top, left, kOut, run * kOut, buffer);
    for (int64_t t = 0; t < run; ++t, to += kBlock<F>) {
      sum =
          hn::Add(sum, GradientTile<F>(pixels.data + t * kOut * kBlock<F>, pixels.row,
                                       dy.h - top, dy.w - left - t * kOut, to, stride));
    }
  });
  hn::StoreU(sum, d, sums);
}

}  // namespace winograd
}  // namespace HWY_NAMESPACE
}  // namespace plait::cpu::kernel
HWY_AFTER_NAMESPACE();

#endif  // PLAIT_CPU_WINOGRAD_GATHER_H_
