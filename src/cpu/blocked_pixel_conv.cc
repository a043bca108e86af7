// Windows of 1 x 1 on blocked arrays: strips of pixels by pairs of blocks of channels.

#include <algorithm>
#include <cstring>

#include "base/parallel.h"
#include "cpu/blocked.h"
#include "cpu/blocked_direct.h"
#include "cpu/pixel_plan.h"
#include "cpu/scratch.h"
#include "cpu/strips.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/blocked_pixel_conv.cc"
#include "cpu/simd/targets.h"
#include "hwy/foreach_target.h"
//
#include "cpu/pixel_tile.h"

#ifndef PLAIT_CPU_BLOCKED_PIXEL_CONV_PLAN
#define PLAIT_CPU_BLOCKED_PIXEL_CONV_PLAN
namespace plait::cpu {
namespace {

// Pixels; with a chunk of channels they fill half of L2.
constexpr int64_t kStrip = 192;

}  // namespace
}  // namespace plait::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace plait::cpu::HWY_NAMESPACE {
namespace {

using namespace pixel;  // NOLINT: its vectors and tiles

// The pixels of one strip of an image with pairs of blocks [first, last) of y.
void Strip(const PixelPlan& p, int64_t n, int64_t begin, int64_t end, int64_t first,
           int64_t last, const float* x, const float* w, const ConvFinish& finish,
           float* y) {
  const int64_t pixels = end - begin;
  const int64_t at = (n * p.out_blocks * p.pixels + begin) * kBlock;
  const float* image = x + n * p.in_blocks * p.in_pixels * kBlock;
  const PixelStrip s = {.pixels = pixels,
                        .in = p.in,
                        .out = p.out,
                        .w = w,
                        .first = first,
                        .last = last,
                        .finish = &finish,
                        .y = y + at,
                        .y_block = p.pixels * kBlock,
                        .other = finish.other == nullptr ? nullptr : finish.other + at,
                        .places = nullptr,
                        .after = nullptr};
  const Scratch gathered(
      p.strided()
          ? Scratch::Bytes<float>(std::min(kChunk, p.in_blocks) * pixels * kBlock)
          : 0);
  for (int64_t chunk = 0; chunk < p.in_blocks; chunk += kChunk) {
    if (!p.strided()) {
      const int64_t x_block = p.in_pixels * kBlock;
      AddChunk(s, chunk, image + chunk * x_block + begin * kBlock, x_block);
      continue;
    }
    float* to = gathered.As<float>();
    const int64_t blocks = std::min(kChunk, p.in_blocks - chunk);
    for (int64_t b = 0; b < blocks; ++b) {
      const float* plane = image + (chunk + b) * p.in_pixels * kBlock;
      for (int64_t i = begin; i < end; ++i, to += kBlock) {
        const int64_t from =
            i / p.width * p.stride_h * p.in_width + i % p.width * p.stride_w;
        hn::StoreU(hn::LoadU(D(), plane + from * kBlock), D(), to);
      }
    }
    AddChunk(s, chunk, gathered.As<float>(), pixels * kBlock);
  }
}

// From (out, in) or, transposed, (in, out): for each pair of blocks of y, the two
// vectors of each channel of x.
void Pack(const PixelPlan& p, bool transposed, int64_t first, int64_t last,
          const float* weight, float* packed) {
  for (int64_t pair = first; pair < last; ++pair) {
    float* to = packed + pair * p.in_blocks * kBlock * 2 * kBlock;
    for (int64_t c = 0; c < p.in_blocks * kBlock; ++c) {
      for (int64_t k = 0; k < 2 * kBlock; ++k, ++to) {
        const int64_t o = pair * 2 * kBlock + k;
        const bool there = c < p.in && o < p.out;
        *to = !there ? 0 : transposed ? weight[c * p.out + o] : weight[o * p.in + c];
      }
    }
  }
}

}  // namespace
}  // namespace plait::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plait::cpu {
namespace {
HWY_EXPORT(Strip);
HWY_EXPORT(Pack);
}  // namespace

bool HasPixelConv(const ConvProblem& p, ConvPass pass) {
  if (p.rank != 2 || p.groups != 1 || p.KernelSize() != 1 || p.Work() == 0 ||
      pass == ConvPass::kBackwardWeight)
    return false;
  for (int i = 1; i < 3; ++i) {
    if (p.pad_low[i] != 0 || p.pad_high[i] != 0) return false;
    if (pass == ConvPass::kBackwardData && p.stride[i] != 1) return false;
  }
  return true;
}

int64_t PixelFilterSize(const ConvProblem& p, ConvPass pass) {
  const PixelPlan plan(p, pass, FloatLanes());
  return plan.pairs() * plan.in_blocks * plan.block * 2 * plan.block;
}

void PackPixelFilters(const ConvProblem& p, ConvPass pass, const float* weight,
                      float* packed) {
  const PixelPlan plan(p, pass, FloatLanes());
  const auto pack = HWY_DYNAMIC_DISPATCH(Pack);
  ParallelFor(plan.pairs(), std::max<int64_t>(1, (1 << 13) / (plan.in_blocks * 512)),
              [&](int64_t first, int64_t last) {
                pack(plan, pass == ConvPass::kBackwardData, first, last, weight,
                     packed);
              });
}

void PixelConv(const ConvProblem& p, ConvPass pass, const float* x, const float* packed,
               const ConvFinish& finish, float* y) {
  const PixelPlan plan(p, pass, FloatLanes());
  const auto strip = HWY_DYNAMIC_DISPATCH(Strip);
  EachStrip(plan.batch, plan.pixels, kStrip, plan.pairs(), p.Work(),
            [&](int64_t n, int64_t first, int64_t last, int64_t first_pair,
                int64_t last_pair) {
              strip(plan, n, first, last, first_pair, last_pair, x, packed, finish, y);
            });
}

}  // namespace plait::cpu
#endif  // HWY_ONCE
