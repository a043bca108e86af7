// Loops over arrays around a vector word; compiled once for every target.
//
// A word is a struct with `V operator()(D d, V x [, V y [, V z]]) const`, where each
// lane of the result depends on the same lane of the arguments only. kHeavy words are
// instantiated once, not once for whole vectors and once for the tail.

// Repeated for every target: the guard is Highway's toggle.
#if defined(PLAIT_CPU_SIMD_LOOPS_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PLAIT_CPU_SIMD_LOOPS_H_
#undef PLAIT_CPU_SIMD_LOOPS_H_
#else
#define PLAIT_CPU_SIMD_LOOPS_H_
#endif

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "cpu/simd/kernels.h"
#include "cpu/simd/targets.h"
#include "hwy/highway.h"

#if PLAIT_HAVE_VECTORS

HWY_BEFORE_NAMESPACE();
namespace plait::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

#ifndef PLAIT_WORD1
// A word that is one expression of the vectors x, y.
#define PLAIT_WORD(Name, heavy, expression, ...)                       \
  struct Name {                                                        \
    static constexpr bool kHeavy = heavy;                              \
    template <class D, class V>                                        \
    HWY_INLINE V operator()([[maybe_unused]] D d, __VA_ARGS__) const { \
      return expression;                                               \
    }                                                                  \
  }
#define PLAIT_WORD1(Name, ...) \
  PLAIT_WORD(Name, false, (__VA_ARGS__), [[maybe_unused]] V x)
#define PLAIT_HEAVY1(Name, ...) PLAIT_WORD(Name, true, (__VA_ARGS__), V x)
#define PLAIT_WORD2(Name, ...) PLAIT_WORD(Name, false, (__VA_ARGS__), V x, V y)
#endif

template <typename T>
using Tag = hn::ScalableTag<T>;

// 1 where the mask is true, else 0.
template <class D, class M>
HWY_INLINE hn::Vec<D> OneIf(D d, M mask) {
  return hn::IfThenElseZero(mask, hn::Set(d, 1));
}
// As C's !=: Highway's own is false for NaN.
template <class V>
HWY_INLINE auto Unequal(V x, V y) {
  return hn::Not(hn::Eq(x, y));
}
template <class D, class V>
HWY_INLINE hn::Mask<D> NotZero(D d, V x) {
  return Unequal(x, hn::Zero(d));
}

// The first `count` elements, zeros behind them; touches no memory past them.
template <class D, typename T = hn::TFromD<D>>
HWY_INLINE hn::Vec<D> LoadTail(D d, const T* p, size_t count) {
  if constexpr (HWY_ARCH_X86 && sizeof(T) >= 4) {
    return hn::MaskedLoad(hn::FirstN(d, count), d, p);
  } else {
    HWY_ALIGN T padded[hn::MaxLanes(d)] = {};
    std::memcpy(padded, p, count * sizeof(T));
    return hn::Load(d, padded);
  }
}

template <class D, typename T = hn::TFromD<D>>
HWY_INLINE void StoreTail(hn::Vec<D> v, D d, T* p, size_t count) {
  if constexpr (HWY_ARCH_X86 && sizeof(T) >= 4) {
    hn::BlendedStore(v, hn::FirstN(d, count), d, p);
  } else {
    HWY_ALIGN T padded[hn::MaxLanes(d)];
    hn::Store(v, d, padded);
    std::memcpy(p, padded, count * sizeof(T));
  }
}

// One argument of a loop: a pointer that moves on, or stays on a splat.
template <typename T>
struct Stream {
  const T* p;
  size_t step;
  HWY_INLINE Stream(const void* data, bool splat, size_t lanes)
      : p(static_cast<const T*>(data)), step(splat ? 0 : lanes) {}
  template <class D>
  HWY_INLINE hn::Vec<D> Next(D d) {
    const hn::Vec<D> v = hn::LoadU(d, p);
    p += step;
    return v;
  }
  template <class D>
  HWY_INLINE hn::Vec<D> Tail(D d, size_t count) const {
    return LoadTail(d, p, count);
  }
};

// An argument that lies still or does not, known when compiling.
template <typename T, bool kSplat>
struct FixedStream {
  const T* p;
  template <class D>
  HWY_INLINE hn::Vec<D> At(D d, size_t i) const {
    return hn::LoadU(d, kSplat ? p : p + i);
  }
};

// Vectors of T from memory that holds M: the same type, or narrower floats.
template <class D, class DM>
HWY_INLINE hn::Vec<D> Widen(D d, hn::Vec<DM> v) {
  if constexpr (std::is_same_v<D, DM>) {
    return v;
  } else {
    return hn::PromoteTo(d, v);
  }
}
template <class DM, class D>
HWY_INLINE hn::Vec<DM> Narrow(DM dm, D, hn::Vec<D> v) {
  if constexpr (std::is_same_v<D, DM>) {
    return v;
  } else {
    return hn::DemoteTo(dm, v);
  }
}

// Runs a word on vectors of T over arrays of M.
template <typename M, typename T, class Word, int kArity>
struct StepLoop {
  using D = Tag<T>;
  using DM = hn::Rebind<M, D>;
  using V = hn::Vec<D>;
  using VM = hn::Vec<DM>;

  static HWY_INLINE VM Apply(VM x, VM y, VM z) {
    const D d;
    const V vx = Widen<D, DM>(d, x);
    V result;
    if constexpr (kArity == 1) result = Word()(d, vx);
    if constexpr (kArity == 2) result = Word()(d, vx, Widen<D, DM>(d, y));
    if constexpr (kArity == 3)
      result = Word()(d, vx, Widen<D, DM>(d, y), Widen<D, DM>(d, z));
    return Narrow(DM(), d, result);
  }

  // As many whole groups of vectors as there are: returns how many elements. All of a
  // group is read before any of it is written, which an argument may be.
  template <bool kSplatX, bool kSplatY, bool kSplatZ>
  static HWY_INLINE size_t Groups(const void* x, const void* y, const void* z, M* to,
                                  size_t n) {
    const DM d;
    const FixedStream<M, kSplatX> a{static_cast<const M*>(x)};
    const FixedStream<M, kSplatY> b{static_cast<const M*>(y)};
    const FixedStream<M, kSplatZ> c{static_cast<const M*>(z)};
    const size_t lanes = hn::Lanes(d);
    const VM none = hn::Zero(d);
    size_t i = 0;
    for (; i + 4 * lanes <= n; i += 4 * lanes) {
      const auto at = [&](size_t j) HWY_ATTR {
        return Apply(a.At(d, j), kArity > 1 ? b.At(d, j) : none,
                     kArity > 2 ? c.At(d, j) : none);
      };
      const VM v0 = at(i), v1 = at(i + lanes), v2 = at(i + 2 * lanes),
               v3 = at(i + 3 * lanes);
      hn::StoreU(v0, d, to + i);
      hn::StoreU(v1, d, to + i + lanes);
      hn::StoreU(v2, d, to + i + 2 * lanes);
      hn::StoreU(v3, d, to + i + 3 * lanes);
    }
    return i;
  }

  // The usual places of splats; for others the loop that asks each time does.
  static HWY_INLINE size_t Begin(const void* x, const void* y, const void* z, M* to,
                                 size_t n, unsigned splat) {
    constexpr unsigned kAll = (1u << kArity) - 1;
    switch (splat & kAll) {
      case 0:
        return Groups<false, false, false>(x, y, z, to, n);
      case 1:
        return kArity > 1 ? Groups<true, false, false>(x, y, z, to, n) : 0;
      case 2:
        return kArity > 1 ? Groups<false, true, false>(x, y, z, to, n) : 0;
      case 4:
        return kArity > 2 ? Groups<false, false, true>(x, y, z, to, n) : 0;
      case 6:
        return kArity > 2 ? Groups<false, true, true>(x, y, z, to, n) : 0;
      default:
        return 0;
    }
  }

  static void Run(const void* x, const void* y, const void* z, void* out, int64_t n,
                  unsigned splat) {
    const DM d;
    const size_t lanes = hn::Lanes(d);
    if constexpr (!Word::kHeavy) {
      const size_t done =
          Begin(x, y, z, static_cast<M*>(out), static_cast<size_t>(n), splat);
      if (done > 0) {
        const auto after = [&](const void* p, unsigned bit) {
          return (splat & bit) ? p : static_cast<const M*>(p) + done;
        };
        x = after(x, 1);
        if (kArity > 1) y = after(y, 2);
        if (kArity > 2) z = after(z, 4);
        out = static_cast<M*>(out) + done;
        n -= static_cast<int64_t>(done);
        if (n == 0) return;
      }
    }
    Stream<M> a(x, splat & 1, lanes), b(y, splat & 2, lanes), c(z, splat & 4, lanes);
    M* to = static_cast<M*>(out);
    size_t left = static_cast<size_t>(n);
    const VM none = hn::Zero(d);
    for (; left >= lanes; left -= lanes, to += lanes) {
      const VM vx = a.Next(d);
      const VM vy = kArity > 1 ? b.Next(d) : none;
      const VM vz = kArity > 2 ? c.Next(d) : none;
      hn::StoreU(Apply(vx, vy, vz), d, to);
    }
    if (left == 0) return;
    const VM vx = a.Tail(d, left);
    const VM vy = kArity > 1 ? b.Tail(d, left) : none;
    const VM vz = kArity > 2 ? c.Tail(d, left) : none;
    if constexpr (Word::kHeavy) {
      // Through the loop above once more, on padded vectors.
      HWY_ALIGN M padded[4][hn::MaxLanes(d)];
      hn::Store(vx, d, padded[0]);
      if (kArity > 1) hn::Store(vy, d, padded[1]);
      if (kArity > 2) hn::Store(vz, d, padded[2]);
      Run(padded[0], padded[1], padded[2], padded[3], static_cast<int64_t>(lanes), 0);
      StoreTail(hn::Load(d, padded[3]), d, to, left);
    } else {
      StoreTail(Apply(vx, vy, vz), d, to, left);
    }
  }
};

template <class Word, typename T, int kArity>
HWY_INLINE void SetStep(Kernels& k, Compute compute, Fn fn) {
  k.step[static_cast<int>(compute)][static_cast<int>(fn)] =
      StepLoop<T, T, Word, kArity>::Run;
}

// For float64, and for float32 by way of float64.
template <class Word, int kArity = 1>
HWY_INLINE void SetInDouble(Kernels& k, Fn fn) {
  SetStep<Word, double, kArity>(k, Compute::kF64, fn);
  k.step[static_cast<int>(Compute::kF32)][static_cast<int>(fn)] =
      StepLoop<float, double, Word, kArity>::Run;
}
// For float32 and float64.
template <class Word, int kArity = 1>
HWY_INLINE void SetFloat(Kernels& k, Fn fn) {
  SetStep<Word, float, kArity>(k, Compute::kF32, fn);
  SetStep<Word, double, kArity>(k, Compute::kF64, fn);
}
// For the three integer types.
template <class Word, int kArity = 1>
HWY_INLINE void SetInteger(Kernels& k, Fn fn) {
  SetStep<Word, int32_t, kArity>(k, Compute::kI32, fn);
  SetStep<Word, int64_t, kArity>(k, Compute::kI64, fn);
  SetStep<Word, uint64_t, kArity>(k, Compute::kU64, fn);
}
}  // namespace plait::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // PLAIT_HAVE_VECTORS
#endif  // PLAIT_CPU_SIMD_LOOPS_H_
