// Dense linear algebra on one matrix: triangular solves and factorisations.
//
// Matrices are row-major, in float or double. Large ones are cut in halves again and
// again, so that most work is done by cpu::Gemm. Functions use the calling thread's
// team and keep no state.

#ifndef PLAIT_OPS_LINALG_DENSE_H_
#define PLAIT_OPS_LINALG_DENSE_H_

#include <cstdint>

namespace plait {

template <typename T>
struct Matrix {
  T* data = nullptr;
  int64_t stride = 0;  // elements from one row to the next

  T& operator()(int64_t i, int64_t j) const { return data[i * stride + j]; }
  T* row(int64_t i) const { return data + i * stride; }
  Matrix From(int64_t i, int64_t j) const { return {data + i * stride + j, stride}; }
};

// How a triangular matrix is used.
struct Triangle {
  bool lower = true;
  bool transposed = false;
  bool right = false;  // it stands to the right of the other matrix
  bool unit = false;   // its diagonal counts as ones
  // Whether the matrix is lower once it is transposed as told.
  bool acts_lower() const { return lower != transposed; }
};

// B (m, n) becomes the X of op(A) X = B, or of X op(A) = B. Only A's triangle is read.
template <typename T>
void SolveTriangle(const Triangle& t, int64_t m, int64_t n, Matrix<T> a, Matrix<T> b);

// The lower triangle of A becomes the L of A = L L^T; the upper one is not read, and
// holds anything afterwards. False when A is not positive definite.
template <typename T>
[[nodiscard]] bool FactorCholesky(int64_t n, Matrix<T> a);

// A becomes L (unit diagonal) and U of P A = L U. Row i was swapped with row pivots[i].
// False when U has a zero on its diagonal.
template <typename T>
bool FactorLU(int64_t n, Matrix<T> a, int64_t* pivots);

// The inverse, from factors; `out` is overwritten.
template <typename T>
void InvertLU(int64_t n, Matrix<T> lu, const int64_t* pivots, Matrix<T> out);

// A (m, n), m <= n: becomes Q (orthonormal rows), and `l` (m, m) the lower triangle of
// A = L Q. Signs are LAPACK's: those of Householder's reflections.
template <typename T>
void FactorLQ(int64_t m, int64_t n, Matrix<T> a, Matrix<T> l);

// A, symmetric (its lower triangle is read), becomes U: row i is the eigenvector of
// values[i], its element of largest magnitude positive. Values ascend. False when the
// iteration does not end, as with NaN in A.
template <typename T>
[[nodiscard]] bool EigenSymmetric(int64_t n, Matrix<T> a, T* values);

}  // namespace plait

#endif  // PLAIT_OPS_LINALG_DENSE_H_
