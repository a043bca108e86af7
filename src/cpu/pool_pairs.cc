// Pooling over windows of 2 x 2 at stride 2: masked vectors, so that short rows are
// fast.

#include "cpu/pool_pairs.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/pool_pairs.cc"
#include "cpu/simd/targets.h"
#include "hwy/foreach_target.h"
//
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace plait::cpu::pairs {
namespace HWY_NAMESPACE {

// Masked loads and stores must not touch the lanes that are masked off.
#if HWY_TARGET <= HWY_AVX2
namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;
using M = hn::Mask<D>;
constexpr int64_t kLanes = HWY_LANES(float);

HWY_INLINE M FirstN(int64_t n) {
  return hn::FirstN(D(), static_cast<size_t>(std::max<int64_t>(n, 0)));
}

struct MaxOf {
  HWY_INLINE V operator()(V m, V v) const {
    return hn::IfThenElse(hn::Or(hn::Gt(v, m), hn::IsNaN(v)), v, m);
  }
};
struct SumOf {
  float factor;
  HWY_INLINE V operator()(V m, V v) const { return hn::Add(m, v); }
};
HWY_INLINE V Scaled(V v, MaxOf) {
  return v;
}
HWY_INLINE V Scaled(V v, SumOf s) {
  return hn::Mul(v, hn::Set(D(), s.factor));
}

template <class Op>
void Reduce(const PoolPlanes& p, const Op& op, int64_t first, int64_t last,
            const float* x, float* y) {
  const D d;
  for (int64_t plane = first; plane < last; ++plane) {
    for (int64_t r = 0; r < p.out_h; ++r) {
      const float *top = x + (plane * p.h + 2 * r) * p.w, *low = top + p.w;
      float* out = y + (plane * p.out_h + r) * p.out_w;
      for (int64_t i = 0; i < p.out_w; i += kLanes) {
        const int64_t n = std::min(kLanes, p.out_w - i);
        const M a = FirstN(2 * n), b = FirstN(2 * n - kLanes);
        const float *t = top + 2 * i, *l = low + 2 * i;
        const V t0 = hn::MaskedLoad(a, d, t), l0 = hn::MaskedLoad(a, d, l);
        const V t1 = hn::MaskedLoad(b, d, t + kLanes);
        const V l1 = hn::MaskedLoad(b, d, l + kLanes);
        const V upper = op(hn::ConcatEven(d, t1, t0), hn::ConcatOdd(d, t1, t0));
        const V lower = op(hn::ConcatEven(d, l1, l0), hn::ConcatOdd(d, l1, l0));
        hn::BlendedStore(Scaled(op(upper, lower), op), FirstN(n), d, out + i);
      }
    }
  }
}

// Calls f(v, mask, at) for vectors of the columns of one row that windows cover: v
// holds each window's element of dy twice, side by side.
template <typename F>
HWY_INLINE void ForEachPairOfColumns(const PoolPlanes& p, const float* dy, F&& f) {
  const D d;
  HWY_ALIGN int32_t twice[kLanes];
  for (int64_t i = 0; i < kLanes; ++i) twice[i] = static_cast<int32_t>(i / 2);
  const auto indices = hn::SetTableIndices(d, twice);
  for (int64_t at = 0; at < 2 * p.out_w; at += kLanes) {
    const int64_t n = std::min(kLanes, 2 * p.out_w - at);
    const V v = hn::MaskedLoad(FirstN(n / 2), d, dy + at / 2);
    f(hn::TableLookupLanes(v, indices), FirstN(n), at);
  }
}

// Elements that no window covers: those behind column 2 * out_w and row 2 * out_h.
void ClearRest(const PoolPlanes& p, float* dx) {
  for (int64_t r = 0; 2 * p.out_w < p.w && r < 2 * p.out_h; ++r) {
    std::fill(dx + r * p.w + 2 * p.out_w, dx + (r + 1) * p.w, 0.0f);
  }
  std::fill(dx + 2 * p.out_h * p.w, dx + p.h * p.w, 0.0f);
}

// The gradient goes to the first largest of the four, in the order upper left, upper
// right, lower left, lower right; a NaN beats all but an earlier NaN.
void SpreadMax(const PoolPlanes& p, int64_t first, int64_t last, const float* dy,
               const float* x, float* dx) {
  const D d;
  const hn::RebindToSigned<D> di;
  const auto one = hn::Set(di, 1);
  const M odd = hn::RebindMask(d, hn::Eq(hn::And(hn::Iota(di, 0), one), one));
  const auto beats = [](V v, V m) HWY_ATTR {
    return hn::AndNot(hn::IsNaN(m), hn::Or(hn::Gt(v, m), hn::IsNaN(v)));
  };
  for (int64_t plane = first; plane < last; ++plane) {
    float* to = dx + plane * p.h * p.w;
    for (int64_t r = 0; r < p.out_h; ++r) {
      const float* top = x + (plane * p.h + 2 * r) * p.w;
      float* dtop = to + 2 * r * p.w;
      const float* row = dy + (plane * p.out_h + r) * p.out_w;
      ForEachPairOfColumns(p, row, [&](V v, M mask, int64_t at) HWY_ATTR {
        const V t = hn::MaskedLoad(mask, d, top + at);
        const V l = hn::MaskedLoad(mask, d, top + p.w + at);
        const V b = hn::DupOdd(t), c = hn::DupEven(l), e = hn::DupOdd(l);
        V m = hn::DupEven(t);
        const M second = beats(b, m);
        m = hn::IfThenElse(second, b, m);
        const M third = beats(c, m);
        m = hn::IfThenElse(third, c, m);
        const M fourth = beats(e, m);
        const M low = hn::Or(third, fourth);
        // Whether the winner of the row is in the column of the lane.
        const M upper = hn::AndNot(low, hn::Not(hn::Xor(second, odd)));
        const M lower = hn::And(low, hn::Not(hn::Xor(fourth, odd)));
        hn::BlendedStore(hn::IfThenElseZero(upper, v), mask, d, dtop + at);
        hn::BlendedStore(hn::IfThenElseZero(lower, v), mask, d, dtop + p.w + at);
      });
    }
    ClearRest(p, to);
  }
}

void SpreadSum(const PoolPlanes& p, float factor, int64_t first, int64_t last,
               const float* dy, float* dx) {
  const D d;
  for (int64_t plane = first; plane < last; ++plane) {
    float* to = dx + plane * p.h * p.w;
    for (int64_t r = 0; r < p.out_h; ++r) {
      float* dtop = to + 2 * r * p.w;
      const float* row = dy + (plane * p.out_h + r) * p.out_w;
      ForEachPairOfColumns(p, row, [&](V v, M mask, int64_t at) HWY_ATTR {
        const V share = hn::Mul(v, hn::Set(d, factor));
        hn::BlendedStore(share, mask, d, dtop + at);
        hn::BlendedStore(share, mask, d, dtop + p.w + at);
      });
    }
    ClearRest(p, to);
  }
}

bool Available() {
  return true;
}
void Max(const PoolPlanes& p, int64_t first, int64_t last, const float* x, float* y) {
  Reduce(p, MaxOf(), first, last, x, y);
}
void Sum(const PoolPlanes& p, float factor, int64_t first, int64_t last, const float* x,
         float* y) {
  Reduce(p, SumOf{factor}, first, last, x, y);
}

#else

bool Available() {
  return false;
}
void Max(const PoolPlanes&, int64_t, int64_t, const float*, float*) {}
void Sum(const PoolPlanes&, float, int64_t, int64_t, const float*, float*) {}
void SpreadMax(const PoolPlanes&, int64_t, int64_t, const float*, const float*,
               float*) {}
void SpreadSum(const PoolPlanes&, float, int64_t, int64_t, const float*, float*) {}

#endif

}  // namespace HWY_NAMESPACE
}  // namespace plait::cpu::pairs
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plait::cpu::pairs {

HWY_EXPORT(Available);
HWY_EXPORT(Max);
HWY_EXPORT(Sum);
HWY_EXPORT(SpreadMax);
HWY_EXPORT(SpreadSum);

bool Fits(const PoolPlanes& p) {
  return p.kernel_h == 2 && p.kernel_w == 2 && p.stride_h == 2 && p.stride_w == 2 &&
         p.pad_h == 0 && p.pad_w == 0 && 2 * p.out_h <= p.h && 2 * p.out_w <= p.w &&
         HWY_DYNAMIC_DISPATCH(Available)();
}

void MaxPool(const PoolPlanes& p, int64_t first, int64_t last, const float* x,
             float* y) {
  HWY_DYNAMIC_DISPATCH(Max)(p, first, last, x, y);
}
void SumPool(const PoolPlanes& p, float factor, int64_t first, int64_t last,
             const float* x, float* y) {
  HWY_DYNAMIC_DISPATCH(Sum)(p, factor, first, last, x, y);
}
void MaxPoolBackward(const PoolPlanes& p, int64_t first, int64_t last, const float* dy,
                     const float* x, float* dx) {
  HWY_DYNAMIC_DISPATCH(SpreadMax)(p, first, last, dy, x, dx);
}
void SumPoolBackward(const PoolPlanes& p, float factor, int64_t first, int64_t last,
                     const float* dy, float* dx) {
  HWY_DYNAMIC_DISPATCH(SpreadSum)(p, factor, first, last, dy, dx);
}

}  // namespace plait::cpu::pairs
#endif  // HWY_ONCE
