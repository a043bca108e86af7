// Depthwise convolutions between single pixels, strip by strip of rows.

#include "cpu/blocked_bottleneck.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "base/parallel.h"
#include "cpu/blocked.h"
#include "cpu/scratch.h"
#include "cpu/strips.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/blocked_bottleneck.cc"
#include "cpu/simd/targets.h"
#include "hwy/foreach_target.h"
//
#include "cpu/depthwise_rows.h"
#include "cpu/pixel_tile.h"

#ifndef PLAIT_CPU_BLOCKED_BOTTLENECK_PLAN
#define PLAIT_CPU_BLOCKED_BOTTLENECK_PLAN
namespace plait::cpu {
namespace {

// Of what lies between, in floats: a pair of blocks of the wide array for the rows of a
// strip, and what the windows make of all of its blocks.
constexpr int64_t kPairSize = 24 << 10, kMiddleSize = 96 << 10;

// x (in, height, width) -> wide (channels, height, width) -> middle (channels, high,
// width of y) -> y.
struct BottleneckPlan {
  explicit BottleneckPlan(const Bottleneck& b) : block(FloatLanes()) {
    const ConvProblem& d = b.depthwise.conv;
    batch = d.batch;
    height = d.in[1];
    width = d.in[2];
    channels = d.in_channels;
    blocks = Blocks(channels);
    in = b.expands ? b.expand.conv.in_channels : channels;
    out = b.project.conv.out_channels;
    high = d.Out(1);
    out_width = d.Out(2);
    kernel_h = d.kernel[1];
    kernel_w = d.kernel[2];
    stride_h = d.stride[1];
    stride_w = d.stride[2];
    pad_top = d.pad_low[1];
    pad_left = d.pad_low[2];
    padded = width + d.pad_low[2] + d.pad_high[2];
    strip = high;
    while (strip > 1 &&
           (PairSize(strip) > kPairSize || MiddleSize(strip) > kMiddleSize))
      strip = (strip + 1) / 2;
    middle_block = strip * out_width * block;
  }
  int64_t Blocks(int64_t of) const { return (of + block - 1) / block; }
  int64_t pairs() const { return (blocks + 1) / 2; }
  // Rows of the wide array, with their padding, for so many rows of y.
  int64_t RowsOf(int64_t rows) const {
    return rows == 0 ? 0 : (rows - 1) * stride_h + kernel_h;
  }
  int64_t PairSize(int64_t rows) const { return RowsOf(rows) * padded * 2 * block; }
  int64_t MiddleSize(int64_t rows) const { return rows * out_width * blocks * block; }
  // Rows that a strip and the next one both need.
  int64_t shared() const { return std::max<int64_t>(0, kernel_h - stride_h); }

  int64_t block, batch, in, channels, blocks, out;
  int64_t height, width, padded, high, out_width;
  int64_t kernel_h, kernel_w, stride_h, stride_w, pad_top, pad_left;
  int64_t strip;         // rows of y
  int64_t middle_block;  // floats from one block of the middle array to the next
};

// A thread's own: the padded rows of a pair of blocks, what they share with the next
// strip for each pair, and where pixels have their place in padded rows.
struct BottleneckScratch {
  BottleneckScratch(const BottleneckPlan& p, int64_t rows, bool strips)
      : rows_(p.RowsOf(rows)),
        pair_(Scratch::Bytes<float>(p.PairSize(rows))),
        shared_(Scratch::Bytes<float>(
            strips ? p.pairs() * 2 * p.shared() * p.padded * p.block : 0)),
        places_(Scratch::Bytes<int>(rows_ * p.width)) {
    std::fill_n(pair(), p.PairSize(rows), 0.0f);
    int* to = places();
    for (int64_t r = 0; r < rows_; ++r)
      for (int64_t i = 0; i < p.width; ++i, ++to)
        *to = static_cast<int>(r * p.padded + i);
  }
  float* pair() const { return pair_.As<float>(); }
  float* shared() const { return shared_.As<float>(); }
  int* places() const { return places_.As<int>(); }
  int64_t rows() const { return rows_; }

 private:
  const int64_t rows_;
  const Scratch pair_, shared_, places_;
};

}  // namespace
}  // namespace plait::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace plait::cpu::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using pixel::kBlock;

// Rows of the wide array, `there` of which lie in the scratch already, for rows
// [begin, end) of y.
void Widen(const BottleneckPlan& p, const Bottleneck& b, int64_t n, int64_t pair,
           int64_t begin, int64_t end, int64_t there, const float* x,
           const BottleneckScratch& scratch) {
  const int64_t row = p.padded * kBlock, block = scratch.rows() * row;
  const int64_t top = begin * p.stride_h - p.pad_top;
  const int64_t bottom = top + p.RowsOf(end - begin);
  const int64_t blocks = std::min<int64_t>(2, p.blocks - 2 * pair);
  // Rows [first, last) are of the image.
  const int64_t first = std::clamp<int64_t>(top + there, 0, p.height);
  const int64_t last = std::clamp<int64_t>(bottom, first, p.height);
  for (int64_t j = 0; j < blocks; ++j) {
    float* to = scratch.pair() + j * block;
    for (int64_t r = top + there; r < bottom; ++r)
      if (r < 0 || r >= p.height) std::fill_n(to + (r - top) * row, row, 0.0f);
  }
  if (first == last) return;
  float* to = scratch.pair() + (first - top) * row + p.pad_left * kBlock;
  if (!b.expands) {
    for (int64_t j = 0; j < blocks; ++j) {
      const float* from =
          x + ((n * p.blocks + 2 * pair + j) * p.height + first) * p.width * kBlock;
      for (int64_t r = first; r < last; ++r, from += p.width * kBlock)
        std::copy_n(from, p.width * kBlock, to + j * block + (r - first) * row);
    }
    return;
  }
  const pixel::PixelStrip s = {
      .pixels = (last - first) * p.width,
      .in = p.in,
      .out = p.channels,
      .w = b.expand.packed,
      .first = pair,
      .last = pair + 1,
      .finish = &b.expand.finish,
      .y = to,
      .y_block = block,
      .other = nullptr,
      .places = scratch.places(),
      .after = pair + 1 < p.pairs()
                   ? b.expand.packed + (pair + 1) * p.Blocks(p.in) * 2 * kBlock * kBlock
                   : b.project.packed};
  const int64_t x_block = p.height * p.width * kBlock;
  for (int64_t chunk = 0; chunk < p.Blocks(p.in); chunk += pixel::kChunk)
    pixel::AddChunk<true>(
        s, chunk, x + (n * p.Blocks(p.in) + chunk) * x_block + first * p.width * kBlock,
        x_block);
}

// The windows of `rows` rows of y on a pair of blocks in the scratch.
void Windows(const BottleneckPlan& p, const Bottleneck& b, int64_t pair, int64_t rows,
             const BottleneckScratch& scratch, float* middle, int64_t middle_block) {
  for (int64_t k = 2 * pair; k < std::min(2 * pair + 2, p.blocks); ++k) {
    const depthwise::RowsArgs t = {
        .x = scratch.pair() + (k - 2 * pair) * scratch.rows() * p.padded * kBlock,
        .x_row = p.padded * kBlock,
        .w = b.depthwise.packed + k * p.kernel_h * p.kernel_w * kBlock,
        .kernel_h = p.kernel_h,
        .kernel_w = p.kernel_w,
        .stride_h = p.stride_h,
        .stride_w = p.stride_w,
        .y = middle + k * middle_block,
        .rows = rows,
        .width = p.out_width};
    depthwise::RunRows(
        t, Finish<depthwise::D>(b.depthwise.finish, k * kBlock, p.channels));
  }
}

// Pixels [first, last) of an image of y; middle has them from its start on.
void Project(const BottleneckPlan& p, const Bottleneck& b, int64_t n, int64_t first,
             int64_t last, int64_t first_pair, int64_t last_pair, const float* middle,
             int64_t middle_block, float* y) {
  const int64_t y_block = p.high * p.out_width * kBlock;
  const int64_t at = n * p.Blocks(p.out) * y_block + first * kBlock;
  const ConvFinish& finish = b.project.finish;
  const pixel::PixelStrip s = {
      .pixels = last - first,
      .in = p.channels,
      .out = p.out,
      .w = b.project.packed,
      .first = first_pair,
      .last = last_pair,
      .finish = &finish,
      .y = y + at,
      .y_block = y_block,
      .other = finish.other == nullptr ? nullptr : finish.other + at,
      .places = nullptr,
      .after = nullptr};
  for (int64_t chunk = 0; chunk < p.blocks; chunk += pixel::kChunk)
    pixel::AddChunk(s, chunk, middle + chunk * middle_block, middle_block);
}

// Rows [begin, end) of an image of y.
void BottleneckRows(const BottleneckPlan& p, const Bottleneck& b, int64_t n,
                    int64_t begin, int64_t end, const BottleneckScratch& scratch,
                    float* middle, const float* x, float* y) {
  const int64_t row = p.padded * kBlock, block = scratch.rows() * row;
  const int64_t share = p.shared() * row;
  for (int64_t r = begin; r < end; r += p.strip) {
    const int64_t rows = std::min(p.strip, end - r), there = r > begin ? p.shared() : 0;
    for (int64_t pair = 0; pair < p.pairs(); ++pair) {
      float* shared = scratch.shared() + pair * 2 * share;
      for (int64_t j = 0; j < 2 && there > 0; ++j)
        std::copy_n(shared + j * share, share, scratch.pair() + j * block);
      Widen(p, b, n, pair, r, r + rows, there, x, scratch);
      Windows(p, b, pair, rows, scratch, middle, p.middle_block);
      for (int64_t j = 0; j < 2 && r + rows < end; ++j)
        std::copy_n(scratch.pair() + j * block + rows * p.stride_h * row, share,
                    shared + j * share);
    }
    Project(p, b, n, r * p.out_width, (r + rows) * p.out_width, 0,
            (p.Blocks(p.out) + 1) / 2, middle, p.middle_block, y);
  }
}

// All rows of a pair of blocks, up to the middle array of an image.
void BottleneckPair(const BottleneckPlan& p, const Bottleneck& b, int64_t n,
                    int64_t pair, const BottleneckScratch& scratch, const float* x,
                    float* middle) {
  Widen(p, b, n, pair, 0, p.high, 0, x, scratch);
  Windows(p, b, pair, p.high, scratch, middle, p.high * p.out_width * kBlock);
}

}  // namespace
}  // namespace plait::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plait::cpu {
namespace {
HWY_EXPORT(BottleneckRows);
HWY_EXPORT(BottleneckPair);
HWY_EXPORT(Project);

double Work(const Bottleneck& b) {
  return (b.expands ? b.expand.conv.Work() : 0) + b.depthwise.conv.Work() +
         b.project.conv.Work();
}

// How much more than its share the busiest of the threads does if images are cut into
// so many parts of rows: where parts meet, both widen the same rows.
double RowsExcess(const BottleneckPlan& p, const Bottleneck& b, int64_t parts) {
  const double wide =
      b.expands ? b.expand.conv.Work() / static_cast<double>(p.height) : 0;
  const double row =
      (b.depthwise.conv.Work() + b.project.conv.Work()) / static_cast<double>(p.high);
  double most = 0;
  for (int64_t i = 0; i < parts; ++i) {
    const int64_t begin = p.high * i / parts, end = p.high * (i + 1) / parts;
    const int64_t top = begin * p.stride_h - p.pad_top;
    const int64_t rows =
        std::min(p.height, top + p.RowsOf(end - begin)) - std::max<int64_t>(0, top);
    most = std::max(most, wide * static_cast<double>(rows) +
                              row * static_cast<double>(end - begin));
  }
  return most * static_cast<double>(parts * p.batch) / Work(b);
}

void ByRows(const BottleneckPlan& p, const Bottleneck& b, int64_t parts, const float* x,
            float* y) {
  const auto run = HWY_DYNAMIC_DISPATCH(BottleneckRows);
  ParallelFor(p.batch * parts, 1, [&](int64_t begin, int64_t end) {
    const BottleneckScratch scratch(p, p.strip, true);
    const Scratch middle(Scratch::Bytes<float>(p.MiddleSize(p.strip)));
    for (int64_t i = begin; i < end; ++i) {
      const int64_t part = i % parts;
      run(p, b, i / parts, p.high * part / parts, p.high * (part + 1) / parts, scratch,
          middle.As<float>(), x, y);
    }
  });
}

// Threads share out blocks of channels, then pixels.
void ByChannels(const BottleneckPlan& p, const Bottleneck& b, const float* x,
                float* y) {
  const int64_t image = p.MiddleSize(p.high), pixels = p.high * p.out_width;
  const Scratch middle(Scratch::Bytes<float>(p.batch * image));
  const auto widen = HWY_DYNAMIC_DISPATCH(BottleneckPair);
  ParallelFor(p.batch * p.pairs(), 1, [&](int64_t begin, int64_t end) {
    const BottleneckScratch scratch(p, p.high, false);
    for (int64_t i = begin; i < end; ++i)
      widen(p, b, i / p.pairs(), i % p.pairs(), scratch, x,
            middle.As<float>() + i / p.pairs() * image);
  });
  const auto project = HWY_DYNAMIC_DISPATCH(Project);
  constexpr int64_t kStrip = 192;
  EachStrip(p.batch, pixels, kStrip, (p.Blocks(p.out) + 1) / 2, b.project.conv.Work(),
            [&](int64_t n, int64_t first, int64_t last, int64_t first_pair,
                int64_t last_pair) {
              project(p, b, n, first, last, first_pair, last_pair,
                      middle.As<float>() + n * image + first * p.block,
                      pixels * p.block, y);
            });
}

}  // namespace

bool HasBottleneck(const Bottleneck& b) {
  const ConvProblem &d = b.depthwise.conv, &last = b.project.conv;
  const auto single = [](const ConvProblem& p) {
    return HasPixelConv(p, ConvPass::kForward) && p.stride[1] == 1 && p.stride[2] == 1;
  };
  if (!HasDepthwiseConv(d, ConvPass::kForward) || !single(last) ||
      last.in_channels != d.in_channels || last.batch != d.batch ||
      last.in[1] != d.Out(1) || last.in[2] != d.Out(2))
    return false;
  if (b.expands) {
    const ConvProblem& first = b.expand.conv;
    if (!single(first) || first.out_channels != d.in_channels ||
        first.batch != d.batch || first.in[1] != d.in[1] || first.in[2] != d.in[2])
      return false;
  }
  const BottleneckPlan p(b);
  return p.PairSize(1) <= 2 * kPairSize && p.MiddleSize(1) <= 2 * kMiddleSize;
}

void BottleneckConv(const Bottleneck& b, const float* x, float* y) {
  const BottleneckPlan p(b);
  const int64_t threads = ComputeThreads();
  constexpr double kLeast = 5e5;  // of multiplications for each thread
  int64_t parts = 1;
  if (threads > 1 && Work(b) > 2 * kLeast && p.batch < 4 * threads) {
    parts = std::min(p.high, threads / std::gcd(p.batch, threads));
    if (RowsExcess(p, b, parts) > 1.2 && p.PairSize(p.high) <= 2 * kPairSize &&
        p.batch * p.MiddleSize(p.high) <= 16 * kMiddleSize)
      return ByChannels(p, b, x, y);
  }
  ByRows(p, b, parts, x, y);
}

}  // namespace plait::cpu
#endif  // HWY_ONCE
