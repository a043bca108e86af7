// The plain loops of cpu/row.h.

#include <cmath>
#include <limits>

#include "cpu/simd/kernels.h"

namespace plait::cpu::internal {
namespace {

// Whether a, which comes later, takes the place of b.
template <bool kMax, typename T>
bool Beats(T a, T b) {
  return (kMax ? a > b : a < b) || (a != a && b == b);
}

template <bool kMax, typename T>
T Extreme(const T* x, int64_t n) {
  T best =
      kMax ? -std::numeric_limits<T>::infinity() : std::numeric_limits<T>::infinity();
  for (int64_t i = 0; i < n; ++i) best = Beats<kMax>(x[i], best) ? x[i] : best;
  return best;
}

template <bool kMax, typename T>
int64_t ArgExtreme(const void* row, int64_t n) {
  using A = Accumulate<T>;
  const T* x = static_cast<const T*>(row);
  int64_t best = 0;
  for (int64_t i = 1; i < n; ++i) {
    if (Beats<kMax>(static_cast<A>(x[i]), static_cast<A>(x[best]))) best = i;
  }
  return best;
}

// Sums are doubles here, where a chain of additions may be long.
template <typename T>
T Sum(const T* x, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += x[i];
  return static_cast<T>(sum);
}

template <typename T>
T Dot(const T* x, const T* y, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += static_cast<double>(x[i]) * y[i];
  return static_cast<T>(sum);
}

template <typename T>
T ExpMinus(const T* x, T minus, T* y, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += y[i] = std::exp(x[i] - minus);
  return static_cast<T>(sum);
}

template <typename T>
T SumExpMinus(const T* x, T minus, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += std::exp(x[i] - minus);
  return static_cast<T>(sum);
}

template <typename T>
void Affine(const T* x, T scale, T shift, T* y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] = x[i] * scale + shift;
}

template <typename T>
constexpr RowLoops<T> kPlainRows = {Extreme<true, T>, Extreme<false, T>, Sum<T>,
                                    Dot<T>,           ExpMinus<T>,       SumExpMinus<T>,
                                    Affine<T>};

}  // namespace

void FillPlainRows(Kernels& k) {
  k.row_float = kPlainRows<float>;
  k.row_double = kPlainRows<double>;
  for (int d = 0; d < kNumDTypes; ++d) {
    VisitDType(static_cast<DType>(d), [&]<typename T>() {
      k.arg_max[d] = ArgExtreme<true, T>;
      k.arg_min[d] = ArgExtreme<false, T>;
    });
  }
}

}  // namespace plait::cpu::internal
