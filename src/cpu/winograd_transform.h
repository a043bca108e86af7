// Winograd's transforms F(4 x 4, 3 x 3) of one tile, for the Highway target at hand.
//
// Included once for each target, after hwy/foreach_target.h. A tile is 6 x 6 vectors of
// channels. The points are 0, +-5/8, +-3/2 and infinity: of all pairs of multiples of
// 1/16 those whose results were the most exact. They come in pairs +-p, so that the
// sums of even and of odd powers serve both.

#if defined(PLAIT_CPU_WINOGRAD_TRANSFORM_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PLAIT_CPU_WINOGRAD_TRANSFORM_H_
#undef PLAIT_CPU_WINOGRAD_TRANSFORM_H_
#else
#define PLAIT_CPU_WINOGRAD_TRANSFORM_H_
#endif

#include <cstdint>

#include "cpu/bfloat16_vectors.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace plait::cpu::kernel {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

namespace winograd {

inline constexpr int kIn = 6, kOut = 4, kPoints = kIn * kIn;

// F is the type that is computed in: float or double.
template <typename F>
using Tag = hn::ScalableTag<F>;
template <typename F>
using V = hn::Vec<Tag<F>>;
template <typename F>
inline constexpr int64_t kBlock = HWY_LANES(F);

inline constexpr double kA = 0.625, kA2 = kA * kA, kA3 = kA2 * kA;
inline constexpr double kB = 1.5, kB2 = kB * kB, kB3 = kB2 * kB;

template <typename F>
HWY_INLINE V<F> Const(double x) {
  return hn::Set(Tag<F>(), static_cast<F>(x));
}
// e + p * o and e - p * o.
template <typename F>
HWY_INLINE void PlusMinus(V<F> e, V<F> o, double p, V<F>* plus, V<F>* minus) {
  *plus = hn::MulAdd(Const<F>(p), o, e);
  *minus = hn::NegMulAdd(Const<F>(p), o, e);
}

// Of six pixels of x the values at half of the points: rows of the polynomial of all
// points without the one. kHalf: 0, +-a, or infinity (0) and +-b (1), in the order of
// the points, of which infinity is the last.
template <typename F, int kHalf>
HWY_INLINE void TransformData(const V<F> (&d)[6], V<F> (&t)[3]) {
  const V<F> sum = Const<F>(-(kA2 + kB2)), product = Const<F>(kA2 * kB2);
  const V<F> other = Const<F>(kHalf == 0 ? -kB2 : -kA2);
  V<F>* const pair = kHalf == 0 ? t + 1 : t;
  PlusMinus<F>(hn::MulAdd(other, d[2], d[4]), hn::MulAdd(other, d[1], d[3]),
               kHalf == 0 ? kA : kB, pair, pair + 1);
  constexpr int kFirst = kHalf;
  t[2 * kHalf] =
      hn::MulAdd(product, d[kFirst], hn::MulAdd(sum, d[kFirst + 2], d[kFirst + 4]));
}

// Of the values at the points four pixels of y.
template <typename F>
HWY_INLINE void TransformResult(const V<F> (&m)[6], V<F> (&y)[4]) {
  const V<F> ea = hn::Add(m[1], m[2]), oa = hn::Sub(m[1], m[2]);
  const V<F> eb = hn::Add(m[3], m[4]), ob = hn::Sub(m[3], m[4]);
  y[0] = hn::Add(m[0], hn::Add(ea, eb));
  y[1] = hn::MulAdd(Const<F>(kB), ob, hn::Mul(Const<F>(kA), oa));
  y[2] = hn::MulAdd(Const<F>(kB2), eb, hn::Mul(Const<F>(kA2), ea));
  y[3] = hn::MulAdd(Const<F>(kB3), ob, hn::MulAdd(Const<F>(kA3), oa, m[5]));
}

// The same transposed: of four pixels of dy the values at the points.
template <typename F>
HWY_INLINE void TransformGradient(const V<F> (&y)[4], V<F> (&m)[6]) {
  m[0] = y[0];
  PlusMinus<F>(hn::MulAdd(Const<F>(kA2), y[2], y[0]),
               hn::MulAdd(Const<F>(kA2), y[3], y[1]), kA, &m[1], &m[2]);
  PlusMinus<F>(hn::MulAdd(Const<F>(kB2), y[2], y[0]),
               hn::MulAdd(Const<F>(kB2), y[3], y[1]), kB, &m[3], &m[4]);
  m[5] = y[3];
}

// One over the products of a point's differences to the others.
inline constexpr double kN0 = 1 / (kA2 * kB2), kNa = 1 / (2 * kA2 * (kA2 - kB2)),
                        kNb = 1 / (2 * kB2 * (kB2 - kA2));

// Of three taps of a filter the values at the points, over those products.
template <typename F>
HWY_INLINE void TransformFilter(const V<F> (&g)[3], V<F> (&u)[6]) {
  u[0] = hn::Mul(Const<F>(kN0), g[0]);
  PlusMinus<F>(hn::Mul(Const<F>(kNa), hn::MulAdd(Const<F>(kA2), g[2], g[0])), g[1],
               kNa * kA, &u[1], &u[2]);
  PlusMinus<F>(hn::Mul(Const<F>(kNb), hn::MulAdd(Const<F>(kB2), g[2], g[0])), g[1],
               kNb * kB, &u[3], &u[4]);
  u[5] = g[2];
}

// The same transposed: of the values at the points the gradient of three taps.
template <typename F>
HWY_INLINE void TransformTaps(const V<F> (&m)[6], V<F> (&g)[3]) {
  const V<F> ea = hn::Add(m[1], m[2]), oa = hn::Sub(m[1], m[2]);
  const V<F> eb = hn::Add(m[3], m[4]), ob = hn::Sub(m[3], m[4]);
  g[0] = hn::MulAdd(Const<F>(kN0), m[0],
                    hn::MulAdd(Const<F>(kNa), ea, hn::Mul(Const<F>(kNb), eb)));
  g[1] = hn::MulAdd(Const<F>(kNa * kA), oa, hn::Mul(Const<F>(kNb * kB), ob));
  g[2] = hn::MulAdd(Const<F>(kNa * kA2), ea, hn::MulAdd(Const<F>(kNb * kB2), eb, m[5]));
}

// Where the pixels of a tile are: row i at row[i]. Columns outside [first, last) and
// rows that are nullptr are zero.
template <typename S>
struct Pixels {
  const S* row[6];
  int first, last;
};

// Half of the points down the columns, all along the rows. All 36 values at once would
// not find room in the registers.
template <typename F, typename S, int kHalf, bool kWhole>
HWY_INLINE void DataHalf(const Pixels<S>& x, F* HWY_RESTRICT to, int64_t stride) {
  const Tag<F> d;
  V<F> t[3][6];
#pragma GCC unroll 6
  for (int j = 0; j < 6; ++j) {
    V<F> in[6], out[3];
#pragma GCC unroll 6
    for (int i = 0; i < 6; ++i) {
      const bool is = kWhole || (x.row[i] != nullptr && j >= x.first && j < x.last);
      in[i] = is ? cpu::HWY_NAMESPACE::Read(d, x.row[i] + j * kBlock<F>) : hn::Zero(d);
    }
    TransformData<F, kHalf>(in, out);
#pragma GCC unroll 3
    for (int i = 0; i < 3; ++i) t[i][j] = out[i];
  }
#pragma GCC unroll 3
  for (int i = 0; i < 3; ++i) {
    V<F> low[3], high[3];
    TransformData<F, 0>(t[i], low);
    TransformData<F, 1>(t[i], high);
    F* const row = to + 6 * (3 * kHalf + i) * stride;
#pragma GCC unroll 3
    for (int j = 0; j < 3; ++j) {
      hn::StoreU(low[j], d, row + j * stride);
      hn::StoreU(high[j], d, row + (3 + j) * stride);
    }
  }
}

// Value i of the tile at to + i * stride. kWhole: all pixels exist.
template <typename F, typename S, bool kWhole>
HWY_INLINE void DataTile(const Pixels<S>& x, F* HWY_RESTRICT to, int64_t stride) {
  DataHalf<F, S, 0, kWhole>(x, to, stride);
  DataHalf<F, S, 1, kWhole>(x, to, stride);
}

// Of the values i at m + i * stride the pixels of y: store(i, j, value) for each.
template <typename F, class Store>
HWY_INLINE void ResultTile(const F* HWY_RESTRICT m, int64_t stride, Store&& store) {
  const Tag<F> d;
  V<F> t[4][6];
#pragma GCC unroll 6
  for (int j = 0; j < 6; ++j) {
    V<F> in[6], out[4];
#pragma GCC unroll 6
    for (int i = 0; i < 6; ++i) in[i] = hn::LoadU(d, m + (6 * i + j) * stride);
    TransformResult<F>(in, out);
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) t[i][j] = out[i];
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    V<F> out[4];
    TransformResult<F>(t[i], out);
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) store(i, j, out[j]);
  }
}

// Of 4 x 4 pixels, of which `rows` x `columns` exist, value i to to + i * stride.
// Returns the sum of the pixels.
template <typename F, typename S>
HWY_INLINE V<F> GradientTile(const S* HWY_RESTRICT y, int64_t row, int64_t rows,
                             int64_t columns, F* HWY_RESTRICT to, int64_t stride) {
  const Tag<F> d;
  V<F> t[6][4], sum = hn::Zero(d);
#pragma GCC unroll 4
  for (int j = 0; j < 4; ++j) {
    V<F> in[4], out[6];
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      in[i] = i < rows && j < columns
                  ? cpu::HWY_NAMESPACE::Read(d, y + i * row + j * kBlock<F>)
                  : hn::Zero(d);
    }
    sum = hn::Add(sum, hn::Add(hn::Add(in[0], in[1]), hn::Add(in[2], in[3])));
    TransformGradient<F>(in, out);
#pragma GCC unroll 6
    for (int i = 0; i < 6; ++i) t[i][j] = out[i];
  }
#pragma GCC unroll 6
  for (int i = 0; i < 6; ++i) {
    V<F> out[6];
    TransformGradient<F>(t[i], out);
#pragma GCC unroll 6
    for (int j = 0; j < 6; ++j) hn::StoreU(out[j], d, to + (6 * i + j) * stride);
  }
  return sum;
}

// Of the values i at m + i * stride the gradients of the 3 x 3 taps, side by side.
template <typename F>
HWY_INLINE void TapsTile(const F* HWY_RESTRICT m, int64_t stride, F* HWY_RESTRICT to) {
  const Tag<F> d;
  V<F> t[3][6];
#pragma GCC unroll 6
  for (int j = 0; j < 6; ++j) {
    V<F> in[6], out[3];
#pragma GCC unroll 6
    for (int i = 0; i < 6; ++i) in[i] = hn::LoadU(d, m + (6 * i + j) * stride);
    TransformTaps<F>(in, out);
#pragma GCC unroll 3
    for (int i = 0; i < 3; ++i) t[i][j] = out[i];
  }
#pragma GCC unroll 3
  for (int i = 0; i < 3; ++i) {
    V<F> out[3];
    TransformTaps<F>(t[i], out);
#pragma GCC unroll 3
    for (int j = 0; j < 3; ++j) hn::StoreU(out[j], d, to + (3 * i + j) * kBlock<F>);
  }
}

// The 3 x 3 taps, tap i at g + i * step (step < 0: rotated); value i at to + i *
// stride.
template <typename F>
HWY_INLINE void FilterTile(const F* HWY_RESTRICT g, int64_t step, F* HWY_RESTRICT to,
                           int64_t stride) {
  const Tag<F> d;
  V<F> t[6][3];
#pragma GCC unroll 3
  for (int j = 0; j < 3; ++j) {
    V<F> in[3], out[6];
#pragma GCC unroll 3
    for (int i = 0; i < 3; ++i) in[i] = hn::LoadU(d, g + (3 * i + j) * step);
    TransformFilter<F>(in, out);
#pragma GCC unroll 6
    for (int i = 0; i < 6; ++i) t[i][j] = out[i];
  }
#pragma GCC unroll 6
  for (int i = 0; i < 6; ++i) {
    V<F> out[6];
    TransformFilter<F>(t[i], out);
#pragma GCC unroll 6
    for (int j = 0; j < 6; ++j) hn::StoreU(out[j], d, to + (6 * i + j) * stride);
  }
}

}  // namespace winograd
}  // namespace HWY_NAMESPACE
}  // namespace plait::cpu::kernel
HWY_AFTER_NAMESPACE();

#endif  // PLAIT_CPU_WINOGRAD_TRANSFORM_H_
