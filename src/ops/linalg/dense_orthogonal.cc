// LQ and symmetric eigenvectors by reflections, in float64.

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "ops/linalg/dense.h"

namespace plait {
namespace {

using Vector = std::vector<double>;

double Dot(const double* x, const double* y, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += x[i] * y[i];
  return sum;
}
void Add(double factor, const double* x, double* y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] += factor * x[i];
}

// Finds H = I - tau v v^T with H x = (beta, 0, ..., 0); x becomes v, whose first
// element is 1. Tau is 0 where nothing is to be done.
struct Reflection {
  double tau = 0, beta = 0;
};
Reflection Reflect(double* x, int64_t n) {
  const double alpha = x[0];
  double rest = 0;
  for (int64_t i = 1; i < n; ++i) rest = std::hypot(rest, x[i]);
  if (rest == 0) {
    x[0] = 1;
    return {0, alpha};
  }
  const double beta = -std::copysign(std::hypot(alpha, rest), alpha);
  for (int64_t i = 1; i < n; ++i) x[i] /= alpha - beta;
  x[0] = 1;
  return {(beta - alpha) / beta, beta};
}

// A = Q T Q^T for a symmetric A and a tridiagonal T. The lower part of column k below
// the diagonal becomes the reflection's vector.
void Tridiagonalize(int64_t n, Vector& a, Vector& taus, Vector& d, Vector& e) {
  Vector v(n), w(n);
  for (int64_t k = 0; k + 1 < n; ++k) {
    const int64_t m = n - k - 1;
    for (int64_t i = 0; i < m; ++i) v[i] = a[(k + 1 + i) * n + k];
    const Reflection r = Reflect(v.data(), m);
    taus[k] = r.tau;
    d[k] = a[k * n + k];
    e[k] = r.beta;
    double* corner = &a[(k + 1) * n + k + 1];
    if (r.tau != 0) {
      // The corner C is symmetric and stored in full: C - v w^T - w v^T.
      for (int64_t i = 0; i < m; ++i) w[i] = r.tau * Dot(corner + i * n, v.data(), m);
      Add(-0.5 * r.tau * Dot(w.data(), v.data(), m), v.data(), w.data(), m);
      for (int64_t i = 0; i < m; ++i) {
        double* row = corner + i * n;
        for (int64_t j = 0; j < m; ++j) row[j] -= v[i] * w[j] + w[i] * v[j];
      }
    }
    for (int64_t i = 0; i < m; ++i) a[(k + 1 + i) * n + k] = v[i];
  }
  if (n > 0) d[n - 1] = a[(n - 1) * n + n - 1];
}

// u = Q^T, from the reflections.
void FormTransposed(int64_t n, const Vector& a, const Vector& taus, Vector& u) {
  Vector q(n * n, 0.0), v(n), row(n);
  for (int64_t i = 0; i < n; ++i) q[i * n + i] = 1;
  for (int64_t k = n - 2; k >= 0; --k) {
    const int64_t m = n - k - 1;
    for (int64_t i = 0; i < m; ++i) v[i] = a[(k + 1 + i) * n + k];
    std::fill_n(row.begin(), m, 0.0);
    double* corner = &q[(k + 1) * n + k + 1];
    for (int64_t i = 0; i < m; ++i) Add(v[i], corner + i * n, row.data(), m);
    for (int64_t i = 0; i < m; ++i) Add(-taus[k] * v[i], row.data(), corner + i * n, m);
  }
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j < n; ++j) u[i * n + j] = q[j * n + i];
  }
}

// One sweep of implicit QL with Wilkinson's shift over rows first ... last of the
// tridiagonal matrix; rotations are applied to the rows of u.
void Sweep(int64_t n, int64_t first, int64_t last, Vector& d, Vector& e, Vector& u) {
  const double half = (d[first + 1] - d[first]) / (2 * e[first]);
  const double root = std::copysign(std::hypot(half, 1), half);
  double g = d[last] - d[first] + e[first] / (half + root);
  double s = 1, c = 1, p = 0;
  for (int64_t i = last - 1; i >= first; --i) {
    const double f = s * e[i], b = c * e[i], r = std::hypot(f, g);
    e[i + 1] = r;
    if (r == 0) {  // the matrix falls apart here; the rest waits for another sweep
      d[i + 1] -= p;
      e[last] = 0;
      return;
    }
    s = f / r;
    c = g / r;
    g = d[i + 1] - p;
    const double t = (d[i] - g) * s + 2 * c * b;
    p = s * t;
    d[i + 1] = g + p;
    g = c * t - b;
    double *x = &u[i * n], *y = x + n;
    for (int64_t k = 0; k < n; ++k) {
      const double old = y[k];
      y[k] = s * x[k] + c * old;
      x[k] = c * x[k] - s * old;
    }
  }
  d[first] -= p;
  e[first] = g;
  e[last] = 0;
}

// T's eigenvalues into d; e is used up.
bool Diagonalize(int64_t n, Vector& d, Vector& e, Vector& u) {
  constexpr double kEpsilon = std::numeric_limits<double>::epsilon();
  constexpr int kMostSweeps = 64;
  for (int64_t first = 0; first < n; ++first) {
    for (int sweep = 0;; ++sweep) {
      int64_t last = first;
      while (last + 1 < n &&
             !(std::abs(e[last]) <=
               kEpsilon * (std::abs(d[last]) + std::abs(d[last + 1])))) {
        ++last;
      }
      if (last == first) break;
      if (sweep == kMostSweeps) return false;
      Sweep(n, first, last, d, e, u);
    }
  }
  return true;
}

}  // namespace

template <typename T>
void FactorLQ(int64_t m, int64_t n, Matrix<T> a, Matrix<T> l) {
  Vector x(m * n), taus(m);
  for (int64_t i = 0; i < m; ++i) std::copy_n(a.row(i), n, &x[i * n]);
  for (int64_t i = 0; i < m; ++i) {
    double* v = &x[i * n + i];
    const Reflection r = Reflect(v, n - i);
    taus[i] = r.tau;
    std::fill_n(l.row(i), m, T{0});
    for (int64_t j = 0; j < i; ++j) l(i, j) = static_cast<T>(x[i * n + j]);
    l(i, i) = static_cast<T>(r.beta);
    for (int64_t j = i + 1; j < m; ++j) {
      double* row = &x[j * n + i];
      Add(-r.tau * Dot(row, v, n - i), v, row, n - i);
    }
  }
  Vector q(m * n, 0.0);
  for (int64_t i = 0; i < m; ++i) q[i * n + i] = 1;
  for (int64_t i = m - 1; i >= 0; --i) {
    const double* v = &x[i * n + i];
    for (int64_t j = i; j < m; ++j) {
      double* row = &q[j * n + i];
      Add(-taus[i] * Dot(row, v, n - i), v, row, n - i);
    }
  }
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) a(i, j) = static_cast<T>(q[i * n + j]);
  }
}

template <typename T>
bool EigenSymmetric(int64_t n, Matrix<T> a, T* values) {
  Vector x(n * n), u(n * n), taus(n), d(n), e(n);
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j <= i; ++j) x[i * n + j] = x[j * n + i] = a(i, j);
  }
  Tridiagonalize(n, x, taus, d, e);
  FormTransposed(n, x, taus, u);
  if (n > 0) e[n - 1] = 0;
  if (!Diagonalize(n, d, e, u)) return false;
  std::vector<int64_t> order(n);
  std::iota(order.begin(), order.end(), int64_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](int64_t i, int64_t j) { return d[i] < d[j]; });
  for (int64_t i = 0; i < n; ++i) {
    const double* row = &u[order[i] * n];
    const double* top = std::max_element(
        row, row + n, [](double p, double q) { return std::abs(p) < std::abs(q); });
    const double sign = *top < 0 ? -1 : 1;
    for (int64_t j = 0; j < n; ++j) a(i, j) = static_cast<T>(sign * row[j]);
    values[i] = static_cast<T>(d[order[i]]);
  }
  return true;
}

template void FactorLQ(int64_t, int64_t, Matrix<float>, Matrix<float>);
template void FactorLQ(int64_t, int64_t, Matrix<double>, Matrix<double>);
template bool EigenSymmetric(int64_t, Matrix<float>, float*);
template bool EigenSymmetric(int64_t, Matrix<double>, double*);

}  // namespace plait
