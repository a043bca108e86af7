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

// A whole vector, or its first few lanes.
template <typename T>
HWY_INLINE partial::Vec<partial::ScalableTag<T>> Load(const T* p, int64_t lanes) {
  const partial::ScalableTag<T> d;
  return lanes == HWY_LANES(T) ? partial::LoadU(d, p) : LoadFirst(d, p, lanes);
}
template <typename T, class V>
HWY_INLINE void Store(V v, T* p, int64_t lanes) {
  const partial::ScalableTag<T> d;
  if (lanes == HWY_LANES(T)) {
    partial::StoreU(v, d, p);
  } else {
    StoreFirst(v, d, p, lanes);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace plait::cpu::kernel
HWY_AFTER_NAMESPACE();

#endif  // PLAIT_CPU_PARTIAL_H_
