// Vector words for integers: wrapping arithmetic, bits, compares.
//
// Division, remainder and power stay with the plain loops: no processor has them.

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/simd/integers.cc"
#include "cpu/simd/targets.h"
#include "hwy/foreach_target.h"
//
#include "cpu/simd/loops.h"

HWY_BEFORE_NAMESPACE();
namespace plait::cpu::HWY_NAMESPACE {

#if PLAIT_HAVE_VECTORS
namespace {

PLAIT_WORD1(Copy, x);
PLAIT_WORD1(Negative, hn::Sub(hn::Zero(d), x));
PLAIT_WORD1(Abs, hn::Abs(x));
PLAIT_WORD1(Square, hn::Mul(x, x));
PLAIT_WORD1(BitwiseNot, hn::Not(x));
PLAIT_WORD1(Relu, hn::Max(x, hn::Zero(d)));
PLAIT_WORD1(Sign, hn::Sub(OneIf(d, hn::Gt(x, hn::Zero(d))),
                          OneIf(d, hn::Lt(x, hn::Zero(d)))));
PLAIT_WORD1(SignOfUnsigned, OneIf(d, Unequal(x, hn::Zero(d))));
PLAIT_WORD1(LogicalNot, OneIf(d, hn::Eq(x, hn::Zero(d))));
PLAIT_WORD1(Zero, hn::Zero(d));
PLAIT_WORD1(One, hn::Set(d, 1));

PLAIT_WORD2(Add, hn::Add(x, y));
PLAIT_WORD2(Sub, hn::Sub(x, y));
PLAIT_WORD2(Mul, hn::Mul(x, y));
PLAIT_WORD2(Maximum, hn::Max(x, y));
PLAIT_WORD2(Minimum, hn::Min(x, y));
PLAIT_WORD2(Equal, OneIf(d, hn::Eq(x, y)));
PLAIT_WORD2(NotEqual, OneIf(d, Unequal(x, y)));
PLAIT_WORD2(Greater, OneIf(d, hn::Gt(x, y)));
PLAIT_WORD2(GreaterEqual, OneIf(d, hn::Not(hn::Lt(x, y))));
PLAIT_WORD2(Less, OneIf(d, hn::Lt(x, y)));
PLAIT_WORD2(LessEqual, OneIf(d, hn::Not(hn::Gt(x, y))));
PLAIT_WORD2(LogicalAnd, OneIf(d, hn::And(NotZero(d, x), NotZero(d, y))));
PLAIT_WORD2(LogicalOr, OneIf(d, hn::Or(NotZero(d, x), NotZero(d, y))));
PLAIT_WORD2(LogicalXor, OneIf(d, hn::Xor(NotZero(d, x), NotZero(d, y))));
PLAIT_WORD2(BitwiseAnd, hn::And(x, y));
PLAIT_WORD2(BitwiseOr, hn::Or(x, y));
PLAIT_WORD2(BitwiseXor, hn::Xor(x, y));

struct Where {
  static constexpr bool kHeavy = false;
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x, V y, V z) const {
    return hn::IfThenElse(NotZero(d, x), y, z);
  }
};

// Functions that leave an integer as it is.
constexpr Fn kCopies[] = {Fn::kCopy, Fn::kRound, Fn::kRint,
                          Fn::kCeil, Fn::kFloor, Fn::kTrunc};

}  // namespace

void FillIntegers(Kernels& k) {
  for (Fn fn : kCopies) SetInteger<Copy>(k, fn);
  SetInteger<Negative>(k, Fn::kNegative);
  SetStep<Abs, int32_t, 1>(k, Compute::kI32, Fn::kAbs);
  SetStep<Abs, int64_t, 1>(k, Compute::kI64, Fn::kAbs);
  SetStep<Copy, uint64_t, 1>(k, Compute::kU64, Fn::kAbs);
  SetStep<Sign, int32_t, 1>(k, Compute::kI32, Fn::kSign);
  SetStep<Sign, int64_t, 1>(k, Compute::kI64, Fn::kSign);
  SetStep<SignOfUnsigned, uint64_t, 1>(k, Compute::kU64, Fn::kSign);
  SetInteger<Square>(k, Fn::kSquare);
  SetInteger<BitwiseNot>(k, Fn::kBitwiseNot);
  SetInteger<Relu>(k, Fn::kRelu);
  SetInteger<LogicalNot>(k, Fn::kLogicalNot);
  SetInteger<Zero>(k, Fn::kIsNan);
  SetInteger<Zero>(k, Fn::kIsInf);
  SetInteger<One>(k, Fn::kIsFinite);
  SetInteger<Add, 2>(k, Fn::kAdd);
  SetInteger<Sub, 2>(k, Fn::kSub);
  SetInteger<Mul, 2>(k, Fn::kMul);
  SetInteger<Maximum, 2>(k, Fn::kMaximum);
  SetInteger<Minimum, 2>(k, Fn::kMinimum);
  SetInteger<Equal, 2>(k, Fn::kEqual);
  SetInteger<NotEqual, 2>(k, Fn::kNotEqual);
  SetInteger<Greater, 2>(k, Fn::kGreater);
  SetInteger<GreaterEqual, 2>(k, Fn::kGreaterEqual);
  SetInteger<Less, 2>(k, Fn::kLess);
  SetInteger<LessEqual, 2>(k, Fn::kLessEqual);
  SetInteger<LogicalAnd, 2>(k, Fn::kLogicalAnd);
  SetInteger<LogicalOr, 2>(k, Fn::kLogicalOr);
  SetInteger<LogicalXor, 2>(k, Fn::kLogicalXor);
  SetInteger<BitwiseAnd, 2>(k, Fn::kBitwiseAnd);
  SetInteger<BitwiseOr, 2>(k, Fn::kBitwiseOr);
  SetInteger<BitwiseXor, 2>(k, Fn::kBitwiseXor);
  SetInteger<Where, 3>(k, Fn::kWhere);
}

#else

void FillIntegers(Kernels&) {}

#endif

}  // namespace plait::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plait::cpu {
HWY_EXPORT(FillIntegers);
void internal::FillIntegers(Kernels& k) {
  HWY_DYNAMIC_DISPATCH(FillIntegers)(k);
}
}  // namespace plait::cpu
#endif
