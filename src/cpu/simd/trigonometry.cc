// Vector words of the trigonometric functions and their inverses.

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/simd/trigonometry.cc"
#include <cmath>

#include "cpu/simd/targets.h"
#include "hwy/foreach_target.h"
//
#include "cpu/simd/words.h"

HWY_BEFORE_NAMESPACE();
namespace plait::cpu::HWY_NAMESPACE {

#if PLAIT_HAVE_VECTORS
namespace {

// Up to here x - n pi/2 is exact enough in three parts of pi/2.
template <class D>
HWY_INLINE hn::Vec<D> Limit(D d) {
  return Const(d, sizeof(hn::TFromD<D>) == 4 ? 0x1p17 : 0x1p30);
}

// x = n pi/2 + r + low, |r| <= pi/4; the low bits of `quadrant` are those of n.
template <class D, class V>
HWY_INLINE V Reduce(D d, V x, V& low, hn::Vec<hn::RebindToUnsigned<D>>& quadrant) {
  const hn::RebindToUnsigned<D> du;
  const V shifted = hn::MulAdd(x, Const(d, C<D>::kTwoOverPi), Magic(d));
  quadrant = hn::BitCast(du, shifted);
  const V n = hn::Sub(shifted, Magic(d));
  const V a = hn::NegMulAdd(n, Const(d, C<D>::kHalfPi1), x);  // exact
  if constexpr (sizeof(hn::TFromD<D>) == 4) {
    low = hn::Zero(d);
    return hn::NegMulAdd(n, Const(d, C<D>::kHalfPi3),
                         hn::NegMulAdd(n, Const(d, C<D>::kHalfPi2), a));
  } else {
    const V b = hn::Mul(n, Const(d, C<D>::kHalfPi2));
    const V b_low = hn::MulSub(n, Const(d, C<D>::kHalfPi2), b);
    const V r = hn::Sub(a, b), moved = hn::Sub(r, a);
    const V lost = hn::Sub(hn::Sub(a, hn::Sub(r, moved)), hn::Add(b, moved));
    low = hn::NegMulAdd(n, Const(d, C<D>::kHalfPi3), hn::Sub(lost, b_low));
    return r;
  }
}

// sin(r + low) and cos(r + low) for |r| <= pi/4.
template <class D, class V>
HWY_INLINE V SinInside(D d, V r, V low) {
  const V z = hn::Mul(r, r);
  const V slope = hn::NegMulAdd(Const(d, 0.5), z, Const(d, 1));
  const V tail = hn::Mul(hn::Mul(r, z), Polynomial(d, z, C<D>::kSin));
  return hn::Add(r, hn::MulAdd(low, slope, tail));
}
template <class D, class V>
HWY_INLINE V CosInside(D d, V r, V low) {
  const V one = Const(d, 1), z = hn::Mul(r, r), half = hn::Mul(Const(d, 0.5), z);
  const V top = hn::Sub(one, half);
  V rest = hn::Sub(hn::Sub(one, top), half);
  rest = hn::MulAdd(hn::Mul(z, z), Polynomial(d, z, C<D>::kCos), rest);
  return hn::Add(top, hn::NegMulAdd(r, low, rest));
}

// sin(x + shift pi/2).
template <int kShift, class D, class V>
HWY_INLINE V SinShifted(D d, V x) {
  using T = hn::TFromD<D>;
  const hn::RebindToUnsigned<D> du;
  V low;
  hn::Vec<decltype(du)> quadrant;
  const V r = Reduce(d, x, low, quadrant);
  quadrant = hn::Add(quadrant, hn::Set(du, kShift));
  const auto even = hn::Eq(hn::And(quadrant, hn::Set(du, 1)), hn::Zero(du));
  const V y = hn::IfThenElse(hn::RebindMask(d, even), SinInside(d, r, low),
                             CosInside(d, r, low));
  const auto two = hn::And(quadrant, hn::Set(du, 2));
  return hn::Xor(y, hn::BitCast(d, hn::ShiftLeft<sizeof(T) * 8 - 2>(two)));
}

template <class D, class V>
HWY_INLINE auto TooLarge(D d, V x) {
  const V a = hn::Abs(x);
  return hn::And(hn::Gt(a, Limit(d)), hn::Lt(a, hn::Inf(d)));
}

struct SinWord {
  static constexpr bool kHeavy = true;
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x) const {
    V y = SinShifted<0>(d, x);
    y = hn::IfThenElse(hn::Eq(x, hn::Zero(d)), x, y);  // -0
    const auto large = TooLarge(d, x);
    if (HWY_LIKELY(hn::AllFalse(d, large))) return y;
    return PerLane(d, large, x, y, [](double v) { return std::sin(v); });
  }
};

struct CosWord {
  static constexpr bool kHeavy = true;
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x) const {
    const V y = SinShifted<1>(d, x);
    const auto large = TooLarge(d, x);
    if (HWY_LIKELY(hn::AllFalse(d, large))) return y;
    return PerLane(d, large, x, y, [](double v) { return std::cos(v); });
  }
};

struct TanWord {
  static constexpr bool kHeavy = true;
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x) const {
    const hn::RebindToUnsigned<D> du;
    V low;
    hn::Vec<decltype(du)> quadrant;
    const V r = Reduce(d, x, low, quadrant);
    const V sin = SinInside(d, r, low), cos = CosInside(d, r, low);
    const auto odd =
        hn::RebindMask(d, hn::Eq(hn::And(quadrant, hn::Set(du, 1)), hn::Set(du, 1)));
    V y =
        hn::Div(hn::IfThenElse(odd, hn::Neg(cos), sin), hn::IfThenElse(odd, sin, cos));
    y = hn::IfThenElse(hn::Eq(x, hn::Zero(d)), x, y);
    const auto large = TooLarge(d, x);
    if (HWY_LIKELY(hn::AllFalse(d, large))) return y;
    return PerLane(d, large, x, y, [](double v) { return std::tan(v); });
  }
};

// With s = |x|, or above 1/2 s = sqrt((1 - |x|) / 2): arcsin(s) = s + tail.
template <class D, class V, class M>
HWY_INLINE V ArcsinParts(D d, V a, M large, V& z, V& tail) {
  z = hn::IfThenElse(large, hn::Mul(hn::Sub(Const(d, 1), a), Const(d, 0.5)),
                     hn::Mul(a, a));
  const V s = hn::IfThenElse(large, hn::Sqrt(z), a);
  tail = hn::Mul(hn::Mul(s, z), Polynomial(d, z, C<D>::kArcsin));
  return s;
}

struct ArcsinWord {
  static constexpr bool kHeavy = true;
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x) const {
    const V a = hn::Abs(x);
    const auto large = hn::Gt(a, Const(d, 0.5));
    V z, tail;
    const V s = ArcsinParts(d, a, large, z, tail);
    // pi/2 - 2 (s + tail), with what the square root lost.
    const V two = hn::Add(s, s);
    const V lost = hn::Div(hn::NegMulAdd(s, s, z), hn::Add(two, Const(d, 1e-300)));
    const V more =
        hn::MulSub(Const(d, 2), hn::Add(tail, lost), Const(d, C<D>::kHalfPi2));
    const V quarter = Const(d, 0.5 * C<D>::kHalfPi1);
    const V above = hn::Sub(quarter, hn::Sub(more, hn::Sub(quarter, two)));
    return hn::CopySign(hn::IfThenElse(large, above, hn::Add(s, tail)), x);
  }
};

struct ArccosWord {
  static constexpr bool kHeavy = true;
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x) const {
    const V a = hn::Abs(x), pi = Const(d, 2 * C<D>::kHalfPi1);
    const auto large = hn::Gt(a, Const(d, 0.5));
    V z, tail;
    const V s = ArcsinParts(d, a, large, z, tail);
    const V sum = hn::Add(s, tail), two = hn::Add(sum, sum);
    const V left = hn::Add(hn::Sub(pi, two), Const(d, 2 * C<D>::kHalfPi2));
    const V inner =
        hn::Sub(Const(d, C<D>::kHalfPi1),
                hn::Add(x, hn::Sub(hn::CopySign(tail, x), Const(d, C<D>::kHalfPi2))));
    const V outer = hn::IfThenElse(hn::Lt(x, hn::Zero(d)), left, two);
    return hn::IfThenElse(large, outer, inner);
  }
};

// The angle of (x, y) in [0, pi/4], for 0 <= y <= x.
template <class D, class V>
HWY_INLINE V AngleInside(D d, V x, V y) {
  // Beyond tan(pi/8), the angle to the diagonal.
  const auto wide = hn::Gt(y, hn::Mul(x, Const(d, 0x1.a827999fcef32p-2)));
  const V top = hn::IfThenElse(wide, hn::Sub(y, x), y);
  const V t = hn::Div(top, hn::IfThenElse(wide, hn::Add(y, x), x));
  const V z = hn::Mul(t, t);
  const V tail = hn::Mul(hn::Mul(t, z), Polynomial(d, z, C<D>::kArctan));
  const V low = hn::IfThenElseZero(wide, Const(d, 0.5 * C<D>::kHalfPi2));
  const V base = hn::IfThenElseZero(wide, Const(d, 0.5 * C<D>::kHalfPi1));
  return hn::Add(base, hn::Add(t, hn::Add(tail, low)));
}

// |angle| to [0, pi/2] and on to [0, pi] by symmetry.
template <class D, class V, class M>
HWY_INLINE V Mirror(D d, M mask, V angle, double scale) {
  const V base = Const(d, scale * C<D>::kHalfPi1),
          low = Const(d, scale * C<D>::kHalfPi2);
  return hn::IfThenElse(mask, hn::Add(hn::Sub(base, angle), low), angle);
}

struct ArctanWord {
  static constexpr bool kHeavy = true;
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x) const {
    const V one = Const(d, 1), a = hn::Abs(x);
    const auto steep = hn::Gt(a, one);
    // Of infinity, the angle of (1, 0) mirrored.
    const V inverse = hn::IfThenElse(steep, hn::Div(one, a), a);
    const V angle = AngleInside(d, one, inverse);
    return hn::CopySign(Mirror(d, steep, angle, 1), x);
  }
};

struct Arctan2Word {
  static constexpr bool kHeavy = true;
  template <class D, class V>
  HWY_INLINE V operator()(D d, V y, V x) const {
    const V zero = hn::Zero(d), one = Const(d, 1);
    const V ax = hn::Abs(x), ay = hn::Abs(y);
    const auto steep = hn::Gt(ay, ax);
    V most = hn::IfThenElse(steep, ay, ax), least = hn::IfThenElse(steep, ax, ay);
    // Large ones are halved twice, so that their sum is finite; two infinities and two
    // zeros have the angles of (1, 1) and (1, 0).
    const V scale =
        hn::IfThenElse(hn::Gt(most, Const(d, 0x1p1000)), Const(d, 0.25), one);
    most = hn::Mul(most, scale);
    least = hn::Mul(least, scale);
    const auto infinite = hn::Eq(most, hn::Inf(d));
    least =
        hn::IfThenElse(infinite, hn::IfThenElseZero(hn::Eq(least, most), one), least);
    most = hn::IfThenElse(hn::Or(infinite, hn::Eq(most, zero)), one, most);
    V angle = AngleInside(d, most, least);
    angle = Mirror(d, steep, angle, 1);
    const auto left = hn::Lt(hn::CopySign(one, x), zero);
    angle = hn::CopySign(Mirror(d, left, angle, 2), y);
    return hn::IfThenElse(hn::Or(hn::IsNaN(x), hn::IsNaN(y)), Nan(d), angle);
  }
};

}  // namespace

void FillTrigonometry(Kernels& k) {
  SetFloat<SinWord>(k, Fn::kSin);
  SetFloat<CosWord>(k, Fn::kCos);
  SetInDouble<TanWord>(k, Fn::kTan);
  SetInDouble<ArcsinWord>(k, Fn::kArcsin);
  SetInDouble<ArccosWord>(k, Fn::kArccos);
  SetInDouble<ArctanWord>(k, Fn::kArctan);
  SetInDouble<Arctan2Word, 2>(k, Fn::kArctan2);
}

#else

void FillTrigonometry(Kernels&) {}

#endif

}  // namespace plait::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plait::cpu {
HWY_EXPORT(FillTrigonometry);
void internal::FillTrigonometry(Kernels& k) {
  HWY_DYNAMIC_DISPATCH(FillTrigonometry)(k);
}
}  // namespace plait::cpu
#endif
