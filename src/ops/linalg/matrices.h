// Batches of small dense matrices, for the operators named _linalg_*.
//
// A batch of matrices is an array whose last two axes are rows and columns. Kernels see
// one matrix at a time, in double: these operators are about exactness, and products of
// large matrices have their own.

#ifndef PLAIT_OPS_LINALG_MATRICES_H_
#define PLAIT_OPS_LINALG_MATRICES_H_

#include <vector>

#include "base/parallel.h"
#include "graph/math.h"
#include "graph/op.h"

namespace plait {

struct Matrix {
  int64_t rows = 0, cols = 0;
  std::vector<double> v;

  Matrix() = default;
  Matrix(int64_t rows, int64_t cols)
      : rows(rows), cols(cols), v(static_cast<size_t>(rows * cols)) {}
  double& operator()(int64_t i, int64_t j) {
    return v[static_cast<size_t>(i * cols + j)];
  }
  double operator()(int64_t i, int64_t j) const {
    return v[static_cast<size_t>(i * cols + j)];
  }
};

inline Matrix Transposed(const Matrix& a) {
  Matrix t(a.cols, a.rows);
  for (int64_t i = 0; i < a.rows; ++i)
    for (int64_t j = 0; j < a.cols; ++j) t(j, i) = a(i, j);
  return t;
}

inline Matrix Product(const Matrix& a, const Matrix& b) {
  Matrix c(a.rows, b.cols);
  for (int64_t i = 0; i < a.rows; ++i)
    for (int64_t k = 0; k < a.cols; ++k)
      for (int64_t j = 0; j < b.cols; ++j) c(i, j) += a(i, k) * b(k, j);
  return c;
}

// Calls f(inputs, outputs) for every matrix of the batch that input 0 is. Other arrays
// have the same leading axes and two, one or no axes behind them.
template <typename F>
void ForEachMatrix(const KernelArgs& args, int axes_of_first, F&& f) {
  const Shape& first = args.in[0].shape();
  const int leading = first.rank() - axes_of_first;
  const auto empty = [&](const View& v) {
    const int rank = v.shape().rank() - leading;
    Matrix m;
    m.cols = rank > 0 ? v.shape().back() : 1;
    m.rows = rank > 1 ? v.shape()[leading] : 1;
    m.v.resize(static_cast<size_t>(m.rows * m.cols));
    return m;
  };
  ParallelFor(first.size(0, leading), 1, [&](int64_t begin, int64_t end) {
    std::vector<Matrix> in, out;
    for (const View& v : args.in) in.push_back(empty(v));
    for (int64_t b = begin; b < end; ++b) {
      for (size_t k = 0; k < in.size(); ++k) {
        const auto n = static_cast<int64_t>(in[k].v.size());
        VisitFloat(args.in[k].dtype, [&]<typename T>() {
          const T* src = args.in[k].data<const T>() + b * n;
          for (int64_t i = 0; i < n; ++i) {
            in[k].v[i] = static_cast<double>(static_cast<Accumulate<T>>(src[i]));
          }
        });
      }
      out.clear();
      for (const View& v : args.out) out.push_back(empty(v));
      f(static_cast<const std::vector<Matrix>&>(in), out);
      for (size_t k = 0; k < out.size(); ++k) {
        const auto n = static_cast<int64_t>(out[k].v.size());
        VisitFloat(args.out[k].dtype, [&]<typename T>() {
          T* dst = args.out[k].data<T>() + b * n;
          for (int64_t i = 0; i < n; ++i) {
            dst[i] = static_cast<T>(static_cast<Accumulate<T>>(out[k].v[i]));
          }
        });
      }
    }
  });
}

// Matrices with two axes at the least; square ones where asked. Unknown shapes pass.
inline bool CheckMatrices(const char* op, const Shape& a, bool square) {
  if (!a.rank_known()) return false;
  Check(a.rank() >= 2, op, ": A ", a, " is no matrix; at least two axes were expected");
  const int64_t m = a[a.rank() - 2], n = a.back();
  Check(!square || m == n || m == kUnknownSize || n == kUnknownSize, op, ": A ", a,
        " is not square; equal sizes of the last two axes were expected");
  return a.known();
}

// The words of gradients, over batches.
Value MatMulOf(const Value& a, const Value& b, bool transpose_a = false,
               bool transpose_b = false, double alpha = 1);  // _linalg_gemm2
Value TransposedMatrices(const Value& a);
// A triangle of A, its diagonal multiplied by `diagonal`; zeros elsewhere.
Value Triangle(const Value& a, bool lower, double diagonal = 1);
Value TriangularMultiply(const Value& a, const Value& b, bool transpose, bool rightside,
                         bool lower, double alpha = 1);
Value TriangularSolve(const Value& a, const Value& b, bool transpose, bool rightside,
                      bool lower, double alpha = 1);

}  // namespace plait

#endif  // PLAIT_OPS_LINALG_MATRICES_H_
