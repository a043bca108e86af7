// Sizes and places of Winograd's passes: images, tiles, and the transformed filters.

#ifndef PLAIT_CPU_WINOGRAD_PLAN_H_
#define PLAIT_CPU_WINOGRAD_PLAN_H_

#include <algorithm>
#include <cstdint>

#include "cpu/conv.h"
#include "cpu/winograd.h"

namespace plait::cpu {

// The arguments of a pass; x and y are dy and dx where it is a gradient. F: what is
// computed in; S: of images and filters.
template <typename F, typename S>
struct WinogradCall {
  const ConvProblem& problem;
  ConvPass kind;
  ImageLayout layout;  // of x, sum and y
  const S *x, *weight;
  const F *u, *bias;
  const S* sum;
  bool relu;
  S* y;
};
template <typename F, typename S>
struct WinogradWeightCall {
  const ConvProblem& problem;
  ImageLayout layout;
  const S *x, *dy;
  S *dweight, *dbias;
};

// One pass from images of `in` channels to images of `out` channels by tiles of 4 x 4
// pixels. The gradient of the data is a convolution of dy, padded by what is left.
struct WinogradPass {
  WinogradPass(const ConvProblem& p, ConvPass pass) : batch(p.batch) {
    const bool forward = pass != ConvPass::kBackwardData;
    in = forward ? p.in_channels : p.out_channels;
    out = forward ? p.out_channels : p.in_channels;
    in_h = forward ? p.in[1] : p.Out(1);
    in_w = forward ? p.in[2] : p.Out(2);
    out_h = forward ? p.Out(1) : p.in[1];
    out_w = forward ? p.Out(2) : p.in[2];
    pad_h = forward ? p.pad_low[1] : 2 - p.pad_low[1];
    pad_w = forward ? p.pad_low[2] : 2 - p.pad_low[2];
    tiles_h = (out_h + 3) / 4;
    tiles_w = (out_w + 3) / 4;
  }
  int64_t Tiles() const { return batch * tiles_h * tiles_w; }

  int64_t batch, in, out;
  int64_t in_h, in_w, out_h, out_w, pad_h, pad_w, tiles_h, tiles_w;
};

// A tile by its number: tiles go along the rows, then down, then through the batch.
struct WinogradTile {
  WinogradTile(const WinogradPass& p, int64_t i)
      : n(i / (p.tiles_h * p.tiles_w)),
        y(i / p.tiles_w % p.tiles_h),
        x(i % p.tiles_w) {}
  void Next(const WinogradPass& p) {
    if (++x < p.tiles_w) return;
    x = 0;
    if (++y < p.tiles_h) return;
    y = 0;
    ++n;
  }
  int64_t n, y, x;
};

// The transformed filters: panels of two blocks of `out` (the last one may have one
// block); a panel has 36 matrices (in, width of the panel). Between matrices lies one
// more block, so that the matrices do not begin on the same lines of the caches.
struct WinogradFilterPlan {
  WinogradFilterPlan(int64_t block, int64_t in_channels, int64_t out_channels)
      : b(block),
        in_blocks((in_channels + b - 1) / b),
        out_blocks((out_channels + b - 1) / b),
        panels((out_blocks + 1) / 2) {}
  int64_t Vecs(int64_t panel) const {
    return std::min<int64_t>(2, out_blocks - 2 * panel);
  }
  int64_t MatrixStride(int64_t panel) const {
    return in_blocks * b * Vecs(panel) * b + b;
  }
  int64_t PanelOffset(int64_t panel) const {
    return 36 * panel * (in_blocks * b * 2 * b + b);
  }
  int64_t Size() const {
    return PanelOffset(panels - 1) + 36 * MatrixStride(panels - 1);
  }
  int64_t b, in_blocks, out_blocks, panels;
};

}  // namespace plait::cpu

#endif  // PLAIT_CPU_WINOGRAD_PLAN_H_
