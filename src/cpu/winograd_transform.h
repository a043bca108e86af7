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

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace plait::cpu::kernel {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

namespace winograd {

inline constexpr int kIn = 6, kOut = 4, kPoints = kIn * kIn;

using Tag = hn::ScalableTag<float>;
using V = hn::Vec<Tag>;
inline constexpr int64_t kBlock = HWY_LANES(float);

inline constexpr float kA = 0.625f, kA2 = kA * kA, kA3 = kA2 * kA;
inline constexpr float kB = 1.5f, kB2 = kB * kB, kB3 = kB2 * kB;

HWY_INLINE V Const(float x) {
  return hn::Set(Tag(), x);
}
// e + p * o and e - p * o.
HWY_INLINE void PlusMinus(V e, V o, float p, V* plus, V* minus) {
  *plus = hn::MulAdd(Const(p), o, e);
  *minus = hn::NegMulAdd(Const(p), o, e);
}

// Of six pixels of x the values at half of the points: rows of the polynomial of all
// points without the one. kHalf: 0, +-a, or infinity (0) and +-b (1), in the order of
// the points, of which infinity is the last.
template <int kHalf>
HWY_INLINE void TransformData(const V (&d)[6], V (&t)[3]) {
  const V sum = Const(-(kA2 + kB2)), product = Const(kA2 * kB2);
  const V other = Const(kHalf == 0 ? -kB2 : -kA2);
  V* const pair = kHalf == 0 ? t + 1 : t;
  PlusMinus(hn::MulAdd(other, d[2], d[4]), hn::MulAdd(other, d[1], d[3]),
            kHalf == 0 ? kA : kB, pair, pair + 1);
  constexpr int kFirst = kHalf;
  t[2 * kHalf] =
      hn::MulAdd(product, d[kFirst], hn::MulAdd(sum, d[kFirst + 2], d[kFirst + 4]));
}

// Of the values at the points four pixels of y.
HWY_INLINE void TransformResult(const V (&m)[6], V (&y)[4]) {
  const V ea = hn::Add(m[1], m[2]), oa = hn::Sub(m[1], m[2]);
  const V eb = hn::Add(m[3], m[4]), ob = hn::Sub(m[3], m[4]);
  y[0] = hn::Add(m[0], hn::Add(ea, eb));
  y[1] = hn::MulAdd(Const(kB), ob, hn::Mul(Const(kA), oa));
  y[2] = hn::MulAdd(Const(kB2), eb, hn::Mul(Const(kA2), ea));
  y[3] = hn::MulAdd(Const(kB3), ob, hn::MulAdd(Const(kA3), oa, m[5]));
}

// The same transposed: of four pixels of dy the values at the points.
HWY_INLINE void TransformGradient(const V (&y)[4], V (&m)[6]) {
  m[0] = y[0];
  PlusMinus(hn::MulAdd(Const(kA2), y[2], y[0]), hn::MulAdd(Const(kA2), y[3], y[1]), kA,
            &m[1], &m[2]);
  PlusMinus(hn::MulAdd(Const(kB2), y[2], y[0]), hn::MulAdd(Const(kB2), y[3], y[1]), kB,
            &m[3], &m[4]);
  m[5] = y[3];
}

// One over the products of a point's differences to the others.
inline constexpr float kN0 = 1 / (kA2 * kB2), kNa = 1 / (2 * kA2 * (kA2 - kB2)),
                       kNb = 1 / (2 * kB2 * (kB2 - kA2));

// Of three taps of a filter the values at the points, over those products.
HWY_INLINE void TransformFilter(const V (&g)[3], V (&u)[6]) {
  u[0] = hn::Mul(Const(kN0), g[0]);
  PlusMinus(hn::Mul(Const(kNa), hn::MulAdd(Const(kA2), g[2], g[0])), g[1], kNa * kA,
            &u[1], &u[2]);
  PlusMinus(hn::Mul(Const(kNb), hn::MulAdd(Const(kB2), g[2], g[0])), g[1], kNb * kB,
            &u[3], &u[4]);
  u[5] = g[2];
}

// The same transposed: of the values at the points the gradient of three taps.
HWY_INLINE void TransformTaps(const V (&m)[6], V (&g)[3]) {
  const V ea = hn::Add(m[1], m[2]), oa = hn::Sub(m[1], m[2]);
  const V eb = hn::Add(m[3], m[4]), ob = hn::Sub(m[3], m[4]);
  g[0] =
      hn::MulAdd(Const(kN0), m[0], hn::MulAdd(Const(kNa), ea, hn::Mul(Const(kNb), eb)));
  g[1] = hn::MulAdd(Const(kNa * kA), oa, hn::Mul(Const(kNb * kB), ob));
  g[2] = hn::MulAdd(Const(kNa * kA2), ea, hn::MulAdd(Const(kNb * kB2), eb, m[5]));
}

// Where the pixels of a tile are: row i at row[i]. Columns outside [first, last) and
// rows that are nullptr are zero.
struct Pixels {
  const float* row[6];
  int first, last;
};

// Half of the points down the columns, all along the rows. All 36 values at once would
// not find room in the registers.
template <int kHalf, bool kWhole>
HWY_INLINE void DataHalf(const Pixels& x, float* HWY_RESTRICT to, int64_t stride) {
  const Tag d;
  V t[3][6];
#pragma GCC unroll 6
  for (int j = 0; j < 6; ++j) {
    V in[6], out[3];
#pragma GCC unroll 6
    for (int i = 0; i < 6; ++i) {
      const bool is = kWhole || (x.row[i] != nullptr && j >= x.first && j < x.last);
      in[i] = is ? hn::LoadU(d, x.row[i] + j * kBlock) : hn::Zero(d);
    }
    TransformData<kHalf>(in, out);
#pragma GCC unroll 3
    for (int i = 0; i < 3; ++i) t[i][j] = out[i];
  }
#pragma GCC unroll 3
  for (int i = 0; i < 3; ++i) {
    V low[3], high[3];
    TransformData<0>(t[i], low);
    TransformData<1>(t[i], high);
    float* const row = to + 6 * (3 * kHalf + i) * stride;
#pragma GCC unroll 3
    for (int j = 0; j < 3; ++j) {
      hn::StoreU(low[j], d, row + j * stride);
      hn::StoreU(high[j], d, row + (3 + j) * stride);
    }
  }
}

// Value i of the tile at to + i * stride. kWhole: all pixels exist.
template <bool kWhole>
HWY_INLINE void DataTile(const Pixels& x, float* HWY_RESTRICT to, int64_t stride) {
  DataHalf<0, kWhole>(x, to, stride);
  DataHalf<1, kWhole>(x, to, stride);
}

// Of the values i at m + i * stride the pixels of y: store(i, j, value) for each.
template <class Store>
HWY_INLINE void ResultTile(const float* HWY_RESTRICT m, int64_t stride, Store&& store) {
  const Tag d;
  V t[4][6];
#pragma GCC unroll 6
  for (int j = 0; j < 6; ++j) {
    V in[6], out[4];
#pragma GCC unroll 6
    for (int i = 0; i < 6; ++i) in[i] = hn::LoadU(d, m + (6 * i + j) * stride);
    TransformResult(in, out);
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) t[i][j] = out[i];
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    V out[4];
    TransformResult(t[i], out);
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) store(i, j, out[j]);
  }
}

// Of 4 x 4 pixels, of which `rows` x `columns` exist, value i to to + i * stride.
// Returns the sum of the pixels.
HWY_INLINE V GradientTile(const float* HWY_RESTRICT y, int64_t row, int64_t rows,
                          int64_t columns, float* HWY_RESTRICT to, int64_t stride) {
  const Tag d;
  V t[6][4], sum = hn::Zero(d);
#pragma GCC unroll 4
  for (int j = 0; j < 4; ++j) {
    V in[4], out[6];
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      in[i] = i < rows && j < columns ? hn::LoadU(d, y + i * row + j * kBlock)
                                      : hn::Zero(d);
    }
    sum = hn::Add(sum, hn::Add(hn::Add(in[0], in[1]), hn::Add(in[2], in[3])));
    TransformGradient(in, out);
#pragma GCC unroll 6
    for (int i = 0; i < 6; ++i) t[i][j] = out[i];
  }
#pragma GCC unroll 6
  for (int i = 0; i < 6; ++i) {
    V out[6];
    TransformGradient(t[i], out);
#pragma GCC unroll 6
    for (int j = 0; j < 6; ++j) hn::StoreU(out[j], d, to + (6 * i + j) * stride);
  }
  return sum;
}

// Of the values i at m + i * stride the gradients of the 3 x 3 taps, side by side.
HWY_INLINE void TapsTile(const float* HWY_RESTRICT m, int64_t stride,
                         float* HWY_RESTRICT to) {
  const Tag d;
  V t[3][6];
#pragma GCC unroll 6
  for (int j = 0; j < 6; ++j) {
    V in[6], out[3];
#pragma GCC unroll 6
    for (int i = 0; i < 6; ++i) in[i] = hn::LoadU(d, m + (6 * i + j) * stride);
    TransformTaps(in, out);
#pragma GCC unroll 3
    for (int i = 0; i < 3; ++i) t[i][j] = out[i];
  }
#pragma GCC unroll 3
  for (int i = 0; i < 3; ++i) {
    V out[3];
    TransformTaps(t[i], out);
#pragma GCC unroll 3
    for (int j = 0; j < 3; ++j) hn::StoreU(out[j], d, to + (3 * i + j) * kBlock);
  }
}

// The 3 x 3 taps, tap i at g + i * step (step < 0: rotated); value i at to + i *
// stride.
HWY_INLINE void FilterTile(const float* HWY_RESTRICT g, int64_t step,
                           float* HWY_RESTRICT to, int64_t stride) {
  const Tag d;
  V t[6][3];
#pragma GCC unroll 3
  for (int j = 0; j < 3; ++j) {
    V in[3], out[6];
#pragma GCC unroll 3
    for (int i = 0; i < 3; ++i) in[i] = hn::LoadU(d, g + (3 * i + j) * step);
    TransformFilter(in, out);
#pragma GCC unroll 6
    for (int i = 0; i < 6; ++i) t[i][j] = out[i];
  }
#pragma GCC unroll 6
  for (int i = 0; i < 6; ++i) {
    V out[6];
    TransformFilter(t[i], out);
#pragma GCC unroll 6
    for (int j = 0; j < 6; ++j) hn::StoreU(out[j], d, to + (6 * i + j) * stride);
  }
}

}  // namespace winograd
}  // namespace HWY_NAMESPACE
}  // namespace plait::cpu::kernel
HWY_AFTER_NAMESPACE();

#endif  // PLAIT_CPU_WINOGRAD_TRANSFORM_H_
