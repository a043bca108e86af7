// Vector words of exponentials: exp and its kin, hyperbolic functions, activations.

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/simd/exponentials.cc"
#include "cpu/simd/targets.h"
#include "hwy/foreach_target.h"
//
#include "cpu/simd/words.h"

HWY_BEFORE_NAMESPACE();
namespace plait::cpu::HWY_NAMESPACE {

#if PLAIT_HAVE_VECTORS
namespace {

PLAIT_HEAVY1(ExpWord, Exp(d, x));
PLAIT_HEAVY1(Expm1Word, Expm1(d, x));

// Doubles: n is split off exactly, so that r has no error.
struct Exp2Word {
  static constexpr bool kHeavy = true;
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x) const {
    x = Bounded(Const(d, -1100), Const(d, 1100), x);
    const V n = hn::Sub(hn::Add(x, Magic(d)), Magic(d)), r = hn::Sub(x, n);
    const V p = hn::MulAdd(r, Polynomial(d, r, C<D>::kExp2), Const(d, 1));
    return Scale(d, p, n);
  }
};

// e^x with the rounding errors of its sums, to about 0.6 ULP.
template <class D, class V>
HWY_INLINE V ExpTight(D d, V x) {
  const V one = Const(d, 1), low = Const(d, C<D>::kLn2Low);
  V n;
  const V a = ReduceExp(d, x, n), r = hn::NegMulAdd(n, low, a);
  V tail = hn::NegMulAdd(n, low, hn::Sub(a, r));
  tail = hn::MulAdd(hn::Mul(r, r), Polynomial(d, r, C<D>::kExp), tail);
  const V sum = hn::Add(one, r), lost = hn::Add(hn::Sub(one, sum), r);
  return Scale(d, hn::Add(sum, hn::Add(tail, lost)), n);
}

// e^-|x| is in [0, 1], and both quotients keep their digits.
struct SigmoidWord {
  static constexpr bool kHeavy = true;
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x) const {
    const V one = Const(d, 1), e = ExpTight(d, hn::Neg(hn::Abs(x)));
    const auto negative = hn::Lt(x, hn::Zero(d));
    const V top = hn::IfThenElse(negative, e, one);
    const V sum = hn::Add(one, e), y = hn::Div(top, sum);
    // What the sum and the quotient lost, times 1 / (1 + e).
    const V lost = hn::Add(hn::Sub(one, sum), e);
    const V rest = hn::NegMulAdd(y, lost, hn::NegMulAdd(y, sum, top));
    const V inverse = hn::IfThenElse(negative, hn::Sub(one, y), y);
    return hn::MulAdd(rest, inverse, y);
  }
};

// With t = e^2|x| - 1: t / (t + 2), which is 1 from 20 on.
struct TanhWord {
  static constexpr bool kHeavy = true;
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x) const {
    const V a = AtMost(Const(d, 20), hn::Abs(x));
    const V t = Expm1(d, hn::Add(a, a));
    const V two = Const(d, 2), sum = hn::Add(t, two);
    const V y = hn::Div(t, sum);
    // What the sum and the quotient lost, times 1 / (t + 2) = (1 - y) / 2.
    const V added = hn::Sub(sum, t);
    const V lost = hn::Add(hn::Sub(t, hn::Sub(sum, added)), hn::Sub(two, added));
    const V rest = hn::NegMulAdd(y, lost, hn::NegMulAdd(y, sum, t));
    const V inverse = hn::NegMulAdd(Const(d, 0.5), y, Const(d, 0.5));
    // Where y is nearly 1 the inverse is too rough.
    return hn::CopySign(AtMost(Const(d, 1), hn::MulAdd(rest, inverse, y)), x);
  }
};

// Half of e^|x|; e^-|x| / 2 is a quarter of its inverse.
template <class D, class V>
HWY_INLINE V HalfExp(D d, V x) {
  V n;
  V r = ReduceExp(d, hn::Abs(x), n);
  r = hn::NegMulAdd(n, Const(d, C<D>::kLn2Low), r);
  const V p = hn::MulAdd(hn::Mul(r, r), Polynomial(d, r, C<D>::kExp), r);
  return Scale(d, hn::Add(p, Const(d, 1)), hn::Sub(n, Const(d, 1)));
}

struct SinhWord {
  static constexpr bool kHeavy = true;
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x) const {
    const V a = hn::Abs(x), z = hn::Mul(a, a), half = HalfExp(d, x);
    const V large = hn::Sub(half, hn::Div(Const(d, 0.25), half));
    const V small = hn::MulAdd(hn::Mul(a, z), Polynomial(d, z, C<D>::kSinh), a);
    return hn::CopySign(hn::IfThenElse(hn::Lt(a, Const(d, 1)), small, large), x);
  }
};

struct CoshWord {
  static constexpr bool kHeavy = true;
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x) const {
    const V half = HalfExp(d, x);
    return hn::Add(half, hn::Div(Const(d, 0.25), half));
  }
};

struct ErfWord {
  static constexpr bool kHeavy = true;
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x) const {
    const V one = Const(d, 1), a = hn::Abs(x), z = hn::Mul(x, x);
    const V small = hn::MulAdd(x, Polynomial(d, z, C<D>::kErf), x);
    V rest;  // 1 - erf(|x|)
    if constexpr (sizeof(hn::TFromD<D>) == 4) {
      const V b = AtMost(Const(d, 4), a);
      rest = Exp(d, hn::Neg(Polynomial(d, b, C<D>::kErfTail)));
    } else {
      const V b = AtMost(Const(d, 6), a), three = Const(d, 3);
      const V t = hn::Div(hn::Sub(b, three), hn::Add(b, three));
      rest = hn::Mul(Exp(d, hn::Neg(hn::Mul(b, b))), Polynomial(d, t, C<D>::kErfTail));
    }
    const V large = hn::CopySign(hn::Sub(one, rest), x);
    return hn::IfThenElse(hn::Gt(a, one), large, small);
  }
};

struct SoftreluWord {
  static constexpr bool kHeavy = true;
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x) const {
    const V rest = Log1pInside(d, Exp(d, hn::Neg(hn::Abs(x))));
    const V y = hn::Add(AtLeast(hn::Zero(d), x), rest);
    return hn::IfThenElse(hn::Gt(x, Const(d, 20)), x, y);
  }
};

struct LogSigmoidWord {
  static constexpr bool kHeavy = true;
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x) const {
    const V rest = Log1pInside(d, Exp(d, hn::Neg(hn::Abs(x))));
    return hn::Sub(AtMost(hn::Zero(d), x), rest);
  }
};

}  // namespace

void FillExponentials(Kernels& k) {
  SetFloat<ExpWord>(k, Fn::kExp);
  SetFloat<Expm1Word>(k, Fn::kExpm1);
  SetInDouble<Exp2Word>(k, Fn::kExp2);
  SetFloat<SigmoidWord>(k, Fn::kSigmoid);
  SetFloat<TanhWord>(k, Fn::kTanh);
  SetInDouble<SinhWord>(k, Fn::kSinh);
  SetInDouble<CoshWord>(k, Fn::kCosh);
  SetFloat<ErfWord>(k, Fn::kErf);
  SetFloat<SoftreluWord>(k, Fn::kSoftrelu);
  SetFloat<LogSigmoidWord>(k, Fn::kLogSigmoid);
}

#else

void FillExponentials(Kernels&) {}

#endif

}  // namespace plait::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plait::cpu {
HWY_EXPORT(FillExponentials);
void internal::FillExponentials(Kernels& k) {
  HWY_DYNAMIC_DISPATCH(FillExponentials)(k);
}
}  // namespace plait::cpu
#endif
