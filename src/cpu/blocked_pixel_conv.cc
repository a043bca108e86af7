// Windows of 1 x 1 on blocked arrays: strips of pixels by pairs of blocks of channels.

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

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
#include "cpu/blocked_finish.h"
#include "hwy/cache_control.h"
#include "hwy/highway.h"

#ifndef PLAIT_CPU_BLOCKED_PIXEL_CONV_PLAN
#define PLAIT_CPU_BLOCKED_PIXEL_CONV_PLAN
namespace plait::cpu {
namespace {

constexpr int64_t kStrip =
    192;  // pixels; with a chunk of channels they fill half of L2
// Strips of so few tiles use filters for too short a time to hide their way from
// memory.
constexpr int64_t kFewTiles = 16;
constexpr int64_t kChunk = 16;  // blocks of x at a time: a pair's filters stay in L1

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
constexpr int kMostRows = HWY_LANES(float) >= 16 ? 12 : 6;

constexpr int kLine = 64 / sizeof(float);

HWY_INLINE void PrefetchToL2(const float* p) {
  __builtin_prefetch(p, 0, 2);
}

// Pixels of a tile: kRows of x, kBlocks blocks of y.
struct TileArgs {
  const float* x;
  int64_t x_block;  // floats from one block of channels to the next
  int64_t blocks;   // of x
  const float* w;
  float* y;
  int64_t y_block;
  const float* next;  // what is multiplied by after w, or w
  int64_t ahead;      // lines of it to ask for beside each block of x
  bool first, last;   // chunk of channels
  const ConvFinish* finish;
  int64_t channel, channels;  // of y
};

template <int kRows, int kBlocks>
HWY_NOINLINE void Tile(const TileArgs& t) {
  const D d;
  V acc[kRows][kBlocks];
#pragma GCC unroll 12
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
    for (int j = 0; j < kBlocks; ++j) {
      acc[r][j] =
          t.first ? hn::Zero(d) : hn::LoadU(d, t.y + j * t.y_block + r * kBlock);
    }
  }
  const float* HWY_RESTRICT w = t.w;
  const float* next = t.next;
  for (int64_t b = 0; b < t.blocks; ++b) {
    const float* HWY_RESTRICT x = t.x + b * t.x_block;
    // The next tile's pixels, many of which come from memory.
#pragma GCC unroll 12
    for (int r = 0; r < kRows; ++r) hwy::Prefetch(x + (kRows + r) * kBlock);
    for (int64_t i = 0; i < t.ahead; ++i, next += kLine) PrefetchToL2(next);
    for (int c = 0; c < kBlock; ++c, w += 2 * kBlock) {
      V v[kBlocks];
#pragma GCC unroll 2
      for (int j = 0; j < kBlocks; ++j) v[j] = hn::LoadU(d, w + j * kBlock);
#pragma GCC unroll 12
      for (int r = 0; r < kRows; ++r) {
        const V value = hn::Set(d, x[r * kBlock + c]);
#pragma GCC unroll 2
        for (int j = 0; j < kBlocks; ++j)
          acc[r][j] = hn::MulAdd(value, v[j], acc[r][j]);
      }
    }
  }
#pragma GCC unroll 2
  for (int j = 0; j < kBlocks; ++j) {
    float* y = t.y + j * t.y_block;
    if (!t.last) {
#pragma GCC unroll 12
      for (int r = 0; r < kRows; ++r) hn::StoreU(acc[r][j], d, y + r * kBlock);
      continue;
    }
    const Finish<D> finish(*t.finish, t.channel + j * kBlock, t.channels);
    const float* other =
        t.finish->other == nullptr ? nullptr : t.finish->other + j * t.y_block;
#pragma GCC unroll 12
    for (int r = 0; r < kRows; ++r)
      hn::StoreU(finish(acc[r][j], other, r * kBlock), d, y + r * kBlock);
  }
}

using TileFn = void (*)(const TileArgs&);
template <int kBlocks>
TileFn FindTile(int64_t rows) {
  static constexpr auto kTable = []<size_t... I>(std::index_sequence<I...>) {
    return std::array<TileFn, sizeof...(I)>{Tile<I + 1, kBlocks>...};
  }
  (std::make_index_sequence<kMostRows>());
  return kTable[rows - 1];
}

// The pixels of one strip of an image with pairs of blocks [first, last) of y.
void Strip(const PixelPlan& p, int64_t n, int64_t begin, int64_t end, int64_t first,
           int64_t last, const float* x, const float* w, const ConvFinish& finish,
           float* y) {
  const int64_t pixels = end - begin;
  const int64_t tiles = (pixels + kMostRows - 1) / kMostRows;
  constexpr int64_t lines = 2 * kBlock * kBlock / kLine;  // of filters, a block of x
  const float* image = x + n * p.in_blocks * p.in_pixels * kBlock;
  const Scratch gathered(
      p.strided()
          ? Scratch::Bytes<float>(std::min(kChunk, p.in_blocks) * pixels * kBlock)
          : 0);
  for (int64_t chunk = 0; chunk < p.in_blocks; chunk += kChunk) {
    const int64_t blocks = std::min(kChunk, p.in_blocks - chunk);
    const float* from = image + (chunk * p.in_pixels + begin) * kBlock;
    int64_t x_block = p.in_pixels * kBlock;
    if (p.strided()) {
      float* to = gathered.As<float>();
      for (int64_t b = 0; b < blocks; ++b) {
        const float* plane = image + (chunk + b) * p.in_pixels * kBlock;
        for (int64_t i = begin; i < end; ++i, to += kBlock) {
          const int64_t at =
              i / p.width * p.stride_h * p.in_width + i % p.width * p.stride_w;
          hn::StoreU(hn::LoadU(D(), plane + at * kBlock), D(), to);
        }
      }
      from = gathered.As<float>();
      x_block = pixels * kBlock;
    }
    for (int64_t pair = first; pair < last; ++pair) {
      const int64_t at = (n * p.out_blocks + 2 * pair) * p.pixels + begin;
      ConvFinish own = finish;
      TileArgs t;
      t.x_block = x_block;
      t.blocks = blocks;
      t.w = w + (pair * p.in_blocks + chunk) * 2 * kBlock * kBlock;
      t.next = pair + 1 < last ? t.w + p.in_blocks * 2 * kBlock * kBlock
               : chunk + kChunk < p.in_blocks
                   ? w + (first * p.in_blocks + chunk + kChunk) * 2 * kBlock * kBlock
                   : t.w;
      t.ahead = t.next == t.w || tiles > kFewTiles ? 0 : (lines + tiles - 1) / tiles;
      t.y_block = p.pixels * kBlock;
      t.first = chunk == 0;
      t.last = chunk + blocks == p.in_blocks;
      t.finish = &own;
      t.channel = 2 * pair * kBlock;
      t.channels = p.out;
      const bool two = 2 * pair + 1 < p.out_blocks;
      for (int64_t i = 0; i < tiles; ++i) {
        const int64_t a = pixels * i / tiles, z = pixels * (i + 1) / tiles;
        t.x = from + a * kBlock;
        t.next += i == 0 ? 0 : blocks * t.ahead * kLine;
        t.y = y + (at + a) * kBlock;
        if (finish.other != nullptr) own.other = finish.other + (at + a) * kBlock;
        (two ? FindTile<2>(z - a) : FindTile<1>(z - a))(t);
      }
    }
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
