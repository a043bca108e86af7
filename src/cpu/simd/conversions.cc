// Vector loops between types: loads and stores of every dtype, rounding, casts.

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/simd/conversions.cc"
#include "cpu/simd/targets.h"
#include "hwy/foreach_target.h"
//
#include "cpu/simd/loops.h"

HWY_BEFORE_NAMESPACE();
namespace plait::cpu::HWY_NAMESPACE {

#if PLAIT_HAVE_VECTORS
namespace {

// A loop from elements S to elements T. The word is
// `VT operator()(DT dt, DS ds, VS x) const`; both tags have the same number of lanes.
template <typename S, typename T, class Word>
struct ConvertLoop {
  static void Run(const void* x, const void*, const void*, void* out, int64_t n,
                  unsigned splat) {
    using Wider = std::conditional_t<(sizeof(S) > sizeof(T)), S, T>;
    const Tag<Wider> widest;
    const hn::Rebind<S, decltype(widest)> ds;
    const hn::Rebind<T, decltype(widest)> dt;
    const size_t lanes = hn::Lanes(widest);
    Stream<S> a(x, splat & 1, lanes);
    T* to = static_cast<T*>(out);
    size_t left = static_cast<size_t>(n);
    for (; left >= lanes; left -= lanes, to += lanes) {
      hn::StoreU(Word()(dt, ds, a.Next(ds)), dt, to);
    }
    if (left > 0) StoreTail(Word()(dt, ds, a.Tail(ds, left)), dt, to, left);
  }
};

struct Same {
  template <class DT, class DS, class V>
  HWY_INLINE V operator()(DT, DS, V x) const {
    return x;
  }
};
struct Promote {
  template <class DT, class DS, class V>
  HWY_INLINE hn::Vec<DT> operator()(DT dt, DS, V x) const {
    return hn::PromoteTo(dt, x);
  }
};
struct Demote {
  template <class DT, class DS, class V>
  HWY_INLINE hn::Vec<DT> operator()(DT dt, DS, V x) const {
    return hn::DemoteTo(dt, x);
  }
};
// Integers: the low bits.
struct Truncate {
  template <class DT, class DS, class V>
  HWY_INLINE hn::Vec<DT> operator()(DT dt, DS, V x) const {
    return hn::TruncateTo(dt, x);
  }
};
struct ToFloat {
  template <class DT, class DS, class V>
  HWY_INLINE hn::Vec<DT> operator()(DT dt, DS, V x) const {
    return hn::ConvertTo(dt, x);
  }
};
// Highway saturates; NaN becomes 0 here.
struct ToInteger {
  template <class DT, class DS, class V>
  HWY_INLINE hn::Vec<DT> operator()(DT dt, DS, V x) const {
    const V number = hn::IfThenElseZero(hn::Eq(x, x), x);
    if constexpr (sizeof(hn::TFromD<DT>) < sizeof(hn::TFromD<DS>)) {
      return hn::DemoteTo(dt, number);
    } else {
      return hn::ConvertTo(dt, number);
    }
  }
};

// The bits of a bfloat16 in the upper half, rounded to nearest even; NaN stays NaN.
template <class D, class V>
HWY_INLINE hn::Vec<hn::RebindToUnsigned<D>> Bfloat16Bits(D d, V x) {
  const hn::RebindToUnsigned<D> du;
  const auto bits = hn::BitCast(du, x);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1));
  const auto rounded = hn::Add(hn::Add(bits, hn::Set(du, 0x7fff)), odd);
  const auto quiet = hn::Or(bits, hn::Set(du, 0x400000));
  const auto nan = hn::RebindMask(du, hn::IsNaN(x));
  (void)d;
  return hn::And(hn::IfThenElse(nan, quiet, rounded), hn::Set(du, 0xffff0000u));
}
struct StoreBfloat16 {
  template <class DT, class DS, class V>
  HWY_INLINE hn::Vec<DT> operator()(DT dt, DS ds, V x) const {
    return hn::TruncateTo(dt, hn::ShiftRight<16>(Bfloat16Bits(ds, x)));
  }
};
struct NarrowBfloat16 {
  template <class DT, class DS, class V>
  HWY_INLINE V operator()(DT dt, DS ds, V x) const {
    return hn::BitCast(dt, Bfloat16Bits(ds, x));
  }
};
struct NarrowFloat16 {
  template <class DT, class DS, class V>
  HWY_INLINE V operator()(DT dt, DS, V x) const {
    const hn::Rebind<hwy::float16_t, DT> dh;
    return hn::PromoteTo(dt, hn::DemoteTo(dh, x));
  }
};
struct NarrowBool {
  template <class DT, class DS, class V>
  HWY_INLINE V operator()(DT dt, DS, V x) const {
    return OneIf(dt, NotZero(dt, x));
  }
};
struct StoreBool {
  template <class DT, class DS, class V>
  HWY_INLINE hn::Vec<DT> operator()(DT dt, DS ds, V x) const {
    return hn::TruncateTo(dt, OneIf(ds, NotZero(ds, x)));
  }
};
template <int kBits>
struct NarrowSigned {
  template <class DT, class DS, class V>
  HWY_INLINE V operator()(DT, DS, V x) const {
    constexpr int kShift = sizeof(hn::TFromD<DT>) * 8 - kBits;
    return hn::ShiftRight<kShift>(hn::ShiftLeft<kShift>(x));
  }
};
template <int kBits>
struct NarrowUnsigned {
  template <class DT, class DS, class V>
  HWY_INLINE V operator()(DT dt, DS, V x) const {
    using T = hn::TFromD<DT>;
    return hn::And(x, hn::Set(dt, static_cast<T>((uint64_t{1} << kBits) - 1)));
  }
};

// See plain::RoundToOdd.
struct ToOdd {
  template <class DT, class DS, class V>
  HWY_INLINE hn::Vec<DT> operator()(DT dt, DS ds, V x) const {
    const hn::RebindToSigned<DT> di;
    const hn::Vec<DT> f = hn::DemoteTo(dt, x);
    const V back = hn::PromoteTo(ds, f);
    const V one = hn::Set(ds, 1.0);
    const V step = hn::IfThenElse(hn::Gt(hn::Abs(back), hn::Abs(x)), hn::Neg(one), one);
    const auto inexact = hn::And(Unequal(back, x), hn::Eq(x, x));
    const auto delta = hn::DemoteTo(di, hn::IfThenElseZero(inexact, step));
    const auto bits = hn::BitCast(di, f);
    const auto even = hn::Eq(hn::And(bits, hn::Set(di, 1)), hn::Zero(di));
    return hn::BitCast(dt, hn::Add(bits, hn::IfThenElseZero(even, delta)));
  }
};

// To int32 0 or 1.
struct TestFloat32 {
  template <class DT, class DS, class V>
  HWY_INLINE hn::Vec<DT> operator()(DT dt, DS ds, V x) const {
    return OneIf(dt, hn::RebindMask(dt, NotZero(ds, x)));
  }
};
struct TestFloat64 {
  template <class DT, class DS, class V>
  HWY_INLINE hn::Vec<DT> operator()(DT dt, DS ds, V x) const {
    return hn::DemoteTo(dt, OneIf(ds, NotZero(ds, x)));
  }
};
struct TestInteger {
  template <class DT, class DS, class V>
  HWY_INLINE hn::Vec<DT> operator()(DT dt, DS ds, V x) const {
    return hn::TruncateTo(dt, OneIf(ds, NotZero(ds, x)));
  }
};

template <typename S, typename T, class Word>
constexpr Loop kConvert = ConvertLoop<S, T, Word>::Run;

void FillLoads(Kernels& k) {
  const auto set = [&k](DType dtype, Loop load, Loop store, Loop narrow) {
    const int i = static_cast<int>(dtype);
    k.load[i] = load;
    k.store[i] = store;
    k.narrow[i] = narrow;
  };
  constexpr Loop kSame32 = kConvert<uint32_t, uint32_t, Same>;
  constexpr Loop kSame64 = kConvert<uint64_t, uint64_t, Same>;
  using F16 = hwy::float16_t;
  using B16 = hwy::bfloat16_t;
  set(DType::kFloat32, kSame32, kSame32, nullptr);
  set(DType::kInt32, kSame32, kSame32, nullptr);
  set(DType::kFloat64, kSame64, kSame64, nullptr);
  set(DType::kInt64, kSame64, kSame64, nullptr);
  set(DType::kUint64, kSame64, kSame64, nullptr);
  set(DType::kFloat16, kConvert<F16, float, Promote>, kConvert<float, F16, Demote>,
      kConvert<float, float, NarrowFloat16>);
  set(DType::kBfloat16, kConvert<B16, float, Promote>,
      kConvert<float, uint16_t, StoreBfloat16>, kConvert<float, float, NarrowBfloat16>);
  set(DType::kBool, kConvert<uint8_t, int32_t, Promote>,
      kConvert<uint32_t, uint8_t, StoreBool>, kConvert<int32_t, int32_t, NarrowBool>);
  constexpr Loop kStore8 = kConvert<uint32_t, uint8_t, Truncate>;
  constexpr Loop kStore16 = kConvert<uint32_t, uint16_t, Truncate>;
  set(DType::kInt8, kConvert<int8_t, int32_t, Promote>, kStore8,
      kConvert<int32_t, int32_t, NarrowSigned<8>>);
  set(DType::kInt16, kConvert<int16_t, int32_t, Promote>, kStore16,
      kConvert<int32_t, int32_t, NarrowSigned<16>>);
  set(DType::kUint8, kConvert<uint8_t, int32_t, Promote>, kStore8,
      kConvert<int32_t, int32_t, NarrowUnsigned<8>>);
  set(DType::kUint16, kConvert<uint16_t, int32_t, Promote>, kStore16,
      kConvert<int32_t, int32_t, NarrowUnsigned<16>>);
  set(DType::kUint32, kConvert<uint32_t, uint64_t, Promote>,
      kConvert<uint64_t, uint32_t, Truncate>,
      kConvert<int64_t, int64_t, NarrowUnsigned<32>>);
}

}  // namespace

void FillConversions(Kernels& k) {
  FillLoads(k);
  const auto cast = [&k](Compute from, Compute to) -> Loop& {
    return k.cast[static_cast<int>(from)][static_cast<int>(to)];
  };
  constexpr Compute kF32 = Compute::kF32, kF64 = Compute::kF64, kI32 = Compute::kI32,
                    kI64 = Compute::kI64, kU64 = Compute::kU64;
  cast(kF32, kF64) = kConvert<float, double, Promote>;
  cast(kF64, kF32) = kConvert<double, float, Demote>;
  cast(kF32, kI32) = kConvert<float, int32_t, ToInteger>;
  cast(kF64, kI32) = kConvert<double, int32_t, ToInteger>;
  cast(kF64, kI64) = kConvert<double, int64_t, ToInteger>;
  cast(kI32, kF32) = kConvert<int32_t, float, ToFloat>;
  cast(kI32, kF64) = kConvert<int32_t, double, Promote>;
  cast(kI64, kF64) = kConvert<int64_t, double, ToFloat>;
  cast(kI32, kI64) = kConvert<int32_t, int64_t, Promote>;
  cast(kI32, kU64) = kConvert<int32_t, int64_t, Promote>;
  cast(kI64, kI32) = kConvert<uint64_t, uint32_t, Truncate>;
  cast(kU64, kI32) = kConvert<uint64_t, uint32_t, Truncate>;
  cast(kI64, kU64) = cast(kU64, kI64) = kConvert<uint64_t, uint64_t, Same>;
  for (Compute c : {kF64, kI64, kU64}) cast(c, c) = kConvert<uint64_t, uint64_t, Same>;
  for (Compute c : {kF32, kI32}) cast(c, c) = kConvert<uint32_t, uint32_t, Same>;
  k.cast_to_half = kConvert<double, float, ToOdd>;
  const auto not_zero = [&k](Compute from) -> Loop& {
    return k.not_zero[static_cast<int>(from)];
  };
  not_zero(kF32) = kConvert<float, int32_t, TestFloat32>;
  not_zero(kF64) = kConvert<double, int32_t, TestFloat64>;
  not_zero(kI32) = kConvert<int32_t, int32_t, NarrowBool>;
  not_zero(kI64) = not_zero(kU64) = kConvert<uint64_t, uint32_t, TestInteger>;
}

#else

void FillConversions(Kernels&) {}

#endif

}  // namespace plait::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plait::cpu {
HWY_EXPORT(FillConversions);
void internal::FillConversions(Kernels& k) {
  HWY_DYNAMIC_DISPATCH(FillConversions)(k);
}
}  // namespace plait::cpu
#endif
