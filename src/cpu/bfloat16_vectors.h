// Vectors of floats from and to half types in memory, for the Highway target at hand.
//
// Included once for each target, after hwy/foreach_target.h. Kernels that are written
// for both types call Read and Write, which are plain loads and stores of
// what is computed in (float or double).

#if defined(PLAIT_CPU_BFLOAT16_VECTORS_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PLAIT_CPU_BFLOAT16_VECTORS_H_
#undef PLAIT_CPU_BFLOAT16_VECTORS_H_
#else
#define PLAIT_CPU_BFLOAT16_VECTORS_H_
#endif

#include <cstdint>

#include "base/dtype.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace plait::cpu::HWY_NAMESPACE {

template <class D>
HWY_INLINE hwy::HWY_NAMESPACE::Vec<D> Read(D d,
                                           const hwy::HWY_NAMESPACE::TFromD<D>* p) {
  return hwy::HWY_NAMESPACE::LoadU(d, p);
}
template <class D>
HWY_INLINE void Write(hwy::HWY_NAMESPACE::Vec<D> v, D d,
                      hwy::HWY_NAMESPACE::TFromD<D>* p) {
  hwy::HWY_NAMESPACE::StoreU(v, d, p);
}

template <class D>
HWY_INLINE hwy::HWY_NAMESPACE::Vec<D> Read(D d, const Bfloat16* p) {
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::RebindToUnsigned<D> du;
  const hn::Rebind<uint16_t, D> d16;
  const auto bits = hn::LoadU(d16, reinterpret_cast<const uint16_t*>(p));
  return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(du, bits)));
}
// Rounded to nearest, ties to even; NaN stays NaN.
template <class D>
HWY_INLINE void Write(hwy::HWY_NAMESPACE::Vec<D> v, D, Bfloat16* p) {
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::RebindToUnsigned<D> du;
  const hn::Rebind<uint16_t, D> d16;
  const auto bits = hn::BitCast(du, v);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1));
  const auto rounded = hn::Add(hn::Add(bits, hn::Set(du, 0x7fff)), odd);
  const auto quiet = hn::Or(bits, hn::Set(du, 0x400000));
  const auto nan = hn::RebindMask(du, hn::IsNaN(v));
  const auto upper = hn::ShiftRight<16>(hn::IfThenElse(nan, quiet, rounded));
  hn::StoreU(hn::TruncateTo(d16, upper), d16, reinterpret_cast<uint16_t*>(p));
}

#if HWY_TARGET == HWY_SCALAR
// Highway's own plain code does not round to nearest.
template <class D>
HWY_INLINE hwy::HWY_NAMESPACE::Vec<D> Read(D d, const Float16* p) {
  return hwy::HWY_NAMESPACE::Set(d, static_cast<float>(*p));
}
template <class D>
HWY_INLINE void Write(hwy::HWY_NAMESPACE::Vec<D> v, D, Float16* p) {
  *p = Float16(hwy::HWY_NAMESPACE::GetLane(v));
}
#else
template <class D>
HWY_INLINE hwy::HWY_NAMESPACE::Vec<D> Read(D d, const Float16* p) {
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::Rebind<hwy::float16_t, D> dh;
  return hn::PromoteTo(d, hn::LoadU(dh, reinterpret_cast<const hwy::float16_t*>(p)));
}
template <class D>
HWY_INLINE void Write(hwy::HWY_NAMESPACE::Vec<D> v, D, Float16* p) {
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::Rebind<hwy::float16_t, D> dh;
  hn::StoreU(hn::DemoteTo(dh, v), dh, reinterpret_cast<hwy::float16_t*>(p));
}
#endif

}  // namespace plait::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // PLAIT_CPU_BFLOAT16_VECTORS_H_
