// Tiles of products for convolutions by single pixels, for the Highway target at hand:
// a few pixels by one or two blocks of channels.
//
// Included once for each target, after hwy/foreach_target.h.

#if defined(PLAIT_CPU_PIXEL_TILE_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PLAIT_CPU_PIXEL_TILE_H_
#undef PLAIT_CPU_PIXEL_TILE_H_
#else
#define PLAIT_CPU_PIXEL_TILE_H_
#endif

#include <algorithm>
#include <array>
#include <utility>

#include "cpu/blocked_finish.h"
#include "hwy/cache_control.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace plait::cpu::HWY_NAMESPACE::pixel {

namespace hn = hwy::HWY_NAMESPACE;
constexpr int kBlock = HWY_LANES(float);
using D = hn::CappedTag<float, kBlock>;
using V = hn::Vec<D>;
constexpr int kMostRows = HWY_LANES(float) >= 16 ? 12 : 6;

constexpr int kLine = 64 / sizeof(float);

HWY_INLINE void PrefetchToL2(const float* p) {
  __builtin_prefetch(p, 0, 2);
}

HWY_INLINE void PrefetchToWrite(const float* p) {
  __builtin_prefetch(p, 1, 3);
}

// Pixels of a tile: kRows of x, kBlocks blocks of y.
struct TileArgs {
  const float* x;
  int64_t x_block;  // floats from one block of channels to the next
  int64_t blocks;   // of x
  int64_t rest;     // channels in the last of them
  const float* w;   // two vectors a channel of x
  float* y;
  int64_t y_block;
  const int* places;   // of the tile's pixels in y, for kScattered
  const float* next;   // what is multiplied by after w, or w
  int64_t ahead;       // lines of it to ask for beside each block of x
  const float* start;  // what sums begin with, laid out as y, or null: zeros
  bool last;           // chunk of channels
  const ConvFinish* finish;
  int64_t channel, channels;  // of y
};

// kScattered: the pixels of y do not follow each other, and nothing else is added.
template <int kRows, int kBlocks, bool kScattered>
HWY_NOINLINE void Tile(const TileArgs& t) {
  const D d;
  const auto place = [&](int r)
                         HWY_ATTR { return (kScattered ? t.places[r] : r) * kBlock; };
  V acc[kRows][kBlocks];
#pragma GCC unroll 12
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
    for (int j = 0; j < kBlocks; ++j) {
      acc[r][j] = t.start == nullptr ? hn::Zero(d)
                                     : hn::LoadU(d, t.start + j * t.y_block + place(r));
    }
  }
  // The next tile's places in y, and what is added to them.
  if (!kScattered && t.last) {
#pragma GCC unroll 2
    for (int j = 0; j < kBlocks; ++j) {
      const int64_t at = j * t.y_block + kRows * kBlock;
#pragma GCC unroll 12
      for (int r = 0; r < kRows; ++r) PrefetchToWrite(t.y + at + r * kBlock);
      if (t.finish->other == nullptr || t.finish->other == t.y) continue;
#pragma GCC unroll 12
      for (int r = 0; r < kRows; ++r) hwy::Prefetch(t.finish->other + at + r * kBlock);
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
    const int64_t channels = b + 1 == t.blocks ? t.rest : kBlock;
    for (int64_t c = 0; c < channels; ++c, w += 2 * kBlock) {
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
      for (int r = 0; r < kRows; ++r) hn::StoreU(acc[r][j], d, y + place(r));
      continue;
    }
    const Finish<D> finish(*t.finish, t.channel + j * kBlock, t.channels);
    const float* other = kScattered || t.finish->other == nullptr
                             ? nullptr
                             : t.finish->other + j * t.y_block;
#pragma GCC unroll 12
    for (int r = 0; r < kRows; ++r)
      hn::StoreU(finish(acc[r][j], other, r * kBlock), d, y + place(r));
  }
}

using TileFn = void (*)(const TileArgs&);
template <int kBlocks, bool kScattered = false>
TileFn FindTile(int64_t rows) {
  static constexpr auto kTable = []<size_t... I>(std::index_sequence<I...>) {
    return std::array<TileFn, sizeof...(I)>{Tile<I + 1, kBlocks, kScattered>...};
  }
  (std::make_index_sequence<kMostRows>());
  return kTable[rows - 1];
}

// Strips of so few tiles use filters for too short a time to hide their way from
// memory.
constexpr int64_t kFewTiles = 16;
constexpr int64_t kChunk = 16;  // blocks of x at a time: a pair's filters stay in L1

// Some pixels by pairs of blocks of y [first, last).
struct PixelStrip {
  int64_t pixels;
  int64_t in, out;  // channels
  const float* w;   // of all pairs
  int64_t first, last;
  const ConvFinish* finish;
  // Where the first pixel has its block 0, or, scattered, where `places` count from.
  float* y;
  int64_t y_block;
  const float* other;  // beside y, or null; may be y
  const int* places;
  const float* after;  // filters that are used next, or null
};

// Adds the products of a chunk of blocks from number `chunk` on, which lie in x. Sums
// of several chunks begin with `other`, as it may be where they are kept meanwhile.
template <bool kScattered = false>
HWY_INLINE void AddChunk(const PixelStrip& s, int64_t chunk, const float* x,
                         int64_t x_block) {
  const int64_t in_blocks = (s.in + kBlock - 1) / kBlock,
                out_blocks = (s.out + kBlock - 1) / kBlock;
  const int64_t blocks = std::min(kChunk, in_blocks - chunk);
  const int64_t tiles = (s.pixels + kMostRows - 1) / kMostRows;
  constexpr int64_t kFilters = 2 * kBlock * kBlock;  // of a block of x
  constexpr int64_t kLines = kFilters / kLine;
  const bool several = in_blocks > kChunk;
  ConvFinish own = *s.finish;
  own.other = nullptr;
  TileArgs t;
  t.x_block = x_block;
  t.blocks = blocks;
  t.rest = std::min(kBlock * blocks, s.in - chunk * kBlock) - kBlock * (blocks - 1);
  t.y_block = s.y_block;
  t.last = chunk + blocks == in_blocks;
  t.finish = &own;
  t.channels = s.out;
  for (int64_t pair = s.first; pair < s.last; ++pair) {
    t.w = s.w + (pair * in_blocks + chunk) * kFilters;
    t.next = pair + 1 < s.last ? t.w + in_blocks * kFilters
             : chunk + kChunk < in_blocks
                 ? s.w + (s.first * in_blocks + chunk + kChunk) * kFilters
             : s.after != nullptr ? s.after
                                  : t.w;
    t.ahead = t.next == t.w || tiles > kFewTiles ? 0 : (kLines + tiles - 1) / tiles;
    t.channel = 2 * pair * kBlock;
    const bool two = 2 * pair + 1 < out_blocks;
    float* y = s.y + 2 * (pair - (kScattered ? s.first : 0)) * s.y_block;
    for (int64_t i = 0; i < tiles; ++i) {
      const int64_t a = s.pixels * i / tiles, z = s.pixels * (i + 1) / tiles;
      t.x = x + a * kBlock;
      t.next += i == 0 ? 0 : blocks * t.ahead * kLine;
      t.places = kScattered ? s.places + a : nullptr;
      t.y = kScattered ? y : y + a * kBlock;
      const float* other = s.other == nullptr ? nullptr : s.other + (t.y - s.y);
      t.start = chunk > 0 ? t.y : several ? other : nullptr;
      if (!several) own.other = other;
      (two ? FindTile<2, kScattered>(z - a) : FindTile<1, kScattered>(z - a))(t);
    }
  }
}

}  // namespace plait::cpu::HWY_NAMESPACE::pixel
HWY_AFTER_NAMESPACE();

#endif  // PLAIT_CPU_PIXEL_TILE_H_
