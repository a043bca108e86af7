// Vector words that need no approximation, for floats: arithmetic, rounding, compares.

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/simd/arithmetic.cc"
#include "cpu/simd/targets.h"
#include "hwy/foreach_target.h"
//
#include "cpu/simd/loops.h"

HWY_BEFORE_NAMESPACE();
namespace plait::cpu::HWY_NAMESPACE {

#if PLAIT_HAVE_VECTORS
namespace {

PLAIT_WORD1(Copy, x);
PLAIT_WORD1(Negative, hn::Neg(x));
PLAIT_WORD1(Abs, hn::Abs(x));
PLAIT_WORD1(Ceil, hn::Ceil(x));
PLAIT_WORD1(Floor, hn::Floor(x));
PLAIT_WORD1(Trunc, hn::Trunc(x));
PLAIT_WORD1(Square, hn::Mul(x, x));
PLAIT_WORD1(Sqrt, hn::Sqrt(x));
PLAIT_WORD1(Rsqrt, hn::Div(hn::Set(d, 1), hn::Sqrt(x)));
PLAIT_WORD1(Reciprocal, hn::Div(hn::Set(d, 1), x));
PLAIT_WORD1(Softsign, hn::Div(x, hn::Add(hn::Set(d, 1), hn::Abs(x))));
PLAIT_WORD1(Relu, hn::IfThenZeroElse(hn::Le(x, hn::Zero(d)), x));
PLAIT_WORD1(LogicalNot, OneIf(d, hn::Eq(x, hn::Zero(d))));
PLAIT_WORD1(IsNan, OneIf(d, hn::IsNaN(x)));
PLAIT_WORD1(IsInf, OneIf(d, hn::Eq(hn::Abs(x), hn::Inf(d))));
PLAIT_WORD1(IsFinite, OneIf(d, hn::Lt(hn::Abs(x), hn::Inf(d))));

PLAIT_WORD2(Add, hn::Add(x, y));
PLAIT_WORD2(Sub, hn::Sub(x, y));
PLAIT_WORD2(Mul, hn::Mul(x, y));
PLAIT_WORD2(Div, hn::Div(x, y));
PLAIT_WORD2(CopySign, hn::CopySign(x, y));
PLAIT_WORD2(Equal, OneIf(d, hn::Eq(x, y)));
PLAIT_WORD2(NotEqual, OneIf(d, Unequal(x, y)));
PLAIT_WORD2(Greater, OneIf(d, hn::Gt(x, y)));
PLAIT_WORD2(GreaterEqual, OneIf(d, hn::Ge(x, y)));
PLAIT_WORD2(Less, OneIf(d, hn::Lt(x, y)));
PLAIT_WORD2(LessEqual, OneIf(d, hn::Le(x, y)));
PLAIT_WORD2(LogicalAnd, OneIf(d, hn::And(NotZero(d, x), NotZero(d, y))));
PLAIT_WORD2(LogicalOr, OneIf(d, hn::Or(NotZero(d, x), NotZero(d, y))));
PLAIT_WORD2(LogicalXor, OneIf(d, hn::Xor(NotZero(d, x), NotZero(d, y))));
// NaN on either side wins; of equal ones y, which tells -0 from 0.
PLAIT_WORD2(Maximum, hn::IfThenElse(hn::Or(hn::Gt(x, y), hn::IsNaN(x)), x, y));
PLAIT_WORD2(Minimum, hn::IfThenElse(hn::Or(hn::Lt(x, y), hn::IsNaN(x)), x, y));

struct Sign {
  static constexpr bool kHeavy = false;
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x) const {
    const V zero = hn::Zero(d), one = hn::Set(d, 1);
    return hn::IfThenElse(hn::Lt(x, zero), hn::Set(d, -1),
                          hn::IfThenElseZero(hn::Gt(x, zero), one));
  }
};

// Ties away from zero.
struct Round {
  static constexpr bool kHeavy = false;
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x) const {
    using T = hn::TFromD<D>;
    const V whole = hn::Trunc(x);
    const auto up = hn::Ge(hn::Abs(hn::Sub(x, whole)), hn::Set(d, T(0.5)));
    const V one = hn::CopySign(hn::IfThenElseZero(up, hn::Set(d, T(1))), x);
    return hn::Add(whole, one);
  }
};

// Ties to the lower integer.
struct Rint {
  static constexpr bool kHeavy = false;
  template <class D, class V>
  HWY_INLINE V operator()(D, V x) const {
    const V floor = hn::Floor(x), ceil = hn::Ceil(x);
    return hn::IfThenElse(hn::Le(hn::Sub(x, floor), hn::Sub(ceil, x)), floor, ceil);
  }
};

struct Where {
  static constexpr bool kHeavy = false;
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x, V y, V z) const {
    return hn::IfThenElse(NotZero(d, x), y, z);
  }
};

}  // namespace

void FillArithmetic(Kernels& k) {
  SetFloat<Copy>(k, Fn::kCopy);
  SetFloat<Negative>(k, Fn::kNegative);
  SetFloat<Abs>(k, Fn::kAbs);
  SetFloat<Sign>(k, Fn::kSign);
  SetFloat<Round>(k, Fn::kRound);
  SetFloat<Rint>(k, Fn::kRint);
  SetFloat<Ceil>(k, Fn::kCeil);
  SetFloat<Floor>(k, Fn::kFloor);
  SetFloat<Trunc>(k, Fn::kTrunc);
  SetFloat<Square>(k, Fn::kSquare);
  SetFloat<Sqrt>(k, Fn::kSqrt);
  SetFloat<Rsqrt>(k, Fn::kRsqrt);
  SetFloat<Reciprocal>(k, Fn::kReciprocal);
  SetFloat<Softsign>(k, Fn::kSoftsign);
  SetFloat<Relu>(k, Fn::kRelu);
  SetFloat<LogicalNot>(k, Fn::kLogicalNot);
  SetFloat<IsNan>(k, Fn::kIsNan);
  SetFloat<IsInf>(k, Fn::kIsInf);
  SetFloat<IsFinite>(k, Fn::kIsFinite);
  SetFloat<Add, 2>(k, Fn::kAdd);
  SetFloat<Sub, 2>(k, Fn::kSub);
  SetFloat<Mul, 2>(k, Fn::kMul);
  SetFloat<Div, 2>(k, Fn::kDiv);
  SetFloat<Maximum, 2>(k, Fn::kMaximum);
  SetFloat<Minimum, 2>(k, Fn::kMinimum);
  SetFloat<CopySign, 2>(k, Fn::kCopysign);
  SetFloat<Equal, 2>(k, Fn::kEqual);
  SetFloat<NotEqual, 2>(k, Fn::kNotEqual);
  SetFloat<Greater, 2>(k, Fn::kGreater);
  SetFloat<GreaterEqual, 2>(k, Fn::kGreaterEqual);
  SetFloat<Less, 2>(k, Fn::kLess);
  SetFloat<LessEqual, 2>(k, Fn::kLessEqual);
  SetFloat<LogicalAnd, 2>(k, Fn::kLogicalAnd);
  SetFloat<LogicalOr, 2>(k, Fn::kLogicalOr);
  SetFloat<LogicalXor, 2>(k, Fn::kLogicalXor);
  SetFloat<Where, 3>(k, Fn::kWhere);
}

#else

void FillArithmetic(Kernels&) {}

#endif

}  // namespace plait::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plait::cpu {
HWY_EXPORT(FillArithmetic);
void internal::FillArithmetic(Kernels& k) {
  HWY_DYNAMIC_DISPATCH(FillArithmetic)(k);
}
}  // namespace plait::cpu
#endif
