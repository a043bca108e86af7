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

// Windows along a row. Those inside x run as vectors when the stride is 1 or 2.
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

// The windows of 2 x 2 at stride 2 do not overlap: each gives four elements of dx.
void SpreadPairs(const PoolPlanes& p, const float* dy, const float* x, float* dx) {
  const D d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t r = 0; r < p.out_h; ++r) {
    const float *top = x + 2 * r * p.w, *low = top + p.w, *g = dy + r * p.out_w;
    float *dtop = dx + 2 * r * p.w, *dlow = dtop + p.w;
    int64_t i = 0;
    for (; i + lanes <= p.out_w; i += lanes) {
      hn::Vec<D> a, b, c, e;
      hn::LoadInterleaved2(d, top + 2 * i, a, b);
      hn::LoadInterleaved2(d, low + 2 * i, c, e);
      const auto v = hn::LoadU(d, g + i), zero = hn::Zero(d);
      // The first largest: a later one must be larger, or the first NaN.
      const auto beats = [&](auto y, auto m) HWY_ATTR {
        return hn::AndNot(hn::IsNaN(m), hn::Or(hn::Gt(y, m), hn::IsNaN(y)));
      };
      const auto b_wins = beats(b, a);
      const auto ab = hn::IfThenElse(b_wins, b, a);
      const auto c_wins = beats(c, ab);
      const auto abc = hn::IfThenElse(c_wins, c, ab);
      const auto e_wins = beats(e, abc);
      const auto rest = hn::Or(c_wins, e_wins);
      hn::StoreInterleaved2(hn::IfThenElse(hn::Or(rest, b_wins), zero, v),
                            hn::IfThenElseZero(hn::AndNot(rest, b_wins), v), d,
                            dtop + 2 * i);
      hn::StoreInterleaved2(hn::IfThenElseZero(hn::AndNot(e_wins, c_wins), v),
                            hn::IfThenElseZero(e_wins, v), d, dlow + 2 * i);
    }
    for (; i < p.out_w; ++i) {
      const float* at[] = {top + 2 * i, top + 2 * i + 1, low + 2 * i, low + 2 * i + 1};
      int best = 0;
      for (int k = 1; k < 4; ++k) {
        if (!std::isnan(*at[best]) && (*at[k] > *at[best] || std::isnan(*at[k])))
          best = k;
      }
      dtop[2 * i] = best == 0 ? g[i] : 0;
      dtop[2 * i + 1] = best == 1 ? g[i] : 0;
      dlow[2 * i] = best == 2 ? g[i] : 0;
      dlow[2 * i + 1] = best == 3 ? g[i] : 0;
    }
    // A column that no window covers.
    for (int64_t j = 2 * p.out_w; j < p.w; ++j) dtop[j] = dlow[j] = 0;
  }
  std::fill(dx + 2 * p.out_h * p.w, dx + p.h * p.w, 0.0f);
}

void SpreadMax(const PoolPlanes& p, const float* dy, const float* x, float* dx) {
  std::fill_n(dx, p.h * p.w, 0.0f);
  for (int64_t r = 0; r < p.out_h; ++r) {
    const Range rows = RangeOf(r, p.stride_h, p.pad_h, p.kernel_h, p.h);
    for (int64_t i = 0; i < p.out_w; ++i) {
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
      if (best >= 0) dx[best] += dy[r * p.out_w + i];
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
  const bool pairs = p.kernel_h == 2 && p.kernel_w == 2 && p.stride_h == 2 &&
                     p.stride_w == 2 && p.pad_h == 0 && p.pad_w == 0 &&
                     2 * p.out_h <= p.h && 2 * p.out_w <= p.w;
  for (int64_t i = first; i < last; ++i) {
    const int64_t in = i * p.h * p.w, out = i * p.out_h * p.out_w;
    (pairs ? SpreadPairs : SpreadMax)(p, dy + out, x + in, dx + in);
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

// The factor of each window: 1, or 1 / its number of elements.
std::vector<float> Factors(const PoolPlanes& p, bool average, bool include_pad) {
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

void MaxPool(const PoolPlanes& p, const float* x, float* y) {
  const auto run = HWY_DYNAMIC_DISPATCH(MaxPlanes);
  ParallelFor(p.planes, Grain(p),
              [&](int64_t first, int64_t last) { run(p, x, y, first, last); });
}

void MaxPoolBackward(const PoolPlanes& p, const float* dy, const float* x, float* dx) {
  const auto run = HWY_DYNAMIC_DISPATCH(MaxBackwardPlanes);
  ParallelFor(p.planes, Grain(p),
              [&](int64_t first, int64_t last) { run(p, dy, x, dx, first, last); });
}

void SumPool(const PoolPlanes& p, bool average, bool include_pad, const float* x,
             float* y) {
  const std::vector<float> factors = Factors(p, average, include_pad);
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
  const std::vector<float> factors = Factors(p, average, include_pad);
  ParallelFor(p.planes, Grain(p), [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      SpreadSum(p, factors.data(), dy + i * p.out_h * p.out_w, dx + i * p.h * p.w);
    }
  });
}

}  // namespace plait::cpu
#endif  // HWY_ONCE
