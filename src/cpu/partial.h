// Loads and stores of the first few lanes of a vector, for the Highway target at hand.
//
// Included once for each target, after hwy/foreach_target.h.

#if defined(PLAIT_CPU_PARTIAL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PLAIT_CPU_PARTIAL_H_
#undef PLAIT_CPU_PARTIAL_H_
#else
#define PLAIT_CPU_PARTIAL_H_
#endif

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace plait::cpu::kernel {
namespace HWY_NAMESPACE {

namespace partial = hwy::HWY_NAMESPACE;

// Elements 0 to n - 1, zeros behind; touches no memory past them. REQUIRES: n <= lanes.
template <class D, typename T = partial::TFromD<D>>
HWY_INLINE partial::Vec<D> LoadFirst(D d, const T* p, int64_t n) {
  if constexpr (HWY_TARGET <= HWY_AVX2) {
    return partial::MaskedLoad(partial::FirstN(d, static_cast<size_t>(n)), d, p);
  } else {
    HWY_ALIGN T whole[partial::MaxLanes(D())] = {};
    std::copy_n(p, n, whole);
    return partial::Load(d, whole);
  }
}
template <class D, typename T = partial::TFromD<D>>
HWY_INLINE void StoreFirst(partial::Vec<D> v, D d, T* p, int64_t n) {
  if constexpr (HWY_TARGET <= HWY_AVX2) {
    partial::BlendedStore(v, partial::FirstN(d, static_cast<size_t>(n)), d, p);
  } else {
    HWY_ALIGN T whole[partial::MaxLanes(D())];
    partial::Store(v, d, whole);
    std::copy_n(whole, n, p);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace plait::cpu::kernel
HWY_AFTER_NAMESPACE();

#endif  // PLAIT_CPU_PARTIAL_H_
