// The vector loops of cpu/row.h.

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/simd/row_loops.cc"
#include "cpu/simd/targets.h"
#include "hwy/foreach_target.h"
//
#include "cpu/simd/reduce.h"
#include "cpu/simd/words.h"

HWY_BEFORE_NAMESPACE();
namespace plait::cpu::HWY_NAMESPACE {

#if PLAIT_HAVE_VECTORS
namespace {

template <typename T, class Op>
T Reduce(const T* x, int64_t n) {
  return ReduceRow<T, Op>(x, n, x + n);
}

// Adds up term(first index, elements or 0 for a whole vector) over a row, in four
// accumulators. The lanes of a tail that do not count must be zero.
template <typename T, class Term>
HWY_INLINE T SumTerms(int64_t n, const Term& term) {
  const Tag<T> d;
  using V = hn::Vec<decltype(d)>;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  V a = hn::Zero(d), b = a, c = a, e = a;
  int64_t i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
    a = term.Add(d, i, a);
    b = term.Add(d, i + lanes, b);
    c = term.Add(d, i + 2 * lanes, c);
    e = term.Add(d, i + 3 * lanes, e);
  }
  for (; i + lanes <= n; i += lanes) a = term.Add(d, i, a);
  if (i < n) b = term.AddTail(d, i, static_cast<size_t>(n - i), b);
  return ReduceLanes<SumOp>(d, hn::Add(hn::Add(a, b), hn::Add(c, e)));
}

template <typename T>
struct DotTerm {
  const T *x, *y;
  template <class D, class V>
  HWY_INLINE V Add(D d, int64_t i, V sum) const {
    return hn::MulAdd(hn::LoadU(d, x + i), hn::LoadU(d, y + i), sum);
  }
  template <class D, class V>
  HWY_INLINE V AddTail(D d, int64_t i, size_t n, V sum) const {
    return hn::MulAdd(LoadTail(d, x + i, n), LoadTail(d, y + i, n), sum);
  }
};
template <typename T>
T Dot(const T* x, const T* y, int64_t n) {
  return SumTerms<T>(n, DotTerm<T>{x, y});
}

template <typename T, bool kStore>
struct ExpTerm {
  const T* x;
  T minus;
  T* y;
  template <class D, class V>
  HWY_INLINE V Add(D d, int64_t i, V sum) const {
    const V e = Exp(d, hn::Sub(hn::LoadU(d, x + i), hn::Set(d, minus)));
    if constexpr (kStore) hn::StoreU(e, d, y + i);
    return hn::Add(sum, e);
  }
  template <class D, class V>
  HWY_INLINE V AddTail(D d, int64_t i, size_t n, V sum) const {
    const V e = Exp(d, hn::Sub(LoadTail(d, x + i, n), hn::Set(d, minus)));
    if constexpr (kStore) StoreTail(e, d, y + i, n);
    return hn::Add(sum, hn::IfThenElseZero(hn::FirstN(d, n), e));
  }
};
template <typename T>
T ExpMinus(const T* x, T minus, T* y, int64_t n) {
  return SumTerms<T>(n, ExpTerm<T, true>{x, minus, y});
}
template <typename T>
T SumExpMinus(const T* x, T minus, int64_t n) {
  return SumTerms<T>(n, ExpTerm<T, false>{x, minus, nullptr});
}

template <typename T>
void Affine(const T* x, T scale, T shift, T* y, int64_t n) {
  const Tag<T> d;
  const auto a = hn::Set(d, scale), b = hn::Set(d, shift);
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    hn::StoreU(hn::Add(hn::Mul(hn::LoadU(d, x + i), a), b), d, y + i);
  }
  if (i < n) {
    const size_t left = static_cast<size_t>(n - i);
    StoreTail(hn::Add(hn::Mul(LoadTail(d, x + i, left), a), b), d, y + i, left);
  }
}

template <typename T>
void FillType(RowLoops<T>& row) {
  row = {Reduce<T, MaxOp>, Reduce<T, MinOp>, Reduce<T, SumOp>, Dot<T>,
         ExpMinus<T>,      SumExpMinus<T>,   Affine<T>};
}

}  // namespace

void FillRows(Kernels& k) {
  FillType<float>(k.row_float);
  FillType<double>(k.row_double);
}

#else

void FillRows(Kernels&) {}

#endif

}  // namespace plait::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plait::cpu {
HWY_EXPORT(FillRows);
void internal::FillRows(Kernels& k) {
  HWY_DYNAMIC_DISPATCH(FillRows)(k);
}
}  // namespace plait::cpu
#endif
