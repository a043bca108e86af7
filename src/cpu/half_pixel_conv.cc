// Windows of 1 x 1 on blocks of bfloat16: strips of pixels by pairs of blocks.

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "base/parallel.h"
#include "cpu/blocked.h"
#include "cpu/half_conv.h"
#include "cpu/half_target.h"
#include "cpu/pixel_plan.h"
#include "cpu/scratch.h"

#if defined(__x86_64__)
namespace plait::cpu {
namespace {

using half::kBlock;
using half::Widen;

constexpr int kMostRows = 12;

// The pixels of a strip: those of x fill up to a quarter of a second-level cache.
int64_t StripOf(const PixelPlan& plan) {
  return kMostRows *
         std::clamp<int64_t>((1 << 17) / (plan.in_blocks * kBlock) / kMostRows, 2, 16);
}

struct TileArgs {
  const Bfloat16* x;
  int64_t x_block, blocks;  // elements from a block of x to the next; how many
  const Bfloat16* w;
  Bfloat16* y;
  int64_t y_block;
  const float* bias;      // of both blocks
  const Bfloat16* other;  // as y, or null
  bool bounded;
  float low, high;
};

// NaN stays NaN: the second operand of min and max is what an unordered pair gives.
PLAIT_BF16_TARGET inline void FinishPixel(const TileArgs& t, __m512 sum, int64_t at,
                                          __m512 bias) {
  __m512 v = _mm512_add_ps(sum, bias);
  if (t.other != nullptr) v = _mm512_add_ps(v, Widen(t.other + at));
  if (t.bounded) {
    v = _mm512_max_ps(_mm512_set1_ps(t.low), v);
    v = _mm512_min_ps(_mm512_set1_ps(t.high), v);
  }
  const __m256bh rounded = _mm512_cvtneps_pbh(v);
  std::memcpy(static_cast<void*>(t.y + at), &rounded, sizeof(rounded));
}

// kRows pixels of x, kBlocks blocks of y.
template <int kRows, int kBlocks>
PLAIT_BF16_TARGET void Tile(const TileArgs& t) {
  __m512 acc[kRows][kBlocks];
#pragma GCC unroll 12
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 2
    for (int j = 0; j < kBlocks; ++j) acc[r][j] = _mm512_setzero_ps();
  const Bfloat16* w = t.w;
  for (int64_t b = 0; b < t.blocks; ++b) {
    const Bfloat16* x = t.x + b * t.x_block;
    // The next tile's pixels, many of which come from memory.
#pragma GCC unroll 12
    for (int r = 0; r < kRows; r += 2)
      _mm_prefetch(reinterpret_cast<const char*>(x + (kRows + r) * kBlock),
                   _MM_HINT_T0);
    for (int c = 0; c < kBlock; c += 2, w += 4 * kBlock) {
      __m512bh v[kBlocks];
#pragma GCC unroll 2
      for (int j = 0; j < kBlocks; ++j)
        v[j] = reinterpret_cast<__m512bh>(_mm512_loadu_si512(w + 2 * j * kBlock));
#pragma GCC unroll 12
      for (int r = 0; r < kRows; ++r) {
        int32_t pair;
        std::memcpy(&pair, x + r * kBlock + c, sizeof(pair));
        const __m512bh value = reinterpret_cast<__m512bh>(_mm512_set1_epi32(pair));
#pragma GCC unroll 2
        for (int j = 0; j < kBlocks; ++j)
          acc[r][j] = _mm512_dpbf16_ps(acc[r][j], v[j], value);
      }
    }
  }
#pragma GCC unroll 2
  for (int j = 0; j < kBlocks; ++j) {
    const __m512 bias = _mm512_loadu_ps(t.bias + j * kBlock);
#pragma GCC unroll 12
    for (int r = 0; r < kRows; ++r)
      FinishPixel(t, acc[r][j], j * t.y_block + r * kBlock, bias);
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

// The pixels of a strip that a stride leaves, side by side.
void Gather(const PixelPlan& p, const Bfloat16* image, int64_t begin, int64_t end,
            Bfloat16* to) {
  for (int64_t b = 0; b < p.in_blocks; ++b) {
    const Bfloat16* plane = image + b * p.in_pixels * kBlock;
    for (int64_t i = begin; i < end; ++i, to += kBlock) {
      const int64_t at =
          i / p.width * p.stride_h * p.in_width + i % p.width * p.stride_w;
      std::memcpy(static_cast<void*>(to), plane + at * kBlock,
                  kBlock * sizeof(Bfloat16));
    }
  }
}

struct StripArgs {
  const Bfloat16 *x, *w;
  const HalfFinish<Bfloat16>& finish;
  const float* bias;  // filled up to pairs of blocks
  Bfloat16* y;
};

// Pixels [begin, end) of image n with pairs of blocks [first, last) of y.
void Strip(const PixelPlan& p, const StripArgs& a, int64_t n, int64_t begin,
           int64_t end, int64_t first, int64_t last) {
  const int64_t pixels = end - begin;
  const int64_t tiles = (pixels + kMostRows - 1) / kMostRows;
  const Bfloat16* from = a.x + n * p.in_blocks * p.in_pixels * kBlock;
  const Scratch gathered(
      p.strided() ? Scratch::Bytes<Bfloat16>(p.in_blocks * pixels * kBlock) : 0);
  TileArgs t;
  t.x_block = p.in_pixels * kBlock;
  if (p.strided()) {
    Gather(p, from, begin, end, gathered.As<Bfloat16>());
    from = gathered.As<Bfloat16>();
    t.x_block = pixels * kBlock;
  } else {
    from += begin * kBlock;
  }
  t.blocks = p.in_blocks;
  t.y_block = p.pixels * kBlock;
  t.bounded = a.finish.bounded;
  t.low = a.finish.low;
  t.high = a.finish.high;
  for (int64_t pair = first; pair < last; ++pair) {
    const int64_t at = ((n * p.out_blocks + 2 * pair) * p.pixels + begin) * kBlock;
    t.w = a.w + pair * p.in_blocks * 2 * kBlock * kBlock;
    t.bias = a.bias + 2 * pair * kBlock;
    const bool two = 2 * pair + 1 < p.out_blocks;
    for (int64_t i = 0; i < tiles; ++i) {
      const int64_t row = pixels * i / tiles, z = pixels * (i + 1) / tiles;
      t.x = from + row * kBlock;
      t.y = a.y + at + row * kBlock;
      t.other =
          a.finish.other == nullptr ? nullptr : a.finish.other + at + row * kBlock;
      (two ? FindTile<2>(z - row) : FindTile<1>(z - row))(t);
    }
  }
}

}  // namespace

bool HasHalfPixelConv(const ConvProblem& p, ConvPass pass) {
  return half::HasProducts() && HasPixelConv(p, pass);
}

int64_t HalfPixelFilterSize(const ConvProblem& p, ConvPass pass) {
  const PixelPlan plan(p, pass, kBlock);
  return plan.pairs() * plan.in_blocks * kBlock * 2 * kBlock;
}

namespace {

// A row of packed filters: two vectors of pairs of channels.
constexpr int64_t kPackedRow = 4 * kBlock;

// 16 filters of 32 channels, of rows `in` apart, to 16 packed rows.
PLAIT_BF16_TARGET void PackTransposed(const Bfloat16* from, int64_t in, Bfloat16* to) {
  __m512i a[kBlock];
#pragma GCC unroll 16
  for (int i = 0; i < kBlock; ++i) a[i] = _mm512_loadu_si512(from + i * in);
  half::Transpose(a);
#pragma GCC unroll 16
  for (int i = 0; i < kBlock; ++i) _mm512_storeu_si512(to + i * kPackedRow, a[i]);
}

// Two channels, `out` apart, of 16 filters that lie side by side.
PLAIT_BF16_TARGET void PackPair(const Bfloat16* from, int64_t out, Bfloat16* to) {
  const __m256i* const low_bits = reinterpret_cast<const __m256i*>(from);
  const __m256i* const high_bits = reinterpret_cast<const __m256i*>(from + out);
  const __m512i low = _mm512_cvtepu16_epi32(_mm256_loadu_si256(low_bits)),
                high = _mm512_cvtepu16_epi32(_mm256_loadu_si256(high_bits));
  _mm512_storeu_si512(to, _mm512_or_si512(low, _mm512_slli_epi32(high, 16)));
}

// The filters [o, o + 16) of a pair of blocks, whose packed rows begin at `to`.
void PackBlock(const PixelPlan& plan, bool transposed, const Bfloat16* weight,
               int64_t o, Bfloat16* to) {
  const bool whole = o + kBlock <= plan.out;
  for (int64_t c = 0, count; c < plan.in_blocks * kBlock; c += count) {
    Bfloat16* const at = to + c / 2 * kPackedRow;
    count = 2;
    if (whole && !transposed && c + 2 * kBlock <= plan.in) {
      count = 2 * kBlock;
      PackTransposed(weight + o * plan.in + c, plan.in, at);
    } else if (whole && transposed && c + 2 <= plan.in) {
      PackPair(weight + c * plan.out + o, plan.out, at);
    } else {
      for (int64_t k = 0; k < 2 * kBlock; ++k) {
        const int64_t y = o + k / 2, x = c + k % 2;
        at[k] = x >= plan.in || y >= plan.out ? Bfloat16(0.0f)
                : transposed                  ? weight[x * plan.out + y]
                                              : weight[y * plan.in + x];
      }
    }
  }
}

}  // namespace

// From (out, in) or, by data, (in, out): for each pair of blocks of y and each pair of
// channels of x, two vectors of pairs.
void PackHalfPixelFilters(const ConvProblem& p, ConvPass pass, const Bfloat16* weight,
                          Bfloat16* packed) {
  const PixelPlan plan(p, pass, kBlock);
  const bool transposed = pass == ConvPass::kBackwardData;
  const int64_t size = plan.in_blocks * kBlock * 2 * kBlock;
  ParallelFor(plan.pairs(), std::max<int64_t>(1, (1 << 16) / size),
              [&](int64_t first, int64_t last) {
                for (int64_t pair = first; pair < last; ++pair) {
                  for (int64_t h = 0; h < 2; ++h)
                    PackBlock(plan, transposed, weight, (2 * pair + h) * kBlock,
                              packed + pair * size + 2 * h * kBlock);
                }
              });
}

void HalfPixelConv(const ConvProblem& p, ConvPass pass, const Bfloat16* x,
                   const Bfloat16* packed, const HalfFinish<Bfloat16>& finish,
                   const float* bias, Bfloat16* y) {
  const PixelPlan plan(p, pass, kBlock);
  const int64_t width = plan.pairs() * 2 * kBlock;
  const Scratch biases(Scratch::Bytes<float>(width));
  std::fill_n(biases.As<float>(), width, 0.0f);
  if (bias != nullptr) std::copy_n(bias, plan.out, biases.As<float>());
  const StripArgs args{x, packed, finish, biases.As<float>(), y};
  const int64_t strip = StripOf(plan);
  const int64_t strips = (plan.pixels + strip - 1) / strip;
  const int64_t items = plan.batch * strips;
  const int64_t threads = ComputeThreads();
  // Few strips: their pairs of blocks are shared out, too. It changes no sum.
  const int64_t parts =
      items >= 4 * threads ? 1 : std::min(plan.pairs(), (4 * threads) / items);
  // A thread must have some microseconds of work.
  const double least = 1e6 * static_cast<double>(items * parts) / p.Work();
  ParallelFor(items * parts, std::max<int64_t>(1, static_cast<int64_t>(least)),
              [&](int64_t begin, int64_t end) {
                for (int64_t i = begin; i < end; ++i) {
                  const int64_t part = i / items, item = i % items;
                  const int64_t n = item / strips, s = item % strips;
                  Strip(plan, args, n, plan.pixels * s / strips,
                        plan.pixels * (s + 1) / strips, plan.pairs() * part / parts,
                        plan.pairs() * (part + 1) / parts);
                }
              });
}

}  // namespace plait::cpu
#endif
