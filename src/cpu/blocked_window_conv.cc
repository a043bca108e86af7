// Windows of any size on blocked arrays, or on plain images of few channels: strips of
// rows, copied with their padding, by pairs of blocks of channels.

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "base/parallel.h"
#include "base/small_vector.h"
#include "cpu/blocked.h"
#include "cpu/blocked_direct.h"
#include "cpu/scratch.h"
#include "cpu/strips.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/blocked_window_conv.cc"
#include "cpu/simd/targets.h"
#include "hwy/foreach_target.h"
//
#include "cpu/blocked_finish.h"
#include "hwy/highway.h"

#ifndef PLAIT_CPU_BLOCKED_WINDOW_CONV_PLAN
#define PLAIT_CPU_BLOCKED_WINDOW_CONV_PLAN
namespace plait::cpu {
namespace {

constexpr int kImage = 4;  // floats of a pixel of a copied image

// How a problem is cut. In a copy of rows the columns that a stride passes over stand
// apart (`phases` runs of `run` pixels), so that neighbours in y are neighbours there.
struct WindowPlan {
  WindowPlan(const ConvProblem& p, bool plain_x)
      : problem(p), block(FloatLanes()), image(plain_x) {
    pixel = image ? kImage : block;
    channels = image ? p.in_channels : block;
    in_blocks = image ? 1 : (p.in_channels + block - 1) / block;
    out_blocks = (p.out_channels + block - 1) / block;
    taps = p.KernelSize();
    high = p.Out(1);
    wide = p.Out(2);
    phases = p.stride[2];
    run = (p.in[2] + p.pad_low[2] + p.pad_high[2] + phases - 1) / phases;
    pitch = phases * run * pixel;
    filter = taps * channels * 2 * block;
    // A strip stays in half of a second-level cache of 512 KB.
    constexpr int64_t kStrip = 1 << 16;
    const int64_t fit = kStrip / (in_blocks * pitch) - Reach();
    rows = std::clamp<int64_t>(fit / p.stride[1] + 1, 1, high);
    // And the filters of a chunk in half of a first-level cache.
    constexpr int64_t kFilters = 6 << 10;
    chunk = std::clamp<int64_t>(kFilters / filter, 1, in_blocks);
  }
  // Rows of x under a row of y.
  int64_t Reach() const { return problem.dilation[1] * (problem.kernel[1] - 1) + 1; }
  int64_t RowsUnder(int64_t n) const { return (n - 1) * problem.stride[1] + Reach(); }
  int64_t pairs() const { return (out_blocks + 1) / 2; }

  const ConvProblem& problem;
  int64_t block;
  bool image;
  int64_t pixel, channels;  // floats of a pixel of x, and those that count
  int64_t in_blocks, out_blocks, taps, high, wide, phases, run, pitch;
  int64_t filter;  // floats of a pair's filters, for a block of x
  int64_t rows, chunk;
};

}  // namespace
}  // namespace plait::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace plait::cpu::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
constexpr int kBlock = HWY_LANES(float);
using D = hn::CappedTag<float, kBlock>;
using V = hn::Vec<D>;
constexpr int kMost = HWY_LANES(float) >= 16 ? 14 : 6;  // pixels of a tile

struct WindowTile {
  const float* x;
  int64_t x_row;    // floats from a row of y to the next, in x
  int64_t x_block;  // and from a block to the next
  int64_t blocks;
  const int64_t* offsets;  // of the taps
  int64_t taps, channels;
  const float* w;
  const float* next;  // filters that are used later, of which to ask for
  int64_t ahead;      // so many lines beside each tap
  float* y;
  int64_t y_row, y_block;
  const float* start;  // what sums begin with, laid out as y, or null: zeros
  bool last;
  bool two;  // blocks of y; else the second one is not there
  const ConvFinish* finish;
  int64_t channel, all_channels;
};

// kRows x kColumns pixels of y, kPixel floats of x each.
template <int kRows, int kColumns, int kPixel>
HWY_NOINLINE void Tile(const WindowTile& t) {
  const D d;
  constexpr int kAll = kRows * kColumns;
  V acc[kAll][2];
#pragma GCC unroll 14
  for (int i = 0; i < kAll; ++i) {
    const int64_t at = i / kColumns * t.y_row + i % kColumns * kBlock;
    const bool none = t.start == nullptr;
    acc[i][0] = none ? hn::Zero(d) : hn::LoadU(d, t.start + at);
    acc[i][1] = none || !t.two ? hn::Zero(d) : hn::LoadU(d, t.start + t.y_block + at);
  }
  const float* HWY_RESTRICT w = t.w;
  const float* next = t.next;
  const int64_t row = kRows > 1 ? t.x_row : 0, channels = t.channels;
  for (int64_t b = 0; b < t.blocks; ++b) {
    for (int64_t tap = 0; tap < t.taps; ++tap) {
      const float* HWY_RESTRICT x = t.x + b * t.x_block + t.offsets[tap];
      for (int64_t i = 0; i < t.ahead; ++i, next += 16) __builtin_prefetch(next, 0, 2);
      for (int64_t c = 0; c < channels; ++c, w += 2 * kBlock, ++x) {
        const V v0 = hn::LoadU(d, w), v1 = hn::LoadU(d, w + kBlock);
#pragma GCC unroll 14
        for (int i = 0; i < kAll; ++i) {
          const V value = hn::Set(d, x[i / kColumns * row + i % kColumns * kPixel]);
          acc[i][0] = hn::MulAdd(value, v0, acc[i][0]);
          acc[i][1] = hn::MulAdd(value, v1, acc[i][1]);
        }
      }
    }
  }
#pragma GCC unroll 2
  for (int j = 0; j < 2; ++j) {
    if (j == 1 && !t.two) break;
    float* y = t.y + j * t.y_block;
    const Finish<D> finish(*t.finish, t.channel + j * kBlock, t.all_channels);
    const float* other =
        t.finish->other == nullptr ? nullptr : t.finish->other + j * t.y_block;
#pragma GCC unroll 14
    for (int i = 0; i < kAll; ++i) {
      const int64_t at = i / kColumns * t.y_row + i % kColumns * kBlock;
      hn::StoreU(t.last ? finish(acc[i][j], other, at) : acc[i][j], d, y + at);
    }
  }
}

using TileFn = void (*)(const WindowTile&);
template <int kRows, int kPixel>
TileFn FindTile(int64_t columns) {
  static constexpr auto kTable = []<size_t... I>(std::index_sequence<I...>) {
    return std::array<TileFn, sizeof...(I)>{Tile<kRows, I + 1, kPixel>...};
  }
  (std::make_index_sequence<kMost / kRows>());
  return kTable[columns - 1];
}

// A row of an image's channels side by side, kImage floats a pixel.
void Interleave(const float* x, int64_t plane, int64_t channels, int64_t n, float* to) {
  const D d;
  const auto from = [&](int64_t c) { return x + std::min(c, channels - 1) * plane; };
  const auto vector = [&](int64_t c, int64_t i) HWY_ATTR {
    return c < channels ? hn::LoadU(d, from(c) + i) : hn::Zero(d);
  };
  int64_t i = 0;
  for (; i + kBlock <= n; i += kBlock)
    hn::StoreInterleaved4(vector(0, i), vector(1, i), vector(2, i), vector(3, i), d,
                          to + i * kImage);
  for (; i < n; ++i)
    for (int64_t c = 0; c < kImage; ++c)
      to[i * kImage + c] = c < channels ? from(c)[i] : 0;
}

// A row of x with its padding, cut into phases.
template <int kPixel>
HWY_INLINE void SplitRow(const WindowPlan& p, const float* HWY_RESTRICT from,
                         float* HWY_RESTRICT to) {
  using Pixel = hn::CappedTag<float, kPixel>;
  const Pixel d;
  const int64_t width = p.problem.in[2], left = p.problem.pad_low[2], step = p.phases;
  for (int64_t phase = 0; phase < step; ++phase, to += p.run * kPixel) {
    // Pixels [begin, end) of this phase lie inside.
    const int64_t begin =
        std::clamp<int64_t>((left - phase + step - 1) / step, 0, p.run);
    const int64_t end =
        std::clamp<int64_t>((width + left - phase + step - 1) / step, begin, p.run);
    std::fill_n(to, begin * kPixel, 0.0f);
    std::fill_n(to + end * kPixel, (p.run - end) * kPixel, 0.0f);
    const float* x = from + (begin * step + phase - left) * kPixel;
    for (int64_t i = begin; i < end; ++i, x += step * kPixel) {
      for (int j = 0; j < kPixel; j += static_cast<int>(hn::MaxLanes(d)))
        hn::StoreU(hn::LoadU(d, x + j), d, to + i * kPixel + j);
    }
  }
}

// Rows [first, first + n) of a block (or the image) with their padding; rows outside
// are zeros.
void CopyRows(const WindowPlan& p, const float* x, int64_t first, int64_t n,
              float* line, float* to) {
  const ConvProblem& q = p.problem;
  for (int64_t r = first; r < first + n; ++r, to += p.pitch) {
    if (r < 0 || r >= q.in[1]) {
      std::fill_n(to, p.pitch, 0.0f);
    } else if (p.image) {
      Interleave(x + r * q.in[2], q.in[1] * q.in[2], q.in_channels, q.in[2], line);
      SplitRow<kImage>(p, line, to);
    } else {
      SplitRow<kBlock>(p, x + r * q.in[2] * kBlock, to);
    }
  }
}

// The tiles of `rows` rows of y, whose sums begin with `start` or with zeros.
void Tiles(const WindowPlan& p, int64_t rows, const float* x, const float* start,
           float* y, WindowTile t, const ConvFinish& finish, int64_t lines) {
  const int64_t most_rows = !p.image && p.wide <= kMost / 2 ? 2 : 1;
  const int64_t most = kMost / most_rows, across = (p.wide + most - 1) / most;
  const int64_t tiles = (rows + most_rows - 1) / most_rows * across;
  constexpr int64_t kFewTiles = 16;  // as in blocked_pixel_conv.cc
  t.ahead = t.next == t.w || tiles > kFewTiles ? 0 : (lines + tiles - 1) / tiles;
  ConvFinish own = finish;
  t.finish = &own;
  for (int64_t r = 0; r < rows; r += most_rows) {
    const bool two = most_rows == 2 && r + 1 < rows;
    for (int64_t i = 0; i < across; ++i) {
      const int64_t a = p.wide * i / across, n = p.wide * (i + 1) / across - a;
      t.x = x + r * t.x_row + a * p.pixel;
      t.y = y + r * t.y_row + a * kBlock;
      t.start = start == nullptr ? nullptr : start + (t.y - y);
      if (finish.other != nullptr) own.other = finish.other + (t.y - y);
      (p.image ? FindTile<1, kImage>(n)
       : two   ? FindTile<2, kBlock>(n)
               : FindTile<1, kBlock>(n))(t);
      t.next += t.ahead * t.taps * t.blocks * 16;
    }
  }
}

// Rows [begin, end) of y of one image, pairs of blocks [first, last).
void Strip(const WindowPlan& p, int64_t n, int64_t begin, int64_t end, int64_t first,
           int64_t last, const float* x, const float* w, const ConvFinish& finish,
           float* y) {
  const ConvProblem& q = p.problem;
  const int64_t under = p.RowsUnder(end - begin), x_block = under * p.pitch;
  const Scratch copied(Scratch::Bytes<float>(p.in_blocks * x_block));
  const Scratch line(Scratch::Bytes<float>(p.image ? q.in[2] * kImage : 0));
  const int64_t top = begin * q.stride[1] - q.pad_low[1];
  for (int64_t b = 0; b < p.in_blocks; ++b) {
    const float* from = p.image ? x + n * q.in_channels * q.InSize()
                                : x + (n * p.in_blocks + b) * q.InSize() * kBlock;
    CopyRows(p, from, top, under, line.As<float>(), copied.As<float>() + b * x_block);
  }
  SmallVector<int64_t, 128> offsets;
  for (int64_t kh = 0; kh < q.kernel[1]; ++kh) {
    for (int64_t kw = 0; kw < q.kernel[2]; ++kw) {
      const int64_t column = kw * q.dilation[2];
      offsets.push_back(kh * q.dilation[1] * p.pitch +
                        (column % p.phases * p.run + column / p.phases) * p.pixel);
    }
  }
  WindowTile t = {};
  t.x_row = q.stride[1] * p.pitch;
  t.x_block = x_block;
  t.offsets = &offsets[0];
  t.taps = p.taps;
  t.channels = p.channels;
  t.y_row = p.wide * kBlock;
  t.y_block = q.OutSize() * kBlock;
  t.all_channels = q.out_channels;
  const int64_t lines = (p.channels * 2 * kBlock + 15) / 16;
  for (int64_t pair = first; pair < last; ++pair) {
    t.channel = 2 * pair * kBlock;
    t.two = 2 * pair + 1 < p.out_blocks;
    const int64_t at = (n * p.out_blocks + 2 * pair) * t.y_block + begin * t.y_row;
    // Sums of several chunks begin with `other`, as it may be where they are kept
    // meanwhile.
    const float* other = finish.other == nullptr ? nullptr : finish.other + at;
    const bool several = p.in_blocks > p.chunk;
    ConvFinish own = finish;
    own.other = several ? nullptr : other;
    for (int64_t b = 0; b < p.in_blocks; b += p.chunk) {
      t.blocks = std::min(p.chunk, p.in_blocks - b);
      t.w = w + (pair * p.in_blocks + b) * p.filter;
      const bool end_of_all = pair + 1 == last && b + t.blocks == p.in_blocks;
      t.next = end_of_all ? t.w : t.w + t.blocks * p.filter;
      t.last = b + t.blocks == p.in_blocks;
      const float* start = b > 0 ? y + at : several ? other : nullptr;
      Tiles(p, end - begin, copied.As<float>() + b * x_block, start, y + at, t, own,
            lines);
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
}  // namespace

bool HasWindowConv(const ConvProblem& p, ConvPass pass, bool plain_x) {
  return p.rank == 2 && p.groups == 1 && p.Work() > 0 && pass == ConvPass::kForward &&
         (!plain_x || p.in_channels <= kImage);
}

int64_t WindowFilterSize(const ConvProblem& p, bool plain_x) {
  const WindowPlan plan(p, plain_x);
  return plan.pairs() * plan.in_blocks * plan.filter;
}

void PackWindowFilters(const ConvProblem& p, bool plain_x, const float* weight,
                       float* packed) {
  const WindowPlan plan(p, plain_x);
  const int64_t block = plan.block, in = p.in_channels;
  const int64_t panel = plan.in_blocks * plan.filter;
  ParallelFor(plan.pairs(), std::max<int64_t>(1, (1 << 13) / panel),
              [&](int64_t first, int64_t last) {
                float* to = packed + first * panel;
                for (int64_t i = first * plan.in_blocks; i < last * plan.in_blocks;
                     ++i) {
                  const int64_t o = i / plan.in_blocks * 2 * block;
                  const int64_t from = i % plan.in_blocks * block;
                  for (int64_t tap = 0; tap < plan.taps; ++tap) {
                    for (int64_t c = from; c < from + plan.channels; ++c) {
                      for (int64_t k = o; k < o + 2 * block; ++k, ++to)
                        *to = c < in && k < p.out_channels
                                  ? weight[(k * in + c) * plan.taps + tap]
                                  : 0;
                    }
                  }
                }
              });
}

void WindowConv(const ConvProblem& p, bool plain_x, const float* x, const float* packed,
                const ConvFinish& finish, float* y) {
  const WindowPlan plan(p, plain_x);
  const auto strip = HWY_DYNAMIC_DISPATCH(Strip);
  EachStrip(p.batch, plan.high, plan.rows, plan.pairs(), p.Work(),
            [&](int64_t n, int64_t first, int64_t last, int64_t first_pair,
                int64_t last_pair) {
              strip(plan, n, first, last, first_pair, last_pair, x, packed, finish, y);
            });
}

}  // namespace plait::cpu
#endif  // HWY_ONCE
