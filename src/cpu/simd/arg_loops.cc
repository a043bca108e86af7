// The vector loops of cpu/row.h that find where the best element of a row is.
//
// A row is passed in blocks of which only the best value is kept; the place is looked
// for once, in the last block that was better than all before it.

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/simd/arg_loops.cc"
#include <bit>
#include <type_traits>

#include "cpu/simd/targets.h"
#include "hwy/foreach_target.h"
//
#include "cpu/simd/loops.h"

HWY_BEFORE_NAMESPACE();
namespace plait::cpu::HWY_NAMESPACE {

#if PLAIT_HAVE_VECTORS
namespace {

// How elements are compared: numbers as they are.
template <typename T>
struct Numbers {
  using Stored = T;
  template <class D>
  static HWY_INLINE hn::Vec<D> Load(D d, const T* x) {
    return hn::LoadU(d, x);
  }
  static T Get(const T* x) { return *x; }
  template <class D>
  static HWY_INLINE hn::Mask<D> IsNumber(D, hn::Vec<D> v) {
    return hn::Eq(v, v);
  }
  static bool NaN(T v) { return v != v; }
  static constexpr bool kHasNaN = std::is_floating_point_v<T>;
};

// Halves as integers of the same order; those of NaN are beyond the infinities'.
template <int16_t kInfinity>
struct Halves {
  using Stored = int16_t;
  static constexpr int16_t kMagnitude = 0x7fff;
  template <class D>
  static HWY_INLINE hn::Vec<D> Load(D d, const int16_t* x) {
    auto v = hn::LoadU(d, x);
    v = hn::IfThenZeroElse(hn::Eq(v, hn::Set(d, INT16_MIN)), v);  // -0 is 0
    return hn::Xor(v,
                   hn::And(hn::BroadcastSignBit(v), hn::Set(d, int16_t{kMagnitude})));
  }
  static int16_t Get(const int16_t* x) {
    if (*x >= 0) return *x;
    return *x == INT16_MIN ? int16_t{0} : static_cast<int16_t>(*x ^ kMagnitude);
  }
  template <class D>
  static HWY_INLINE hn::Mask<D> IsNumber(D d, hn::Vec<D> v) {
    return hn::And(hn::Lt(v, hn::Set(d, static_cast<int16_t>(kInfinity + 1))),
                   hn::Gt(v, hn::Set(d, static_cast<int16_t>(~kInfinity - 1))));
  }
  static bool NaN(int16_t v) { return v > kInfinity || v < ~kInfinity; }
  static constexpr bool kHasNaN = true;
};

template <bool kMax, typename T>
HWY_INLINE bool Better(T a, T b) {
  return kMax ? a > b : a < b;
}
template <bool kMax, class V>
HWY_INLINE auto BetterMask(V a, V b) {
  return kMax ? hn::Gt(a, b) : hn::Lt(a, b);
}
template <bool kMax, class V>
HWY_INLINE V BetterOf(V a, V b) {
  return kMax ? hn::Max(a, b) : hn::Min(a, b);
}

// The first element of x[0, kVectors * lanes) for which `found` holds, which is there.
template <class Key, class D, class Found>
HWY_INLINE int64_t First(D d, const typename Key::Stored* x, int64_t lanes,
                         const Found& found) {
  for (int64_t i = 0;; i += lanes) {
    const intptr_t lane = hn::FindFirstTrue(d, found(Key::Load(d, x + i)));
    if (lane >= 0) return i + lane;
  }
}

// By blocks of kVectors vectors; n is at least one block. The last block may begin
// before the one before it ends: nothing in there is better than what was found.
template <class Key, bool kMax, int kVectors>
int64_t BestByBlocks(const typename Key::Stored* x, int64_t n) {
  using T = typename Key::Stored;
  const Tag<T> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d)), block = kVectors * lanes;
  const auto is_number = [d](auto v) HWY_ATTR { return Key::IsNumber(d, v); };
  T best = Key::Get(x);
  int64_t where = 0;
  if (Key::kHasNaN && Key::NaN(best)) return 0;
  for (int64_t begin = 0; begin < n; begin += block) {
    if (begin + block > n) begin = n - block;
    const T* from = x + begin;
    auto v0 = Key::Load(d, from);
    auto numbers = is_number(v0);
    if constexpr (kVectors > 1) {
      auto v1 = Key::Load(d, from + lanes), v2 = Key::Load(d, from + 2 * lanes),
           v3 = Key::Load(d, from + 3 * lanes);
      auto n1 = is_number(v1), n2 = is_number(v2), n3 = is_number(v3);
      const auto take = [&](auto& top, auto& all, int64_t k) HWY_ATTR {
        const auto v = Key::Load(d, from + k * lanes);
        top = BetterOf<kMax>(top, v);
        if constexpr (Key::kHasNaN) all = hn::And(all, is_number(v));
      };
#pragma GCC unroll 1  // loads stay in the order in which memory is fetched ahead
      for (int64_t k = 4; k < kVectors; k += 4) {
        take(v0, numbers, k);
        take(v1, n1, k + 1);
        take(v2, n2, k + 2);
        take(v3, n3, k + 3);
      }
      v0 = BetterOf<kMax>(BetterOf<kMax>(v0, v1), BetterOf<kMax>(v2, v3));
      numbers = hn::And(hn::And(numbers, n1), hn::And(n2, n3));
    }
    if (Key::kHasNaN && !hn::AllTrue(d, numbers)) {
      const auto is_nan = [&](auto v) HWY_ATTR { return hn::Not(is_number(v)); };
      return begin + First<Key>(d, from, lanes, is_nan);
    }
    if (hn::AllFalse(d, BetterMask<kMax>(v0, hn::Set(d, best)))) continue;
    HWY_ALIGN T values[hn::MaxLanes(d)];
    hn::Store(v0, d, values);
    for (int64_t i = 0; i < lanes; ++i) {
      if (Better<kMax>(values[i], best)) best = values[i];
    }
    where = begin;
  }
  const auto all = hn::Set(d, best);
  const auto is_best = [all](auto v) HWY_ATTR { return hn::Eq(v, all); };
  return where + First<Key>(d, x + where, lanes, is_best);
}

template <class Key, bool kMax>
int64_t ArgBest(const void* row, int64_t n) {
  using T = typename Key::Stored;
  const T* x = static_cast<const T*>(row);
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(Tag<T>()));
  if (n >= 128 * lanes) return BestByBlocks<Key, kMax, 128>(x, n);
  if (n >= 16 * lanes) return BestByBlocks<Key, kMax, 16>(x, n);
  if (n >= lanes) return BestByBlocks<Key, kMax, 1>(x, n);
  int64_t best = 0;
  T value = Key::Get(x);
  for (int64_t i = 1; i < n && !Key::NaN(value); ++i) {
    const T v = Key::Get(x + i);
    if (!Better<kMax>(v, value) && !Key::NaN(v)) continue;
    value = v;
    best = i;
  }
  return best;
}

template <class Key>
void FillKey(Kernels& k, DType dtype) {
  k.arg_max[static_cast<int>(dtype)] = ArgBest<Key, true>;
  k.arg_min[static_cast<int>(dtype)] = ArgBest<Key, false>;
}

template <typename... T>
void FillNumbers(Kernels& k) {
  (FillKey<Numbers<T>>(k, kDTypeOf<T>), ...);
}

}  // namespace

void FillArgs(Kernels& k) {
  FillNumbers<float, double, int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t,
              uint32_t, uint64_t>(k);
  FillKey<Numbers<uint8_t>>(k, DType::kBool);
  FillKey<Halves<0x7c00>>(k, DType::kFloat16);
  FillKey<Halves<0x7f80>>(k, DType::kBfloat16);
}

#else

void FillArgs(Kernels&) {}

#endif

}  // namespace plait::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plait::cpu {
HWY_EXPORT(FillArgs);
void internal::FillArgs(Kernels& k) {
  HWY_DYNAMIC_DISPATCH(FillArgs)(k);
}
}  // namespace plait::cpu
#endif
