// Pooling of float planes: whole rows first, then windows along a row.

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/pool.cc"
#include "cpu/simd/targets.h"
#include "hwy/foreach_target.h"
//
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/parallel.h"
#include "cpu/pool.h"
#include "cpu/pool_pairs.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace plait::cpu::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;

struct MaxOf {
  static constexpr float kStart = std::numeric_limits<float>::lowest();
  static float Scalar(float m, float v) { return v > m || std::isnan(v) ? v : m; }
  template <class V>
  static HWY_INLINE V Vector(V m, V v) {
    return hn::IfThenElse(hn::Or(hn::Gt(v, m), hn::IsNaN(v)), v, m);
  }
};
struct SumOf {
  static constexpr float kStart = 0;
  static float Scalar(float m, float v) { return m + v; }
  template <class V>
  static HWY_INLINE V Vector(V m, V v) {
    return hn::Add(m, v);
  }
};

struct Range {
  int64_t first, last;
};
Range RangeOf(int64_t i, int64_t stride, int64_t pad, int64_t kernel, int64_t size) {
  const int64_t first = i * stride - pad;
  return {std::max<int64_t>(first, 0), std::min(first + kernel, size)};
}

// One row of the rows of a window: element by element over [first, last).
template <class Op>
void ReduceRows(const float* x, int64_t w, Range rows, float* out) {
  if (rows.first >= rows.last) {
    std::fill_n(out, w, Op::kStart);
    return;
  }
  const D d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t j = 0;
  for (; j + lanes <= w; j += lanes) {
    auto m = hn::LoadU(d, x + rows.first * w + j);
    for (int64_t r = rows.first + 1; r < rows.last; ++r) {
      m = Op::Vector(m, hn::LoadU(d, x + r * w + j));
    }
    hn::StoreU(m, d, out + j);
  }
  for (; j < w; ++j) {
    float m = x[rows.first * w + j];
    for (int64_t r = rows.first + 1; r < rows.last; ++r)
      m = Op::Scalar(m, x[r * w + j]);
    out[j] = m;
  }
}

template <class Op>
float ReduceColumns(const PoolPlanes& p, const float* row, int64_t i) {
  const Range c = RangeOf(i, p.stride_w, p.pad_w, p.kernel_w, p.w);
  float m = Op::kStart;
  for (int64_t j = c.first; j < c.last; ++j) {
    m = j == c.first ? row[j] : Op::Scalar(m, row[j]);
  }
  return m;
}

// Windows along a row that end inside x, were there no limit to their number.
inline int64_t WindowsInside(const PoolPlanes& p) {
  return p.w + p.pad_w < p.kernel_w ? 0 : (p.w + p.pad_w - p.kernel_w) / p.stride_w + 1;
}

// Lane l holds x[start + min(l, n - 1) * stride]: one element of each of n windows.
HWY_INLINE hn::Vec<hn::RebindToSigned<D>> WindowStarts(int64_t start, int64_t stride,
                                                       int64_t n) {
  const hn::RebindToSigned<D> di;
  const auto l = hn::Min(hn::Iota(di, 0), hn::Set(di, static_cast<int32_t>(n - 1)));
  return hn::Add(hn::Set(di, static_cast<int32_t>(start)),
                 hn::Mul(l, hn::Set(di, static_cast<int32_t>(stride))));
}

// Windows along a row. Those inside x run as vectors.
template <class Op>
void ReduceRow(const PoolPlanes& p, const float* row, float* y) {
  const D d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  // The first window that begins inside x.
  for (; i < p.out_w && i * p.stride_w < p.pad_w; ++i)
    y[i] = ReduceColumns<Op>(p, row, i);
  if (p.stride_w == 1) {
    for (; i + lanes <= p.out_w && i - p.pad_w + lanes + p.kernel_w - 1 <= p.w;
         i += lanes) {
      const float* from = row + i - p.pad_w;
      auto m = hn::LoadU(d, from);
      for (int64_t k = 1; k < p.kernel_w; ++k)
        m = Op::Vector(m, hn::LoadU(d, from + k));
      hn::StoreU(m, d, y + i);
    }
  } else if (p.stride_w == 2 && p.kernel_w >= 2) {
    // Pairs of columns fall apart into even and odd ones.
    for (; i + lanes <= p.out_w &&
           2 * i - p.pad_w + 2 * lanes + (p.kernel_w - 1) / 2 * 2 <= p.w;
         i += lanes) {
      const float* from = row + 2 * i - p.pad_w;
      hn::Vec<D> even, odd;
      hn::LoadInterleaved2(d, from, even, odd);
      auto m = Op::Vector(even, odd);
      for (int64_t k = 2; k < p.kernel_w; k += 2) {
        hn::LoadInterleaved2(d, from + k, even, odd);
        m = Op::Vector(m, even);
        if (k + 1 < p.kernel_w) m = Op::Vector(m, odd);
      }
      hn::StoreU(m, d, y + i);
    }
  }
  // Other strides, and the few windows that are left.
  HWY_ALIGN float part[HWY_LANES(float)];
  const int64_t inside = std::min(p.out_w, WindowsInside(p));
  while (i < inside) {
    const int64_t n = std::min(lanes, inside - i);
    const auto at = WindowStarts(i * p.stride_w - p.pad_w, p.stride_w, n);
    auto m = hn::GatherIndex(d, row, at);
    for (int64_t k = 1; k < p.kernel_w; ++k) {
      m = Op::Vector(m, hn::GatherIndex(d, row + k, at));
    }
    hn::Store(m, d, part);
    std::copy_n(part, n, y + i);
    i += n;
  }
  for (; i < p.out_w; ++i) y[i] = ReduceColumns<Op>(p, row, i);
}

template <class Op>
void Planes(const PoolPlanes& p, const float* x, float* y, int64_t first,
            int64_t last) {
  std::vector<float> row(static_cast<size_t>(p.w));
  for (int64_t i = first; i < last; ++i) {
    for (int64_t r = 0; r < p.out_h; ++r) {
      const Range rows = RangeOf(r, p.stride_h, p.pad_h, p.kernel_h, p.h);
      ReduceRows<Op>(x + i * p.h * p.w, p.w, rows, row.data());
      ReduceRow<Op>(p, row.data(), y + (i * p.out_h + r) * p.out_w);
    }
  }
}

// n windows side by side, inside x along the row; the first begins in column `start`.
void SpreadMaxOfWindows(const PoolPlanes& p, Range rows, int64_t start, int64_t n,
                        const float* dy, const float* x, float* dx) {
  const D d;
  const hn::RebindToSigned<D> di;
  const auto at = WindowStarts(start, p.stride_w, n);
  auto top = hn::GatherIndex(d, x + rows.first * p.w, at);
  auto best = hn::Set(di, static_cast<int32_t>(rows.first * p.w));
  for (int64_t a = rows.first; a < rows.last; ++a) {
    for (int64_t b = a == rows.first ? 1 : 0; b < p.kernel_w; ++b) {
      const auto v = hn::GatherIndex(d, x + a * p.w + b, at);
      const auto wins =
          hn::AndNot(hn::IsNaN(top), hn::Or(hn::Gt(v, top), hn::IsNaN(v)));
      top = hn::IfThenElse(wins, v, top);
      best = hn::IfThenElse(hn::RebindMask(di, wins),
                            hn::Set(di, static_cast<int32_t>(a * p.w + b)), best);
    }
  }
  HWY_ALIGN int32_t places[HWY_LANES(int32_t)];
  hn::Store(hn::Add(best, at), di, places);
  for (int64_t i = 0; i < n; ++i) dx[places[i]] += dy[i];
}

// One window, wherever it lies.
void SpreadMaxOfWindow(const PoolPlanes& p, Range rows, int64_t i, float dy,
                       const float* x, float* dx) {
  const Range c = RangeOf(i, p.stride_w, p.pad_w, p.kernel_w, p.w);
  int64_t best = -1;
  float top = 0;
  for (int64_t a = rows.first; a < rows.last; ++a) {
    for (int64_t b = c.first; b < c.last; ++b) {
      const float v = x[a * p.w + b];
      if (best < 0 || v > top || (std::isnan(v) && !std::isnan(top))) {
        best = a * p.w + b;
        top = v;
      }
    }
  }
  if (best >= 0) dx[best] += dy;
}

void SpreadMax(const PoolPlanes& p, const float* dy, const float* x, float* dx) {
  std::fill_n(dx, p.h * p.w, 0.0f);
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(D()));
  // Windows [begin, end) lie inside x along a row.
  const int64_t end = std::min(p.out_w, WindowsInside(p));
  const int64_t begin = std::min(end, (p.pad_w + p.stride_w - 1) / p.stride_w);
  for (int64_t r = 0; r < p.out_h; ++r, dy += p.out_w) {
    const Range rows = RangeOf(r, p.stride_h, p.pad_h, p.kernel_h, p.h);
    if (rows.first >= rows.last) continue;
    for (int64_t i = 0; i < begin; ++i) SpreadMaxOfWindow(p, rows, i, dy[i], x, dx);
    for (int64_t i = begin; i < end; i += lanes) {
      SpreadMaxOfWindows(p, rows, i * p.stride_w - p.pad_w, std::min(lanes, end - i),
                         dy + i, x, dx);
    }
    for (int64_t i = end; i < p.out_w; ++i) {
      SpreadMaxOfWindow(p, rows, i, dy[i], x, dx);
    }
  }
}

void MaxPlanes(const PoolPlanes& p, const float* x, float* y, int64_t first,
               int64_t last) {
  Planes<MaxOf>(p, x, y, first, last);
}
void SumPlanes(const PoolPlanes& p, const float* x, float* y, int64_t first,
               int64_t last) {
  Planes<SumOf>(p, x, y, first, last);
}
void MaxBackwardPlanes(const PoolPlanes& p, const float* dy, const float* x, float* dx,
                       int64_t first, int64_t last) {
  for (int64_t i = first; i < last; ++i) {
    const int64_t in = i * p.h * p.w, out = i * p.out_h * p.out_w;
    SpreadMax(p, dy + out, x + in, dx + in);
  }
}

}  // namespace
}  // namespace plait::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plait::cpu {
namespace {

HWY_EXPORT(MaxPlanes);
HWY_EXPORT(SumPlanes);
HWY_EXPORT(MaxBackwardPlanes);

// Planes that one thread takes at a time at least.
int64_t Grain(const PoolPlanes& p) {
  return std::max<int64_t>(1, (1 << 14) / std::max<int64_t>(1, p.h * p.w));
}

// One over the number of elements of window i along one axis.
int64_t CountOf(int64_t i, int64_t stride, int64_t pad, int64_t kernel, int64_t size,
                bool include_pad) {
  const int64_t first = i * stride - pad;
  if (include_pad) return std::min(first + kernel, size + pad) - first;
  return std::min(first + kernel, size) - std::max<int64_t>(first, 0);
}

void SpreadSum(const PoolPlanes& p, const float* factors, const float* dy, float* dx) {
  std::fill_n(dx, p.h * p.w, 0.0f);
  for (int64_t r = 0; r < p.out_h; ++r) {
    const int64_t top = std::max<int64_t>(r * p.stride_h - p.pad_h, 0);
    const int64_t low = std::min(r * p.stride_h - p.pad_h + p.kernel_h, p.h);
    for (int64_t i = 0; i < p.out_w; ++i) {
      const float v = dy[r * p.out_w + i] * factors[r * p.out_w + i];
      const int64_t first = std::max<int64_t>(i * p.stride_w - p.pad_w, 0);
      const int64_t last = std::min(i * p.stride_w - p.pad_w + p.kernel_w, p.w);
      for (int64_t a = top; a < low; ++a) {
        for (int64_t b = first; b < last; ++b) dx[a * p.w + b] += v;
      }
    }
  }
}

}  // namespace

std::vector<float> PoolFactors(const PoolPlanes& p, bool average, bool include_pad) {
  std::vector<float> factors(static_cast<size_t>(p.out_h * p.out_w), 1.0f);
  for (int64_t r = 0; average && r < p.out_h; ++r) {
    const int64_t rows = CountOf(r, p.stride_h, p.pad_h, p.kernel_h, p.h, include_pad);
    for (int64_t i = 0; i < p.out_w; ++i) {
      const int64_t n =
          rows * CountOf(i, p.stride_w, p.pad_w, p.kernel_w, p.w, include_pad);
      factors[r * p.out_w + i] = 1.0f / static_cast<float>(std::max<int64_t>(n, 1));
    }
  }
  return factors;
}

void MaxPool(const PoolPlanes& p, const float* x, float* y) {
  if (pairs::Fits(p)) {
    return ParallelFor(p.planes, Grain(p), [&](int64_t first, int64_t last) {
      pairs::MaxPool(p, first, last, x, y);
    });
  }
  const auto run = HWY_DYNAMIC_DISPATCH(MaxPlanes);
  ParallelFor(p.planes, Grain(p),
              [&](int64_t first, int64_t last) { run(p, x, y, first, last); });
}

void MaxPoolBackward(const PoolPlanes& p, const float* dy, const float* x, float* dx) {
  if (pairs::Fits(p)) {
    return ParallelFor(p.planes, Grain(p), [&](int64_t first, int64_t last) {
      pairs::MaxPoolBackward(p, first, last, dy, x, dx);
    });
  }
  const auto run = HWY_DYNAMIC_DISPATCH(MaxBackwardPlanes);
  ParallelFor(p.planes, Grain(p),
              [&](int64_t first, int64_t last) { run(p, dy, x, dx, first, last); });
}

void SumPool(const PoolPlanes& p, bool average, bool include_pad, const float* x,
             float* y) {
  if (pairs::Fits(p)) {
    return ParallelFor(p.planes, Grain(p), [&](int64_t first, int64_t last) {
      pairs::SumPool(p, average ? 0.25f : 1.0f, first, last, x, y);
    });
  }
  const std::vector<float> factors = PoolFactors(p, average, include_pad);
  const auto run = HWY_DYNAMIC_DISPATCH(SumPlanes);
  const int64_t n = p.out_h * p.out_w;
  ParallelFor(p.planes, Grain(p), [&](int64_t first, int64_t last) {
    run(p, x, y, first, last);
    for (int64_t i = first; average && i < last; ++i) {
      for (int64_t k = 0; k < n; ++k) y[i * n + k] *= factors[k];
    }
  });
}

void SumPoolBackward(const PoolPlanes& p, bool average, bool include_pad,
                     const float* dy, float* dx) {
  if (pairs::Fits(p)) {
    return ParallelFor(p.planes, Grain(p), [&](int64_t first, int64_t last) {
      pairs::SumPoolBackward(p, average ? 0.25f : 1.0f, first, last, dy, dx);
    });
  }
  const std::vector<float> factors = PoolFactors(p, average, include_pad);
  ParallelFor(p.planes, Grain(p), [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      SpreadSum(p, factors.data(), dy + i * p.out_h * p.out_w, dx + i * p.h * p.w);
    }
  });
}

}  // namespace plait::cpu
#endif  // HWY_ONCE
