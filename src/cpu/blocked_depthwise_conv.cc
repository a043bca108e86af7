// Depthwise windows on blocked arrays: a row of y at a time, several pixels at once.

#include <algorithm>

#include "base/parallel.h"
#include "cpu/blocked.h"
#include "cpu/blocked_direct.h"
#include "cpu/scratch.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/blocked_depthwise_conv.cc"
#include "cpu/simd/targets.h"
#include "hwy/foreach_target.h"
//
#include "cpu/depthwise_rows.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace plait::cpu::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
constexpr int kBlock = HWY_LANES(float);
using D = hn::CappedTag<float, kBlock>;
using V = hn::Vec<D>;

// One row of windows: `rows` rows of the filter lie inside the image.
struct Row {
  const float* x;  // the row of x under the first of them, at column 0
  const float* w;  // the first of them
  int64_t rows;
  int64_t width;  // of x
  float* y;
  const float* other;
};

// kPixels windows of y from column `first` on, at column `column` of x, with columns
// [left, right) of the filter inside the image for all of them.
// kOnes: neighbours in y are neighbours in x.
template <int kPixels, bool kOnes>
HWY_INLINE void Windows(const ConvProblem& p, const Row& row, int64_t first,
                        int64_t column, int64_t left, int64_t right,
                        const Finish<D>& finish) {
  const D d;
  V acc[kPixels];
#pragma GCC unroll 8
  for (int i = 0; i < kPixels; ++i) acc[i] = hn::Zero(d);
  const int64_t step = (kOnes ? 1 : p.stride[2]) * kBlock;
#pragma GCC unroll 1
  for (int64_t a = 0; a < row.rows; ++a) {
    const float* HWY_RESTRICT x = row.x + (a * row.width + column) * kBlock;
    const float* HWY_RESTRICT w = row.w + a * p.kernel[2] * kBlock;
    for (int64_t b = left; b < right; ++b) {
      const V v = hn::LoadU(d, w + b * kBlock);
#pragma GCC unroll 8
      for (int i = 0; i < kPixels; ++i)
        acc[i] = hn::MulAdd(hn::LoadU(d, x + b * kBlock + i * step), v, acc[i]);
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < kPixels; ++i) {
    const int64_t at = (first + i) * kBlock;
    hn::StoreU(finish(acc[i], row.other, at), d, row.y + at);
  }
}

using WindowsFn = void (*)(const ConvProblem&, const Row&, int64_t, int64_t,
                           const Finish<D>&);
// Windows that lie inside x.
template <int kPixels>
void Whole(const ConvProblem& p, const Row& row, int64_t first, int64_t column,
           const Finish<D>& finish) {
  if (p.stride[2] != 1)
    return Windows<kPixels, false>(p, row, first, column, 0, p.kernel[2], finish);
  if (p.kernel[2] == 3)  // known to the compiler
    return Windows<kPixels, true>(p, row, first, column, 0, 3, finish);
  Windows<kPixels, true>(p, row, first, column, 0, p.kernel[2], finish);
}

// Windows [begin, end) of a row, which lie inside x; the first at column `column`.
HWY_INLINE void Inside(const ConvProblem& p, const Row& row, int64_t begin, int64_t end,
                       int64_t column, const Finish<D>& finish) {
  static constexpr WindowsFn kWhole[] = {Whole<1>, Whole<2>, Whole<3>, Whole<4>,
                                         Whole<5>, Whole<6>, Whole<7>, Whole<8>};
  for (int64_t i = begin; i < end;) {
    // 9 are 5 and 4, not 8 and 1: sums must not wait for each other.
    const int64_t n = end - i == 9 ? 5 : std::min<int64_t>(end - i, 8);
    kWhole[n - 1](p, row, i, column + (i - begin) * p.stride[2], finish);
    i += n;
  }
}

void RowOf(const ConvProblem& p, const Row& row, const Finish<D>& finish) {
  const int64_t out = p.Out(2), stride = p.stride[2], pad = p.pad_low[2];
  // Windows [begin, end) lie inside the image.
  const int64_t begin = std::min(out, (pad + stride - 1) / stride);
  const int64_t room = p.in[2] + pad - p.kernel[2];
  const int64_t end = std::max(begin, std::min(out, room < 0 ? 0 : room / stride + 1));
  const auto at_edge = [&](int64_t i) HWY_ATTR {
    const int64_t column = i * stride - pad;
    Windows<1, false>(p, row, i, column, std::max<int64_t>(0, -column),
                      std::min(p.kernel[2], p.in[2] - column), finish);
  };
  for (int64_t i = 0; i < begin; ++i) at_edge(i);
  Inside(p, row, begin, end, begin * stride - pad, finish);
  for (int64_t i = end; i < out; ++i) at_edge(i);
}

const float* FiltersOf(const ConvProblem& p, const float* packed, int64_t plane) {
  const int64_t blocks = (p.in_channels + kBlock - 1) / kBlock;
  return packed + plane % blocks * p.KernelSize() * kBlock;
}
Finish<D> FinishOf(const ConvProblem& p, const ConvFinish& finish, int64_t plane) {
  const int64_t blocks = (p.in_channels + kBlock - 1) / kBlock;
  return Finish<D>(finish, plane % blocks * kBlock, p.in_channels);
}

// Rows [begin, end) of one plane of y.
void Rows(const ConvProblem& p, int64_t plane, int64_t begin, int64_t end,
          const float* x, const float* packed, const ConvFinish& finish, float* y) {
  const int64_t width = p.Out(2);
  const Finish<D> own = FinishOf(p, finish, plane);
  for (int64_t r = begin; r < end; ++r) {
    const int64_t first = r * p.stride[1] - p.pad_low[1];
    const int64_t top = std::max<int64_t>(0, -first);
    const int64_t bottom = std::min(p.kernel[1], p.in[1] - first);
    const int64_t at = (plane * p.Out(1) + r) * width * kBlock;
    Row row;
    row.x = x + ((plane * p.in[1] + first + top) * p.in[2]) * kBlock;
    row.w = FiltersOf(p, packed, plane) + top * p.kernel[2] * kBlock;
    row.rows = std::max<int64_t>(0, bottom - top);
    row.width = p.in[2];
    row.y = y + at;
    row.other = finish.other == nullptr ? nullptr : finish.other + at;
    RowOf(p, row, own);
  }
}

// The same at stride 1 by way of a copy with its padding in `padded`: no window is at
// an edge. REQUIRES: the columns of padding there are zeros.
void PaddedRows(const ConvProblem& p, int64_t plane, int64_t begin, int64_t end,
                const float* x, const float* packed, const ConvFinish& finish,
                float* padded, float* y) {
  const int64_t width = p.Out(2);
  const int64_t wide = p.in[2] + p.pad_low[2] + p.pad_high[2];
  const int64_t first = begin - p.pad_low[1],
                last = end - 1 + p.kernel[1] - p.pad_low[1];
  for (int64_t r = first; r < last; ++r) {
    float* to = padded + ((r - first) * wide + p.pad_low[2]) * kBlock;
    if (r < 0 || r >= p.in[1]) {
      std::fill_n(to, p.in[2] * kBlock, 0.0f);
    } else {
      std::copy_n(x + (plane * p.in[1] + r) * p.in[2] * kBlock, p.in[2] * kBlock, to);
    }
  }
  const Finish<D> own = FinishOf(p, finish, plane);
  if (finish.other == nullptr) {
    return depthwise::RunRows({.x = padded,
                               .x_row = wide * kBlock,
                               .w = FiltersOf(p, packed, plane),
                               .kernel_h = p.kernel[1],
                               .kernel_w = p.kernel[2],
                               .stride_h = 1,
                               .stride_w = 1,
                               .y = y + (plane * p.Out(1) + begin) * width * kBlock,
                               .rows = end - begin,
                               .width = width},
                              own);
  }
  Row row;
  row.w = FiltersOf(p, packed, plane);
  row.rows = p.kernel[1];
  row.width = wide;
  for (int64_t r = begin; r < end; ++r) {
    const int64_t at = (plane * p.Out(1) + r) * width * kBlock;
    row.x = padded + (r - begin) * wide * kBlock;
    row.y = y + at;
    row.other = finish.other == nullptr ? nullptr : finish.other + at;
    Inside(p, row, 0, width, 0, own);
  }
}

}  // namespace
}  // namespace plait::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plait::cpu {
namespace {
HWY_EXPORT(Rows);
HWY_EXPORT(PaddedRows);
}  // namespace

bool HasDepthwiseConv(const ConvProblem& p, ConvPass pass) {
  return p.rank == 2 && p.groups > 1 && p.groups == p.in_channels &&
         p.groups == p.out_channels && p.dilation[1] == 1 && p.dilation[2] == 1 &&
         p.Work() > 0 && pass == ConvPass::kForward;
}

int64_t DepthwiseFilterSize(const ConvProblem& p) {
  const int64_t block = FloatLanes();
  return (p.in_channels + block - 1) / block * block * p.KernelSize();
}

void PackDepthwiseFilters(const ConvProblem& p, const float* weight, float* packed) {
  const int64_t block = FloatLanes(), size = p.KernelSize();
  std::fill_n(packed, DepthwiseFilterSize(p), 0.0f);
  for (int64_t c = 0; c < p.in_channels; ++c) {
    float* to = packed + c / block * size * block + c % block;
    for (int64_t i = 0; i < size; ++i) to[i * block] = weight[c * size + i];
  }
}

namespace {

// Runs f(plane, begin, end) on all rows of all planes, f = make() for each thread,
// which gets the rows that it probably has in its cache from the layer before: that
// shares out pixels where it has many, otherwise channels, and samples where there are
// enough.
template <typename Make>
void ForEachPart(const ConvProblem& p, Make&& make) {
  const int64_t block = FloatLanes(), high = p.Out(1), threads = ComputeThreads();
  const int64_t blocks = (p.in_channels + block - 1) / block;
  // What a thread must have to do at least, in multiplications of vectors.
  constexpr int64_t kLeast = 1 << 12;
  const int64_t row_work = std::max<int64_t>(1, p.Out(2) * p.KernelSize());
  constexpr int64_t kStrip = 192;  // pixels, in blocked_pixel_conv.cc
  if (p.batch < threads && p.OutSize() > kStrip && p.batch * high >= 4 * threads) {
    const int64_t grain = std::max<int64_t>(1, kLeast / (row_work * blocks));
    return ParallelFor(p.batch * high, grain, [&](int64_t begin, int64_t end) {
      auto f = make();
      for (int64_t n = begin / high; n * high < end; ++n) {
        const int64_t from = std::max<int64_t>(0, begin - n * high),
                      to = std::min(high, end - n * high);
        for (int64_t b = 0; b < blocks; ++b) f(n * blocks + b, from, to);
      }
    });
  }
  const int64_t grain = std::max<int64_t>(1, kLeast / (row_work * high));
  ParallelFor(p.batch * blocks, grain, [&](int64_t begin, int64_t end) {
    auto f = make();
    for (int64_t plane = begin; plane < end; ++plane) f(plane, 0, high);
  });
}

// A plane of zeros.
class PaddedPlane {
 public:
  explicit PaddedPlane(int64_t size) : scratch_(Scratch::Bytes<float>(size)) {
    std::fill_n(data(), size, 0.0f);
  }
  float* data() const { return scratch_.As<float>(); }

 private:
  const Scratch scratch_;
};

}  // namespace

void DepthwiseConv(const ConvProblem& p, const float* x, const float* packed,
                   const ConvFinish& finish, float* y) {
  // A padded copy of a small plane stays in the caches and leaves no edges.
  constexpr int64_t kSmall = 20000;
  const int64_t size = FloatLanes() * (p.in[1] + p.pad_low[1] + p.pad_high[1]) *
                       (p.in[2] + p.pad_low[2] + p.pad_high[2]);
  if (size > kSmall || p.stride[1] != 1 || p.stride[2] != 1) {
    const auto rows = HWY_DYNAMIC_DISPATCH(Rows);
    return ForEachPart(p, [&] {
      return [&](int64_t plane, int64_t begin, int64_t end) {
        rows(p, plane, begin, end, x, packed, finish, y);
      };
    });
  }
  const auto rows = HWY_DYNAMIC_DISPATCH(PaddedRows);
  ForEachPart(p, [&] {
    return [&, padded = PaddedPlane(size)](int64_t plane, int64_t begin, int64_t end) {
      rows(p, plane, begin, end, x, packed, finish, padded.data(), y);
    };
  });
}

}  // namespace plait::cpu
#endif  // HWY_ONCE
