// The gradient of filters on blocks of bfloat16: sums over pairs of pixels.
//
// Strips of pixels of dy, and of x as each tap of the window sees it, are copied so
// that the two pixels of a pair lie side by side; a sum is then a product of matrices,
// (channels of x) x (pixels) x (channels of dy), with products of bfloat16. Few filters
// are summed up in several shares of the pixels, many are cut into groups; how depends
// on sizes only, and so no bit depends on the number of threads.

#include <algorithm>
#include <cstring>

#include "base/parallel.h"
#include "cpu/half_conv.h"
#include "cpu/half_target.h"
#include "cpu/scratch.h"

#if defined(__x86_64__)

namespace plait::cpu {
namespace {

using half::kBlock;

constexpr int64_t kStrip = 256, kPairs = kStrip / 2;
constexpr int64_t kPairBlock = 2 * kBlock;  // elements of a pair of pixels
constexpr int kRows = 8;                    // of a tile of sums
// Blocks of dy whose strip is to be found in the second-level cache.
constexpr int64_t kGroupBlocks = 32;
// Parts that suffice for the threads, and what shares of the sums may take.
constexpr int64_t kParts = 16, kMostSums = 1 << 22, kLeastPixels = 512;
// Blocks of rows for which a strip of dy is worth copying.
constexpr int64_t kGroupRows = 4;

int64_t CeilDiv(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

// Rows of the sums are channels of x at one tap. Blocked x: a block of channels, tap by
// tap; plain x: channels and taps one after the other, in the order of the filters.
struct Sizes {
  Sizes(const ConvProblem& problem, bool plain)
      : p(problem),
        plain_x(plain),
        taps(plain ? 1 : p.KernelSize()),
        in(plain ? p.in_channels * p.KernelSize() : p.in_channels),
        in_blocks(CeilDiv(in, kBlock)),
        out_blocks(CeilDiv(p.out_channels, kBlock)),
        row_blocks(taps * in_blocks),
        width(out_blocks * kBlock),
        pixels(p.batch * p.OutSize()) {
    out_groups = CeilDiv(out_blocks, kGroupBlocks);
    row_groups = std::clamp<int64_t>(kParts / out_groups, 1,
                                     std::max<int64_t>(1, row_blocks / kGroupRows));
    const int64_t most =
        std::min(pixels / kLeastPixels, kMostSums / (row_blocks * kBlock * width));
    shares = std::clamp<int64_t>(most, 1, CeilDiv(kParts, row_groups * out_groups));
  }
  int64_t SumSize() const { return row_blocks * kBlock * width; }

  const ConvProblem& p;
  const bool plain_x;
  const int64_t taps, in, in_blocks, out_blocks, row_blocks, width, pixels;
  int64_t out_groups, row_groups, shares;
};

// The pixels of a strip: where they are in dy, and of what places of x they are made.
struct StripPixels {
  StripPixels(const Sizes& s, int64_t begin, int64_t end) : count(end - begin) {
    const ConvProblem& p = s.p;
    const int64_t size = p.OutSize(), w = p.Out(2);
    int64_t image = begin / size, y = begin % size / w, x = begin % w;
    for (int64_t i = 0; i < count; ++i) {
      n[i] = image;
      top[i] = y * p.stride[1] - p.pad_low[1];
      left[i] = x * p.stride[2] - p.pad_low[2];
      dy[i] = (image * s.out_blocks * size + y * w + x) * kBlock;
      if (++x < w) continue;
      x = 0;
      if (++y < p.Out(1)) continue;
      y = 0;
      ++image;
    }
  }
  int64_t pairs() const { return (count + 1) / 2; }
  // The pixel of x under a tap, or -1.
  int64_t At(const ConvProblem& p, int64_t i, int64_t tap) const {
    const int64_t y = top[i] + tap / p.kernel[2] * p.dilation[1],
                  x = left[i] + tap % p.kernel[2] * p.dilation[2];
    return y >= 0 && y < p.in[1] && x >= 0 && x < p.in[2] ? y * p.in[2] + x : -1;
  }
  int64_t count;
  int64_t n[kStrip], top[kStrip], left[kStrip], dy[kStrip];
};

alignas(64) const Bfloat16 kZeros[kBlock] = {};

// to[t] = pixels 2t and 2t + 1 of one block; an offset of -1 is a pixel of zeros.
PLAIT_BF16_TARGET void PairUp(const Bfloat16* from, const int64_t* at, int64_t count,
                              Bfloat16* to) {
  for (int64_t i = 0; i < count; i += 2, to += kPairBlock) {
    const bool odd = i + 1 == count;
    const Bfloat16* a = at[i] < 0 ? kZeros : from + at[i];
    const Bfloat16* b = odd || at[i + 1] < 0 ? kZeros : from + at[i + 1];
    const __m512i low =
        _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(a)));
    const __m512i high =
        _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(b)));
    _mm512_storeu_si512(to, _mm512_or_si512(low, _mm512_slli_epi32(high, 16)));
  }
}

// Pairs of 16 rows, kStrip elements apart, side by side.
PLAIT_BF16_TARGET void TransposePairs(const Bfloat16* from, Bfloat16* to) {
  __m512i a[kBlock];
#pragma GCC unroll 16
  for (int i = 0; i < kBlock; ++i) a[i] = _mm512_loadu_si512(from + i * kStrip);
  half::Transpose(a);
#pragma GCC unroll 16
  for (int i = 0; i < kBlock; ++i) _mm512_storeu_si512(to + i * kPairBlock, a[i]);
}

// sums (kRows, kVecs blocks; rows `width` apart) = or += the products of x (pairs,
// kRows of a block) and d (kVecs, pairs, block).
template <int kVecs>
PLAIT_BF16_TARGET void AddProducts(int64_t pairs, const Bfloat16* x, const Bfloat16* d,
                                   bool add, float* sums, int64_t width) {
  __m512 acc[kRows][kVecs];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 2
    for (int j = 0; j < kVecs; ++j)
      acc[r][j] =
          add ? _mm512_loadu_ps(sums + r * width + j * kBlock) : _mm512_setzero_ps();
  const Bfloat16* const second = d + (kVecs - 1) * kPairs * kPairBlock;
  for (int64_t at = 0; at < pairs * kPairBlock; at += kPairBlock) {
    __m512bh v[kVecs];
    v[0] = reinterpret_cast<__m512bh>(_mm512_loadu_si512(d + at));
    if (kVecs == 2)
      v[kVecs - 1] = reinterpret_cast<__m512bh>(_mm512_loadu_si512(second + at));
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      int32_t pair;
      std::memcpy(&pair, x + at + 2 * r, sizeof(pair));
      const __m512bh value = reinterpret_cast<__m512bh>(_mm512_set1_epi32(pair));
#pragma GCC unroll 2
      for (int j = 0; j < kVecs; ++j)
        acc[r][j] = _mm512_dpbf16_ps(acc[r][j], v[j], value);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 2
    for (int j = 0; j < kVecs; ++j)
      _mm512_storeu_ps(sums + r * width + j * kBlock, acc[r][j]);
}

class WeightSums {
 public:
  WeightSums(const Sizes& s, const Bfloat16* x, const Bfloat16* dy, float* sums)
      : s_(s), x_(x), dy_(dy), sums_(sums) {}

  void Run() {
    const int64_t groups = s_.row_groups * s_.out_groups;
    ParallelFor(s_.shares * groups, 1, [&](int64_t first, int64_t last) {
      const Scratch pairs(
          Scratch::Bytes<Bfloat16>((kGroupBlocks + 1) * kPairs * kPairBlock));
      for (int64_t i = first; i < last; ++i)
        Part(i / groups, i % groups / s_.out_groups, i % s_.out_groups,
             pairs.As<Bfloat16>());
    });
  }

  // Adds up the shares and rounds them.
  void Finish(Bfloat16* dweight) const {
    ParallelFor(s_.in_blocks * s_.out_blocks, 4, [&](int64_t first, int64_t last) {
      const Scratch sums(Scratch::Bytes<float>(s_.taps * kBlock * kBlock));
      for (int64_t i = first; i < last; ++i)
        FinishBlock(i / s_.out_blocks, i % s_.out_blocks, sums.As<float>(), dweight);
    });
  }

 private:
  void Part(int64_t share, int64_t rows, int64_t group, Bfloat16* pairs) const {
    const int64_t begin = s_.pixels * share / s_.shares,
                  end = s_.pixels * (share + 1) / s_.shares;
    for (int64_t at = begin; at < end; at += kStrip) {
      const StripPixels strip(s_, at, std::min(at + kStrip, end));
      const int64_t first = s_.out_blocks * group / s_.out_groups,
                    last = s_.out_blocks * (group + 1) / s_.out_groups;
      for (int64_t b = first; b < last; ++b)
        PairUp(dy_ + b * s_.p.OutSize() * kBlock, strip.dy, strip.count,
               pairs + (b - first) * kPairs * kPairBlock);
      Rows(strip, s_.row_blocks * rows / s_.row_groups,
           s_.row_blocks * (rows + 1) / s_.row_groups, first, last, at > begin, pairs,
           sums_ + share * s_.SumSize());
    }
  }
  void Rows(const StripPixels& strip, int64_t row, int64_t row_end, int64_t first,
            int64_t last, bool add, Bfloat16* pairs, float* sums) const {
    Bfloat16* const x = pairs + kGroupBlocks * kPairs * kPairBlock;
    int64_t at[kStrip];
    for (int64_t r = row; r < row_end; ++r) {
      const int64_t tap = r / s_.in_blocks, block = r % s_.in_blocks;
      if (s_.plain_x) {
        PairUpPlain(strip, block, x);
      } else {
        const int64_t size = s_.p.InSize();
        for (int64_t i = 0; (r == row || block == 0) && i < strip.count; ++i) {
          const int64_t place = strip.At(s_.p, i, tap);
          at[i] = place < 0 ? -1 : (strip.n[i] * s_.in_blocks * size + place) * kBlock;
        }
        PairUp(x_ + block * size * kBlock, at, strip.count, x);
      }
      for (int64_t b = first; b < last; b += 2) {
        const Bfloat16* d = pairs + (b - first) * kPairs * kPairBlock;
        for (int64_t i = 0; i < kBlock; i += kRows)
          (b + 1 < last
               ? AddProducts<2>
               : AddProducts<1>)(strip.pairs(), x + 2 * i, d, add,
                                 sums + (r * kBlock + i) * s_.width + b * kBlock,
                                 s_.width);
      }
    }
  }
  // Rows of plain x: a channel and a tap each.
  void PairUpPlain(const StripPixels& strip, int64_t block, Bfloat16* to) const {
    const ConvProblem& p = s_.p;
    const int64_t rows = std::min(kBlock, s_.in - block * kBlock);
    Bfloat16 pixels[kBlock][kStrip];
    for (int64_t r = 0; r < kBlock; ++r) {
      const int64_t channel = (block * kBlock + r) / p.KernelSize(),
                    tap = (block * kBlock + r) % p.KernelSize();
      const int64_t count = r < rows ? strip.count : 0;
      if (r < rows) PlainRow(strip, channel, tap, pixels[r]);
      std::fill(pixels[r] + count, pixels[r] + kStrip, Bfloat16(0.0f));
    }
    for (int64_t t = 0; t < strip.pairs(); t += kBlock)
      TransposePairs(pixels[0] + 2 * t, to + t * kPairBlock);
  }
  // The pixels of a channel that a tap sees, by the rows of y.
  void PlainRow(const StripPixels& strip, int64_t channel, int64_t tap,
                Bfloat16* to) const {
    const ConvProblem& p = s_.p;
    const int64_t down = tap / p.kernel[2] * p.dilation[1],
                  right = tap % p.kernel[2] * p.dilation[2], step = p.stride[2];
    for (int64_t i = 0; i < strip.count;) {
      const int64_t left = strip.left[i] + right, y = strip.top[i] + down;
      const int64_t column = (strip.left[i] + p.pad_low[2]) / step;
      const int64_t run = std::min(strip.count - i, p.Out(2) - column);
      std::fill_n(to + i, run, Bfloat16(0.0f));
      if (y >= 0 && y < p.in[1]) {
        // left + j * step is within [0, width).
        const int64_t first = left < 0 ? CeilDiv(-left, step) : 0;
        const int64_t last = left >= p.in[2] ? 0 : CeilDiv(p.in[2] - left, step);
        const Bfloat16* from =
            x_ + ((strip.n[i] * p.in_channels + channel) * p.in[1] + y) * p.in[2] +
            left;
        for (int64_t j = first; j < std::min(run, last); ++j)
          to[i + j] = from[j * step];
      }
      i += run;
    }
  }
  PLAIT_BF16_TARGET void FinishBlock(int64_t in_block, int64_t out_block, float* sums,
                                     Bfloat16* dweight) const {
    const int64_t rows = std::min(kBlock, s_.in - in_block * kBlock),
                  out = std::min(kBlock, s_.p.out_channels - out_block * kBlock);
    for (int64_t tap = 0; tap < s_.taps; ++tap) {
      for (int64_t i = 0; i < rows; ++i) {
        const float* from = sums_ +
                            ((tap * s_.in_blocks + in_block) * kBlock + i) * s_.width +
                            out_block * kBlock;
        __m512 sum = _mm512_loadu_ps(from);
        for (int64_t share = 1; share < s_.shares; ++share)
          sum = _mm512_add_ps(sum, _mm512_loadu_ps(from + share * s_.SumSize()));
        _mm512_storeu_ps(sums + (i * s_.taps + tap) * kBlock, sum);
      }
    }
    for (int64_t o = 0; o < out; ++o) {
      Bfloat16* to =
          dweight + ((out_block * kBlock + o) * s_.in + in_block * kBlock) * s_.taps;
      for (int64_t i = 0; i < rows * s_.taps; ++i)
        to[i] = Bfloat16(sums[i * kBlock + o]);
    }
  }

  const Sizes& s_;
  const Bfloat16 *const x_, *const dy_;
  float* const sums_;
};

}  // namespace

bool HasHalfWeightConv(const ConvProblem& p) {
  return half::HasProducts() && p.rank == 2 && p.groups == 1 && p.Work() > 0;
}

void HalfWeightConv(const ConvProblem& p, bool plain_x, const Bfloat16* x,
                    const Bfloat16* dy, Bfloat16* dweight) {
  const Sizes sizes(p, plain_x);
  const Scratch sums(Scratch::Bytes<float>(sizes.shares * sizes.SumSize()));
  WeightSums weight(sizes, x, dy, sums.As<float>());
  weight.Run();
  weight.Finish(dweight);
}

}  // namespace plait::cpu
#endif
