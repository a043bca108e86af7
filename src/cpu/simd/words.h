// Vector functions that several words share: exponentials, logarithms, fallbacks.
//
// Every function works on floats and doubles alike; the coefficients differ.

#if defined(PLAIT_CPU_SIMD_WORDS_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PLAIT_CPU_SIMD_WORDS_H_
#undef PLAIT_CPU_SIMD_WORDS_H_
#else
#define PLAIT_CPU_SIMD_WORDS_H_
#endif

#include <limits>

#include "cpu/simd/coefficients.h"
#include "cpu/simd/loops.h"

#if PLAIT_HAVE_VECTORS

HWY_BEFORE_NAMESPACE();
namespace plait::cpu::HWY_NAMESPACE {

template <class D>
using C = Coefficients<hn::TFromD<D>>;

template <class D>
HWY_INLINE hn::Vec<D> Const(D d, double value) {
  return hn::Set(d, static_cast<hn::TFromD<D>>(value));
}
template <class D>
HWY_INLINE hn::Vec<D> Nan(D d) {
  return hn::Set(d, std::numeric_limits<hn::TFromD<D>>::quiet_NaN());
}

// The larger, or smaller, of a bound and x. NaN stays NaN: on x86 because the second
// argument wins there, elsewhere by a comparison.
template <class V>
HWY_INLINE V AtLeast(V bound, V x) {
#if HWY_ARCH_X86
  return hn::Max(bound, x);
#else
  return hn::IfThenElse(hn::Lt(x, bound), bound, x);
#endif
}
template <class V>
HWY_INLINE V AtMost(V bound, V x) {
#if HWY_ARCH_X86
  return hn::Min(bound, x);
#else
  return hn::IfThenElse(hn::Gt(x, bound), bound, x);
#endif
}
template <class V>
HWY_INLINE V Bounded(V low, V high, V x) {
  return AtMost(high, AtLeast(low, x));
}

// c[kFirst] + c[kFirst + 1] x + c[kFirst + 2] x^2 ...
template <size_t kFirst = 0, class D, class V, typename T, size_t kN>
HWY_INLINE V Polynomial(D d, V x, const T (&c)[kN]) {
  const V first = hn::Set(d, c[kFirst]);
  if constexpr (kFirst + 1 == kN) {
    return first;
  } else {
    return hn::MulAdd(Polynomial<kFirst + 1>(d, x, c), x, first);
  }
}

// 1.5 * 2^(bits of the mantissa): what is added to it is rounded to a whole number,
// which is then in the low bits.
template <class D>
HWY_INLINE hn::Vec<D> Magic(D d) {
  return Const(d, sizeof(hn::TFromD<D>) == 4 ? 0x1.8p23 : 0x1.8p52);
}

template <typename T>
inline constexpr int kMantissa = sizeof(T) == 4 ? 23 : 52;
template <typename T>
inline constexpr int kBias = sizeof(T) == 4 ? 127 : 1023;

// 2^n for a whole n that is the exponent of a normal number.
template <class D, class V>
HWY_INLINE V Pow2(D d, V n) {
  using T = hn::TFromD<D>;
  const hn::RebindToUnsigned<D> du;
  const V biased = hn::Add(n, hn::Add(Magic(d), Const(d, kBias<T>)));
  return hn::BitCast(d, hn::ShiftLeft<kMantissa<T>>(hn::BitCast(du, biased)));
}

// x * 2^n, in two steps, so that both factors are normal numbers.
template <class D, class V>
HWY_INLINE V Scale(D d, V x, V n) {
#if HWY_TARGET == HWY_AVX3
  (void)d;
  if constexpr (sizeof(hn::TFromD<D>) == 4) {
    return V{_mm512_scalef_ps(x.raw, n.raw)};
  } else {
    return V{_mm512_scalef_pd(x.raw, n.raw)};
  }
#else
  const V half = hn::Floor(hn::Mul(n, Const(d, 0.5)));
  return hn::Mul(hn::Mul(x, Pow2(d, half)), Pow2(d, hn::Sub(n, half)));
#endif
}

// e^x = 2^n e^r, |r| <= ln(2) / 2. NaN stays NaN; other x are moved into range.
template <class D, class V>
HWY_INLINE V ReduceExp(D d, V x, V& n) {
  x = Bounded(Const(d, C<D>::kExpLow), Const(d, C<D>::kExpHigh), x);
  n = hn::Sub(hn::MulAdd(x, Const(d, C<D>::kLog2E), Magic(d)), Magic(d));
  return hn::NegMulAdd(n, Const(d, C<D>::kLn2), x);  // exact, but for n's low bits
}

template <class D, class V>
HWY_INLINE V Exp(D d, V x) {
  V n;
  V r = ReduceExp(d, x, n);
  r = hn::NegMulAdd(n, Const(d, C<D>::kLn2Low), r);
  const V p = hn::MulAdd(hn::Mul(r, r), Polynomial(d, r, C<D>::kExp), r);
  return Scale(d, hn::Add(p, Const(d, 1)), n);
}

// e^x - 1 = 2^n (r + tail) + (2^n - 1), with what r loses by rounding in the tail.
template <class D, class V>
HWY_INLINE V Expm1(D d, V x) {
  const V bounded = Bounded(Const(d, -60), Const(d, C<D>::kExpm1High), x);
  V n;
  const V a = ReduceExp(d, bounded, n), low = Const(d, C<D>::kLn2Low);
  const V r = hn::NegMulAdd(n, low, a);
  const V lost = hn::NegMulAdd(n, low, hn::Sub(a, r));
  const V tail = hn::MulAdd(hn::Mul(r, r), Polynomial(d, r, C<D>::kExp), lost);
  // Half of it, which does not overflow before the result does.
  const V half = Pow2(d, hn::Sub(n, Const(d, 1)));
  const V y = hn::MulAdd(half, tail, hn::MulAdd(half, r, hn::Sub(half, Const(d, 0.5))));
  return hn::CopySign(hn::Add(y, y), x);
}

// x = 2^e m with m in [sqrt(1/2), sqrt(2)), for x > 0; returns m.
template <class D, class V>
HWY_INLINE V LogParts(D d, V x, V& e) {
  using T = hn::TFromD<D>;
  const hn::RebindToUnsigned<D> du;
  using U = hn::TFromD<decltype(du)>;
  constexpr int kBits = kMantissa<T>;
  const auto small = hn::Lt(x, hn::Set(d, std::numeric_limits<T>::min()));
  x = hn::IfThenElse(small, hn::Mul(x, Const(d, 0x1p60)), x);
  constexpr U kRootHalf =
      sizeof(T) == 4 ? static_cast<U>(0x3f3504f3) : static_cast<U>(0x3fe6a09e667f3bcd);
  constexpr U kOne = static_cast<U>(kBias<T>) << kBits;
  const auto offset =
      hn::Add(hn::BitCast(du, x), hn::Set(du, static_cast<U>(kOne - kRootHalf)));
  const auto biased = hn::ShiftRight<kBits>(offset);
  const V big = Const(d, sizeof(T) == 4 ? 0x1p23 : 0x1p52);
  const V bias = hn::IfThenElse(small, Const(d, kBias<T> + 60), Const(d, kBias<T>));
  e = hn::Sub(hn::BitCast(d, hn::Or(biased, hn::BitCast(du, big))), hn::Add(big, bias));
  const auto mantissa = hn::And(offset, hn::Set(du, (U{1} << kBits) - 1));
  return hn::BitCast(d, hn::Add(mantissa, hn::Set(du, kRootHalf)));
}

// e ln(2) + log(1 + f), for 1 + f in [sqrt(1/2), sqrt(2)).
template <class D, class V>
HWY_INLINE V LogOfParts(D d, V e, V f) {
  const V ln2 = Const(d, C<D>::kLn2), ln2_low = Const(d, C<D>::kLn2Low);
  const V ff = hn::Mul(f, f);
  if constexpr (sizeof(hn::TFromD<D>) == 4) {
    V y = hn::Mul(hn::Mul(f, ff), Polynomial(d, f, C<D>::kLog));
    y = hn::MulAdd(e, ln2_low, y);
    y = hn::NegMulAdd(Const(d, 0.5), ff, y);
    return hn::MulAdd(e, ln2, hn::Add(f, y));
  } else {
    // f - f^2 / 2 + s (f^2 / 2 + R): the large terms are exact or nearly so.
    const V s = hn::Div(f, hn::Add(f, Const(d, 2))), z = hn::Mul(s, s);
    const V half = hn::Mul(Const(d, 0.5), ff);
    const V r = hn::Mul(z, Polynomial(d, z, C<D>::kLog));
    V y = hn::MulAdd(s, hn::Add(half, r), hn::Mul(e, ln2_low));
    y = hn::Sub(hn::Sub(half, y), f);
    return hn::MulSub(e, ln2, y);
  }
}

// What log gives outside the positive numbers, else y: x itself if infinite or NaN.
template <class D, class V>
HWY_INLINE V LogSpecial(D d, V x, V y) {
  y = hn::IfThenElse(hn::Lt(x, hn::Inf(d)), y, x);
  y = hn::IfThenElse(hn::Eq(x, hn::Zero(d)), hn::Neg(hn::Inf(d)), y);
  return hn::IfThenElse(hn::Lt(x, hn::Zero(d)), Nan(d), y);
}

template <class D, class V>
HWY_INLINE V Log(D d, V x) {
  V e;
  const V m = LogParts(d, x, e);
  return LogSpecial(d, x, LogOfParts(d, e, hn::Sub(m, Const(d, 1))));
}

// log(1 + x) for x > -1, without special cases but NaN.
template <class D, class V>
HWY_INLINE V Log1pInside(D d, V x) {
  const V one = Const(d, 1), u = hn::Add(x, one);
  V e;
  const V m = LogParts(d, u, e);
  // 1 + x = 2^e (1 + f) gives f without the rounding of u; of large x, u loses nothing.
  const V scale = Pow2(d, hn::Neg(e));
  const V exact = hn::MulAdd(x, scale, hn::Sub(scale, one));
  const V f = hn::IfThenElse(hn::Gt(x, Const(d, 0x1p60)), hn::Sub(m, one), exact);
  return LogOfParts(d, e, f);
}

template <class D, class V>
HWY_INLINE V Log1p(D d, V x) {
  const V y = hn::CopySign(Log1pInside(d, x), x);
  return LogSpecial(d, hn::Add(x, Const(d, 1)), y);
}

// Calls f(lane of x [, lane of y]) for the lanes of the mask, which are few.
template <class D, class V, class M, class F>
HWY_NOINLINE V PerLane(D d, M mask, V x, V result, F f) {
  using T = hn::TFromD<D>;
  HWY_ALIGN T arg[hn::MaxLanes(d)], out[hn::MaxLanes(d)], chosen[hn::MaxLanes(d)];
  hn::Store(x, d, arg);
  hn::Store(result, d, out);
  hn::Store(OneIf(d, mask), d, chosen);
  for (size_t i = 0; i < hn::Lanes(d); ++i) {
    if (chosen[i] != 0) out[i] = static_cast<T>(f(static_cast<double>(arg[i])));
  }
  return hn::Load(d, out);
}

}  // namespace plait::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // PLAIT_HAVE_VECTORS
#endif  // PLAIT_CPU_SIMD_WORDS_H_
