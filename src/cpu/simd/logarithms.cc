// Vector words of logarithms and of the inverse hyperbolic functions.

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/simd/logarithms.cc"
#include "cpu/simd/targets.h"
#include "hwy/foreach_target.h"
//
#include "cpu/simd/words.h"

HWY_BEFORE_NAMESPACE();
namespace plait::cpu::HWY_NAMESPACE {

#if PLAIT_HAVE_VECTORS
namespace {

PLAIT_HEAVY1(LogWord, Log(d, x));
PLAIT_HEAVY1(Log1pWord, Log1p(d, x));

// log(x) times a constant, plus e times another, each in two parts.
template <class D, class V>
HWY_INLINE V LogOfBase(D d, V x, double scale, double scale_low, double of2,
                       double of2_low) {
  V e;
  const V f = hn::Sub(LogParts(d, x, e), Const(d, 1));
  const V half = hn::Mul(Const(d, 0.5), hn::Mul(f, f));
  const V s = hn::Div(f, hn::Add(f, Const(d, 2))), z = hn::Mul(s, s);
  const V r = hn::Mul(z, Polynomial(d, z, C<D>::kLog));
  const V high = hn::Sub(f, half);
  const V low = hn::MulAdd(s, hn::Add(half, r), hn::Sub(hn::Sub(f, high), half));
  const V product = hn::Mul(high, Const(d, scale));
  V rest = hn::MulSub(high, Const(d, scale), product);
  rest = hn::MulAdd(low, Const(d, scale), rest);
  rest = hn::MulAdd(high, Const(d, scale_low), rest);
  rest = hn::MulAdd(e, Const(d, of2_low), rest);
  // e * of2 is the larger one, or zero.
  const V whole = hn::Mul(e, Const(d, of2));
  rest = hn::Add(rest, hn::MulSub(e, Const(d, of2), whole));
  const V sum = hn::Add(whole, product);
  rest = hn::Add(rest, hn::Add(hn::Sub(whole, sum), product));
  return LogSpecial(d, x, hn::Add(sum, rest));
}

PLAIT_HEAVY1(Log2Word, LogOfBase(d, x, C<D>::kLog2E, C<D>::kLog2ELow, 1, 0));
PLAIT_HEAVY1(Log10Word, LogOfBase(d, x, C<D>::kLog10E, C<D>::kLog10ELow,
                                  C<D>::kLog10Of2, C<D>::kLog10Of2Low));

// log1p(a + a^2 / (1 + sqrt(1 + a^2))) of a = |x|; of large a, log(2 a).
struct ArcsinhWord {
  static constexpr bool kHeavy = true;
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x) const {
    const V one = Const(d, 1), a = hn::Abs(x);
    const auto large = hn::Gt(a, Const(d, 0x1p28));
    const V b = hn::IfThenElse(large, one, a), z = hn::Mul(b, b);
    const V t = hn::Add(b, hn::Div(z, hn::Add(one, hn::Sqrt(hn::Add(one, z)))));
    // Of large a, log1p(a - 1) is log(a).
    const V y = Log1p(d, hn::IfThenElse(large, hn::Sub(a, one), t));
    return hn::CopySign(hn::IfThenElse(large, hn::Add(y, Const(d, C<D>::kLn2)), y), x);
  }
};

struct ArccoshWord {
  static constexpr bool kHeavy = true;
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x) const {
    const V one = Const(d, 1);
    const auto large = hn::Gt(x, Const(d, 0x1p28));
    const V t = hn::Sub(hn::IfThenElse(large, one, x), one);
    const V root = hn::Sqrt(hn::MulAdd(t, t, hn::Add(t, t)));
    V y = Log1p(d, hn::IfThenElse(large, hn::Sub(x, one), hn::Add(t, root)));
    y = hn::IfThenElse(large, hn::Add(y, Const(d, C<D>::kLn2)), y);
    return hn::IfThenElse(hn::Lt(x, one), Nan(d), y);
  }
};

struct ArctanhWord {
  static constexpr bool kHeavy = true;
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x) const {
    const V a = hn::Abs(x);
    const V t = hn::Div(hn::Add(a, a), hn::Sub(Const(d, 1), a));
    return hn::CopySign(hn::Mul(Const(d, 0.5), Log1p(d, t)), x);
  }
};

}  // namespace

void FillLogarithms(Kernels& k) {
  SetFloat<LogWord>(k, Fn::kLog);
  SetFloat<Log1pWord>(k, Fn::kLog1p);
  SetInDouble<Log2Word>(k, Fn::kLog2);
  SetInDouble<Log10Word>(k, Fn::kLog10);
  SetInDouble<ArcsinhWord>(k, Fn::kArcsinh);
  SetInDouble<ArccoshWord>(k, Fn::kArccosh);
  SetInDouble<ArctanhWord>(k, Fn::kArctanh);
}

#else

void FillLogarithms(Kernels&) {}

#endif

}  // namespace plait::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plait::cpu {
HWY_EXPORT(FillLogarithms);
void internal::FillLogarithms(Kernels& k) {
  HWY_DYNAMIC_DISPATCH(FillLogarithms)(k);
}
}  // namespace plait::cpu
#endif
