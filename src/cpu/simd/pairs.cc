// Two steps of arithmetic in one loop: what is between them stays in a register.

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/simd/pairs.cc"
#include "cpu/simd/targets.h"
#include "hwy/foreach_target.h"
//
#include "cpu/simd/loops.h"

HWY_BEFORE_NAMESPACE();
namespace plait::cpu::HWY_NAMESPACE {

#if PLAIT_HAVE_VECTORS
namespace {

template <PairFirst kFirst, PairSecond kSecond>
struct Pair {
  static constexpr bool kHeavy = false;
  template <class D, class V>
  HWY_INLINE V operator()(D, V x, V y, V z) const {
    V t;
    if constexpr (kFirst == PairFirst::kAdd) t = hn::Add(x, y);
    if constexpr (kFirst == PairFirst::kSub) t = hn::Sub(x, y);
    if constexpr (kFirst == PairFirst::kMul) t = hn::Mul(x, y);
    if constexpr (kSecond == PairSecond::kAdd) return hn::Add(t, z);
    if constexpr (kSecond == PairSecond::kMul) return hn::Mul(t, z);
    if constexpr (kSecond == PairSecond::kSub) return hn::Sub(t, z);
    if constexpr (kSecond == PairSecond::kSubFrom) return hn::Sub(z, t);
  }
};

template <PairFirst kFirst, PairSecond kSecond>
void Set(Kernels& k) {
  using Word = Pair<kFirst, kSecond>;
  constexpr int kF = static_cast<int>(kFirst), kS = static_cast<int>(kSecond);
  k.pair[static_cast<int>(Compute::kF32)][kF][kS] =
      StepLoop<float, float, Word, 3>::Run;
  k.pair[static_cast<int>(Compute::kF64)][kF][kS] =
      StepLoop<double, double, Word, 3>::Run;
}

template <PairFirst kFirst>
void SetAll(Kernels& k) {
  Set<kFirst, PairSecond::kAdd>(k);
  Set<kFirst, PairSecond::kMul>(k);
  Set<kFirst, PairSecond::kSub>(k);
  Set<kFirst, PairSecond::kSubFrom>(k);
}

}  // namespace

void FillPairs(Kernels& k) {
  SetAll<PairFirst::kAdd>(k);
  SetAll<PairFirst::kSub>(k);
  SetAll<PairFirst::kMul>(k);
}

#else

void FillPairs(Kernels&) {}

#endif

}  // namespace plait::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plait::cpu {
HWY_EXPORT(FillPairs);
void internal::FillPairs(Kernels& k) {
  HWY_DYNAMIC_DISPATCH(FillPairs)(k);
}
}  // namespace plait::cpu
#endif
