// Vector words of two arguments that need care: power, remainder, hypot, ldexp.

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/simd/special.cc"
#include "cpu/plain_words.h"
#include "cpu/simd/targets.h"
#include "hwy/foreach_target.h"
//
#include "cpu/simd/words.h"

HWY_BEFORE_NAMESPACE();
namespace plait::cpu::HWY_NAMESPACE {

#if PLAIT_HAVE_VECTORS
namespace {

// Gives |x|^y its sign, and the values that C asks for in special cases.
template <class D, class V>
HWY_INLINE V PowerSpecial(D d, V x, V y, V result) {
  const V one = Const(d, 1), zero = hn::Zero(d), a = hn::Abs(x);
  const V half = hn::Mul(y, Const(d, 0.5));
  const auto whole = hn::Eq(hn::Floor(y), y);
  const auto odd = hn::And(whole, hn::Not(hn::Eq(hn::Floor(half), half)));
  const V sign = hn::IfThenElseZero(odd, hn::And(x, hn::SignBit(d)));
  result = hn::Or(result, sign);
  const auto outside =
      hn::And(hn::And(hn::Lt(x, zero), hn::Lt(a, hn::Inf(d))), hn::Not(whole));
  result = hn::IfThenElse(outside, Nan(d), result);
  const auto endless = hn::And(hn::Eq(a, one), hn::Eq(hn::Abs(y), hn::Inf(d)));
  const auto is_one = hn::Or(hn::Or(hn::Eq(y, zero), hn::Eq(x, one)), endless);
  return hn::IfThenElse(is_one, one, result);
}

// Powers of floats: 2^(y log2(x)) in double has digits to spare.
struct FloatPowerWord {
  static constexpr bool kHeavy = true;
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x, V y) const {
    const V a = hn::Abs(x);
    V e;
    const V f = hn::Sub(LogParts(d, a, e), Const(d, 1));
    const V s = hn::Div(f, hn::Add(f, Const(d, 2))), z = hn::Mul(s, s);
    const V p = hn::MulAdd(z, Polynomial(d, z, C<D>::kShortLog), Const(d, 2));
    V log = hn::MulAdd(hn::Mul(s, p), Const(d, C<D>::kLog2E), e);
    log = LogSpecial(d, a, log);
    V t = hn::Mul(y, log);
    t = Bounded(Const(d, -300), Const(d, 300), t);
    const V n = hn::Sub(hn::Add(t, Magic(d)), Magic(d));
    const V power = Polynomial(d, hn::Sub(t, n), C<D>::kShortExp2);
    return PowerSpecial(d, x, y, hn::Mul(power, Pow2(d, n)));
  }
};

// The same with logarithm and product in two doubles.
struct PowerWord {
  static constexpr bool kHeavy = true;

  // log2(a) = high + low to about 2^-65, for positive finite a.
  template <class D, class V>
  static HWY_INLINE V Log2(D d, V a, V& low) {
    const V two = Const(d, 2);
    V e;
    const V f = hn::Sub(LogParts(d, a, e), Const(d, 1));
    const V q = hn::Add(f, two), q_low = hn::Sub(f, hn::Sub(q, two));
    const V s = hn::Div(f, q);
    const V s_low = hn::Div(hn::NegMulAdd(s, q_low, hn::NegMulAdd(s, q, f)), q);
    // w = s^2 / 3 + s^4 (...); log = 2 s (1 + w).
    const V z = hn::Mul(s, s);
    const V z_low = hn::MulAdd(hn::Add(s, s), s_low, hn::MulSub(s, s, z));
    const V third = Const(d, C<D>::kThird);
    V w = hn::Mul(z, third);
    V w_low = hn::MulSub(z, third, w);
    w_low = hn::MulAdd(z, Const(d, C<D>::kThirdLow), hn::MulAdd(z_low, third, w_low));
    w_low = hn::MulAdd(hn::Mul(z, z), Polynomial(d, z, C<D>::kLogTail), w_low);
    const V w_sum = hn::Add(w, w_low);
    w_low = hn::Sub(w_low, hn::Sub(w_sum, w));
    w = w_sum;
    const V u = hn::Mul(s, w);
    V u_low = hn::MulSub(s, w, u);
    u_low = hn::MulAdd(s, w_low, hn::MulAdd(s_low, w, u_low));
    V log = hn::Add(s, u);
    V log_low = hn::Add(hn::Add(hn::Sub(s, log), u), hn::Add(u_low, s_low));
    log = hn::Add(log, log);
    log_low = hn::Add(log_low, log_low);
    const V log2e = Const(d, C<D>::kLog2E);
    const V b = hn::Mul(log, log2e);
    V b_low = hn::MulSub(log, log2e, b);
    b_low = hn::MulAdd(log_low, log2e, b_low);
    b_low = hn::MulAdd(log, Const(d, C<D>::kLog2ELow), b_low);
    const V high = hn::Add(e, b);
    low = hn::Add(hn::Add(hn::Sub(e, high), b), b_low);
    return high;
  }

  template <class D, class V>
  HWY_INLINE V operator()(D d, V x, V y) const {
    const V a = hn::Abs(x);
    V low;
    const V log = LogSpecial(d, a, Log2(d, a, low));
    const V t = hn::Mul(y, log);
    V t_low = hn::MulAdd(y, low, hn::MulSub(y, log, t));
    // Out of range, or not a number: t alone decides.
    t_low = hn::IfThenElseZero(hn::Lt(hn::Abs(t), Const(d, 1100)), t_low);
    const V inside = Bounded(Const(d, -1100), Const(d, 1100), t);
    const V n = hn::Sub(hn::Add(inside, Magic(d)), Magic(d));
    const V r = hn::Add(hn::Sub(inside, n), t_low);
    const V p = hn::MulAdd(r, Polynomial(d, r, C<D>::kExp2), Const(d, 1));
    return PowerSpecial(d, x, y, Scale(d, p, n));
  }
};

struct HypotWord {
  static constexpr bool kHeavy = true;
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x, V y) const {
    const V one = Const(d, 1), ax = hn::Abs(x), ay = hn::Abs(y);
    const V a = hn::Max(ax, ay), b = hn::Min(ax, ay);
    // Squares stay in range.
    const auto large = hn::Gt(a, Const(d, 0x1p510)),
               small = hn::Lt(a, Const(d, 0x1p-450));
    const V down = Const(d, 0x1p-600), up = Const(d, 0x1p600);
    const V scale = hn::IfThenElse(large, down, hn::IfThenElse(small, up, one));
    const V back = hn::IfThenElse(large, up, hn::IfThenElse(small, down, one));
    const V sa = hn::Mul(a, scale), sb = hn::Mul(b, scale);
    V h = hn::Mul(hn::Sqrt(hn::MulAdd(sa, sa, hn::Mul(sb, sb))), back);
    h = hn::IfThenElse(hn::Or(hn::IsNaN(x), hn::IsNaN(y)), Nan(d), h);
    const auto infinite = hn::Or(hn::Eq(ax, hn::Inf(d)), hn::Eq(ay, hn::Inf(d)));
    return hn::IfThenElse(infinite, hn::Inf(d), h);
  }
};

// Lanes that the vectors cannot do, one by one.
template <class D, class V, class M>
HWY_NOINLINE V ModPerLane(D d, M mask, V x, V y, V result) {
  using T = hn::TFromD<D>;
  HWY_ALIGN T a[hn::MaxLanes(d)], b[hn::MaxLanes(d)], out[hn::MaxLanes(d)],
      chosen[hn::MaxLanes(d)];
  hn::Store(x, d, a);
  hn::Store(y, d, b);
  hn::Store(result, d, out);
  hn::Store(OneIf(d, mask), d, chosen);
  for (size_t i = 0; i < hn::Lanes(d); ++i) {
    if (chosen[i] != 0) out[i] = plain::Mod(a[i], b[i]);
  }
  return hn::Load(d, out);
}

struct ModWord {
  static constexpr bool kHeavy = true;
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x, V y) const {
    using T = hn::TFromD<D>;
    const V zero = hn::Zero(d);
    const V q = hn::Trunc(hn::Div(x, y));
    // Exact; of the wrong sign when the quotient was rounded up to a whole number.
    V r = hn::NegMulAdd(q, y, x);
    const auto over = hn::Lt(hn::Mul(r, hn::CopySign(Const(d, 1), x)), zero);
    r = hn::Add(r, hn::IfThenElseZero(over, hn::CopySign(y, x)));
    const auto sign_differs = hn::Xor(hn::Lt(r, zero), hn::Lt(y, zero));
    const auto is_zero = hn::Eq(r, zero);
    r = hn::IfThenElse(is_zero, hn::CopySign(zero, y),
                       hn::Add(r, hn::IfThenElseZero(sign_differs, y)));
    const auto by_zero = hn::Eq(y, zero);
    r = hn::IfThenZeroElse(by_zero, r);
    const V limit = Const(d, sizeof(T) == 4 ? 0x1p23 : 0x1p52);
    const auto good = hn::Or(
        by_zero, hn::And(hn::Lt(hn::Abs(q), limit), hn::Lt(hn::Abs(y), hn::Inf(d))));
    if (HWY_LIKELY(hn::AllTrue(d, good))) return r;
    return ModPerLane(d, hn::Not(good), x, y, r);
  }
};

template <class D, class V>
HWY_INLINE V Exp2(D d, V x) {
  x = Bounded(Const(d, -1100), Const(d, 1100), x);
  const V n = hn::Sub(hn::Add(x, Magic(d)), Magic(d)), r = hn::Sub(x, n);
  return Scale(d, hn::MulAdd(r, Polynomial(d, r, C<D>::kExp2), Const(d, 1)), n);
}

// In three steps: 2^y may be out of range though the product is not.
struct LdexpWord {
  static constexpr bool kHeavy = true;
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x, V y) const {
    y = Bounded(Const(d, -3000), Const(d, 3000), y);
    const V part = hn::Trunc(hn::Mul(y, Const(d, 1.0 / 3)));
    const V a = Exp2(d, part), b = Exp2(d, hn::Sub(hn::Sub(y, part), part));
    return hn::Mul(hn::Mul(hn::Mul(x, a), a), b);
  }
};

}  // namespace

void FillSpecial(Kernels& k) {
  SetInDouble<FloatPowerWord, 2>(k, Fn::kPower);
  SetStep<PowerWord, double, 2>(k, Compute::kF64, Fn::kPower);
  SetInDouble<HypotWord, 2>(k, Fn::kHypot);
  SetFloat<ModWord, 2>(k, Fn::kMod);
  SetInDouble<LdexpWord, 2>(k, Fn::kLdexp);
}

#else

void FillSpecial(Kernels&) {}

#endif

}  // namespace plait::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plait::cpu {
HWY_EXPORT(FillSpecial);
void internal::FillSpecial(Kernels& k) {
  HWY_DYNAMIC_DISPATCH(FillSpecial)(k);
}
}  // namespace plait::cpu
#endif
