// Row words: vector code for one contiguous row of floats or doubles; ArgMax and ArgMin
// of any dtype.
//
// For operators that are loops over rows: softmax, norms, argmax, cross entropy. Sums
// are added up in four vectors, as a tree, and depend on the row alone. Rows may be
// empty unless it is said otherwise.

#ifndef PLAIT_CPU_ROW_H_
#define PLAIT_CPU_ROW_H_

#include <cstdint>
#include <type_traits>

#include "cpu/simd/kernels.h"

namespace plait::cpu::row {

template <typename T>
const RowLoops<T>& Loops() {
  static_assert(std::is_same_v<T, float> || std::is_same_v<T, double>);
  if constexpr (std::is_same_v<T, float>) {
    return GetKernels().row_float;
  } else {
    return GetKernels().row_double;
  }
}

// NaN if there is one; of no elements, -infinity and infinity.
template <typename T>
T Max(const T* x, int64_t n) {
  return Loops<T>().max(x, n);
}
template <typename T>
T Min(const T* x, int64_t n) {
  return Loops<T>().min(x, n);
}

template <typename T>
T Sum(const T* x, int64_t n) {
  return Loops<T>().sum(x, n);
}

// The sum of x[i] * y[i], by fused multiply-add.
template <typename T>
T Dot(const T* x, const T* y, int64_t n) {
  return Loops<T>().dot(x, y, n);
}

// y[i] = exp(x[i] - minus); returns their sum. y may be x.
template <typename T>
T ExpMinus(const T* x, T minus, T* y, int64_t n) {
  return Loops<T>().exp_minus(x, minus, y, n);
}

// The sum of exp(x[i] - minus).
template <typename T>
T SumExpMinus(const T* x, T minus, int64_t n) {
  return Loops<T>().sum_exp_minus(x, minus, n);
}

// y[i] = x[i] * scale + shift, rounded twice. y may be x.
template <typename T>
void Affine(const T* x, T scale, T shift, T* y, int64_t n) {
  Loops<T>().affine(x, scale, shift, y, n);
}

// The index of the first of the largest (smallest) elements; NaN beats every number.
// REQUIRES: n > 0.
template <typename T>
int64_t ArgMax(const T* x, int64_t n) {
  return GetKernels().arg_max[static_cast<int>(kDTypeOf<T>)](x, n);
}
template <typename T>
int64_t ArgMin(const T* x, int64_t n) {
  return GetKernels().arg_min[static_cast<int>(kDTypeOf<T>)](x, n);
}

}  // namespace plait::cpu::row

#endif  // PLAIT_CPU_ROW_H_
