// The reduction of one row by vectors: the operators and the order of the additions.
//
// The order depends on the length of the row and on the target only: four accumulators,
// combined as a tree. So no sum is a chain longer than length / (4 lanes).

#if defined(PLAIT_CPU_SIMD_REDUCE_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PLAIT_CPU_SIMD_REDUCE_H_
#undef PLAIT_CPU_SIMD_REDUCE_H_
#else
#define PLAIT_CPU_SIMD_REDUCE_H_
#endif

#include <limits>
#include <type_traits>

#include "cpu/simd/loops.h"

#if PLAIT_HAVE_VECTORS

HWY_BEFORE_NAMESPACE();
namespace plait::cpu::HWY_NAMESPACE {

// Integers wrap without being undefined.
template <typename T>
using Arithmetic =
    typename std::conditional_t<std::is_integral_v<T>, std::make_unsigned<T>,
                                std::type_identity<T>>::type;

struct SumOp {
  template <typename T>
  static constexpr T kFirst = 0;
  template <class D, class V>
  static HWY_INLINE V Vector(D, V x, V y) {
    return hn::Add(x, y);
  }
  template <typename T>
  static T Scalar(T x, T y) {
    return static_cast<T>(static_cast<Arithmetic<T>>(x) +
                          static_cast<Arithmetic<T>>(y));
  }
};

struct ProdOp {
  template <typename T>
  static constexpr T kFirst = 1;
  template <class D, class V>
  static HWY_INLINE V Vector(D, V x, V y) {
    return hn::Mul(x, y);
  }
  template <typename T>
  static T Scalar(T x, T y) {
    return static_cast<T>(static_cast<Arithmetic<T>>(x) *
                          static_cast<Arithmetic<T>>(y));
  }
};

// Of floats, infinity: an empty maximum is below every number.
template <typename T>
inline constexpr T kHighest = std::is_floating_point_v<T>
                                  ? std::numeric_limits<T>::infinity()
                                  : std::numeric_limits<T>::max();
template <typename T>
inline constexpr T kLowest = std::is_floating_point_v<T>
                                 ? -std::numeric_limits<T>::infinity()
                                 : std::numeric_limits<T>::lowest();

struct MaxOp {
  template <typename T>
  static constexpr T kFirst = kLowest<T>;
  template <class D, class V>
  static HWY_INLINE V Vector(D, V x, V y) {
    if constexpr (hwy::IsFloat<hn::TFromD<D>>()) {
      return hn::IfThenElse(hn::Or(hn::Gt(x, y), hn::IsNaN(x)), x, y);
    } else {
      return hn::Max(x, y);
    }
  }
  template <typename T>
  static T Scalar(T x, T y) {
    return x > y || x != x ? x : y;
  }
};

struct MinOp {
  template <typename T>
  static constexpr T kFirst = kHighest<T>;
  template <class D, class V>
  static HWY_INLINE V Vector(D, V x, V y) {
    if constexpr (hwy::IsFloat<hn::TFromD<D>>()) {
      return hn::IfThenElse(hn::Or(hn::Lt(x, y), hn::IsNaN(x)), x, y);
    } else {
      return hn::Min(x, y);
    }
  }
  template <typename T>
  static T Scalar(T x, T y) {
    return x < y || x != x ? x : y;
  }
};

// All lanes of v combined, halves first.
template <class Op, class D>
HWY_INLINE hn::TFromD<D> ReduceLanes(D d, hn::Vec<D> v) {
  using T = hn::TFromD<D>;
  if constexpr (hn::MaxLanes(d) * sizeof(T) > 16) {
    const hn::Half<D> half;
    return ReduceLanes<Op>(
        half, Op::Vector(half, hn::LowerHalf(half, v), hn::UpperHalf(half, v)));
  } else {
    HWY_ALIGN T lanes[hn::MaxLanes(d)];
    hn::Store(v, d, lanes);
    if constexpr (hn::MaxLanes(d) == 2) return Op::Scalar(lanes[0], lanes[1]);
    return Op::Scalar(Op::Scalar(lanes[0], lanes[1]), Op::Scalar(lanes[2], lanes[3]));
  }
}

// Elements up to `end` may be read, but only `length` count: a whole vector and a blend
// are faster than a masked load, which the processor does not prefetch for.
template <typename T, class Op>
HWY_INLINE T ReduceRow(const T* from, int64_t length, const T* end) {
  const Tag<T> d;
  using V = hn::Vec<decltype(d)>;
  const size_t lanes = hn::Lanes(d);
  const V first = hn::Set(d, Op::template kFirst<T>);
  V a = first, b = first;
  size_t left = static_cast<size_t>(length);
  if (left >= 4 * lanes) {
    V c = first, e = first;
    for (; left >= 4 * lanes; left -= 4 * lanes, from += 4 * lanes) {
      a = Op::Vector(d, a, hn::LoadU(d, from));
      b = Op::Vector(d, b, hn::LoadU(d, from + lanes));
      c = Op::Vector(d, c, hn::LoadU(d, from + 2 * lanes));
      e = Op::Vector(d, e, hn::LoadU(d, from + 3 * lanes));
    }
    a = Op::Vector(d, Op::Vector(d, a, b), Op::Vector(d, c, e));
    b = first;
  }
  for (; left >= lanes; left -= lanes, from += lanes) {
    a = Op::Vector(d, a, hn::LoadU(d, from));
  }
  if (left > 0) {
    const V tail = static_cast<size_t>(end - from) >= lanes ? hn::LoadU(d, from)
                                                            : LoadTail(d, from, left);
    b = hn::IfThenElse(hn::FirstN(d, left), tail, first);
  }
  return ReduceLanes<Op>(d, Op::Vector(d, a, b));
}

}  // namespace plait::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // PLAIT_HAVE_VECTORS
#endif  // PLAIT_CPU_SIMD_REDUCE_H_
