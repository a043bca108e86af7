// Triangular solves, Cholesky and LU, by halves.

#include "ops/linalg/dense.h"

#include <algorithm>
#include <cmath>

#include "cpu/gemm.h"

namespace plait {
namespace {

constexpr int64_t kSmall = 32;

// C (m, n) -= op(A) (m, k) op(B) (k, n).
template <typename T>
void Subtract(bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k, Matrix<T> a,
              Matrix<T> b, Matrix<T> c) {
  cpu::Gemm<T>(trans_a, trans_b, m, n, k, -1, a.data, a.stride, b.data, b.stride, 1,
               c.data, c.stride);
}

// Row by row: row i of B loses its share of the rows that are solved.
template <typename T>
void SolveSmallLeft(const Triangle& t, int64_t m, int64_t n, Matrix<T> a, Matrix<T> b) {
  for (int64_t step = 0; step < m; ++step) {
    const int64_t i = t.acts_lower() ? step : m - 1 - step;
    T* row = b.row(i);
    for (int64_t solved = 0; solved < step; ++solved) {
      const int64_t k = t.acts_lower() ? solved : m - 1 - solved;
      const T factor = t.transposed ? a(k, i) : a(i, k);
      const T* other = b.row(k);
      for (int64_t j = 0; j < n; ++j) row[j] -= factor * other[j];
    }
    if (t.unit) continue;
    const T diagonal = a(i, i);
    for (int64_t j = 0; j < n; ++j) row[j] /= diagonal;
  }
}

// Every row of B by itself, element by element.
template <typename T>
void SolveSmallRight(const Triangle& t, int64_t m, int64_t n, Matrix<T> a,
                     Matrix<T> b) {
  for (int64_t i = 0; i < m; ++i) {
    T* row = b.row(i);
    for (int64_t step = 0; step < n; ++step) {
      const int64_t j = t.acts_lower() ? n - 1 - step : step;
      T value = row[j];
      for (int64_t solved = 0; solved < step; ++solved) {
        const int64_t k = t.acts_lower() ? n - 1 - solved : solved;
        value -= row[k] * (t.transposed ? a(j, k) : a(k, j));
      }
      row[j] = t.unit ? value : value / a(j, j);
    }
  }
}

// Swaps rows of A (columns [0, n)) as the pivots say, `from` being their first row.
template <typename T>
void SwapRows(int64_t n, Matrix<T> a, const int64_t* pivots, int64_t from, int64_t to) {
  for (int64_t i = from; i < to; ++i) {
    if (pivots[i] != i) std::swap_ranges(a.row(i), a.row(i) + n, a.row(pivots[i]));
  }
}

template <typename T>
void FactorColumns(int64_t m, int64_t n, Matrix<T> a, int64_t* pivots) {
  for (int64_t j = 0; j < n; ++j) {
    int64_t best = j;
    for (int64_t i = j + 1; i < m; ++i) {
      if (std::abs(a(i, j)) > std::abs(a(best, j))) best = i;
    }
    pivots[j] = best;
    if (best != j) std::swap_ranges(a.row(j), a.row(j) + n, a.row(best));
    const T pivot = a(j, j);
    if (pivot == 0) continue;
    for (int64_t i = j + 1; i < m; ++i) {
      const T factor = a(i, j) /= pivot;
      for (int64_t k = j + 1; k < n; ++k) a(i, k) -= factor * a(j, k);
    }
  }
}

// LU of m rows and n <= m columns.
template <typename T>
void FactorPanel(int64_t m, int64_t n, Matrix<T> a, int64_t* pivots) {
  if (n <= kSmall / 2) return FactorColumns(m, n, a, pivots);
  const int64_t h = n / 2;
  const Matrix<T> right = a.From(0, h), corner = a.From(h, h);
  FactorPanel(m, h, a, pivots);
  SwapRows(n - h, right, pivots, 0, h);
  SolveTriangle({.unit = true}, h, n - h, a, right);
  Subtract(false, false, m - h, n - h, h, a.From(h, 0), right, corner);
  FactorPanel(m - h, n - h, corner, pivots + h);
  for (int64_t i = h; i < n; ++i) pivots[i] += h;
  SwapRows(h, a, pivots, h, n);
}

}  // namespace

template <typename T>
void SolveTriangle(const Triangle& t, int64_t m, int64_t n, Matrix<T> a, Matrix<T> b) {
  const int64_t size = t.right ? n : m;
  if (m == 0 || n == 0) return;
  if (size <= kSmall) {
    return t.right ? SolveSmallRight(t, m, n, a, b) : SolveSmallLeft(t, m, n, a, b);
  }
  // A is (A11 0; A21 A22) or (A11 A12; 0 A22) as stored; `across` is its full block.
  const int64_t h = size / 2, rest = size - h;
  const Matrix<T> last = a.From(h, h), across = t.lower ? a.From(h, 0) : a.From(0, h);
  if (t.right) {
    const Matrix<T> right = b.From(0, h);
    if (t.acts_lower()) {
      SolveTriangle(t, m, rest, last, right);
      Subtract(false, t.transposed, m, h, rest, right, across, b);
      SolveTriangle(t, m, h, a, b);
    } else {
      SolveTriangle(t, m, h, a, b);
      Subtract(false, t.transposed, m, rest, h, b, across, right);
      SolveTriangle(t, m, rest, last, right);
    }
    return;
  }
  const Matrix<T> below = b.From(h, 0);
  if (t.acts_lower()) {
    SolveTriangle(t, h, n, a, b);
    Subtract(t.transposed, false, rest, n, h, across, b, below);
    SolveTriangle(t, rest, n, last, below);
  } else {
    SolveTriangle(t, rest, n, last, below);
    Subtract(t.transposed, false, h, n, rest, across, below, b);
    SolveTriangle(t, h, n, a, b);
  }
}

template <typename T>
bool FactorCholesky(int64_t n, Matrix<T> a) {
  if (n > kSmall) {
    const int64_t h = n / 2;
    const Matrix<T> below = a.From(h, 0), corner = a.From(h, h);
    if (!FactorCholesky(h, a)) return false;
    SolveTriangle({.transposed = true, .right = true}, n - h, h, a, below);
    // Block rows of the corner, up to its diagonal.
    for (int64_t i = 0; i < n - h; i += 4 * kSmall) {
      const int64_t rows = std::min(4 * kSmall, n - h - i);
      Subtract(false, true, rows, i + rows, h, below.From(i, 0), below,
               corner.From(i, 0));
    }
    return FactorCholesky(n - h, corner);
  }
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j <= i; ++j) {
      T sum = a(i, j);
      for (int64_t k = 0; k < j; ++k) sum -= a(i, k) * a(j, k);
      if (j < i) {
        a(i, j) = sum / a(j, j);
      } else if (!(sum > 0) || std::isinf(sum)) {
        return false;
      } else {
        a(i, i) = std::sqrt(sum);
      }
    }
  }
  return true;
}

template <typename T>
bool FactorLU(int64_t n, Matrix<T> a, int64_t* pivots) {
  FactorPanel(n, n, a, pivots);
  for (int64_t i = 0; i < n; ++i) {
    if (a(i, i) == 0) return false;
  }
  return true;
}

template <typename T>
void InvertLU(int64_t n, Matrix<T> lu, const int64_t* pivots, Matrix<T> out) {
  for (int64_t i = 0; i < n; ++i) {
    std::fill_n(out.row(i), n, T{0});
    out(i, i) = 1;
  }
  SwapRows(n, out, pivots, 0, n);
  SolveTriangle({.unit = true}, n, n, lu, out);
  SolveTriangle({.lower = false}, n, n, lu, out);
}

#define PLAIT_DENSE(T)                                                      \
  template void SolveTriangle(const Triangle&, int64_t, int64_t, Matrix<T>, \
                              Matrix<T>);                                   \
  template bool FactorCholesky(int64_t, Matrix<T>);                         \
  template bool FactorLU(int64_t, Matrix<T>, int64_t*);                     \
  template void InvertLU(int64_t, Matrix<T>, const int64_t*, Matrix<T>);
PLAIT_DENSE(float)
PLAIT_DENSE(double)
#undef PLAIT_DENSE

}  // namespace plait
