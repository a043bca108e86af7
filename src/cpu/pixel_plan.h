// PixelPlan: a convolution by single pixels as a product of matrices, on blocks of
// channels.

#ifndef PLAIT_CPU_PIXEL_PLAN_H_
#define PLAIT_CPU_PIXEL_PLAN_H_

#include <cstdint>

#include "cpu/conv.h"

namespace plait::cpu {

// The product behind a pass: y (pixels, out) = x (pixels, in) * w (in, out).
struct PixelPlan {
  PixelPlan(const ConvProblem& p, ConvPass pass, int64_t channel_block)
      : block(channel_block) {
    const bool data = pass == ConvPass::kBackwardData;
    in = data ? p.out_channels : p.in_channels;
    out = data ? p.in_channels : p.out_channels;
    in_blocks = (in + block - 1) / block;
    out_blocks = (out + block - 1) / block;
    batch = p.batch;
    width = p.Out(2);
    pixels = p.OutSize();
    in_pixels = p.InSize();
    in_width = p.in[2];
    stride_h = p.stride[1];
    stride_w = p.stride[2];
  }
  bool strided() const { return stride_h != 1 || stride_w != 1; }
  int64_t pairs() const { return (out_blocks + 1) / 2; }
  int64_t block, in, out, in_blocks, out_blocks, batch;
  int64_t pixels, in_pixels, width, in_width, stride_h, stride_w;
};

}  // namespace plait::cpu

#endif  // PLAIT_CPU_PIXEL_PLAN_H_
