// What operators on the last two axes share: batches, dtypes, words for gradients.

#ifndef PLAIT_OPS_LINALG_MATRICES_H_
#define PLAIT_OPS_LINALG_MATRICES_H_

#include <algorithm>
#include <optional>

#include "base/parallel.h"
#include "base/small_vector.h"
#include "cpu/pointwise.h"
#include "cpu/scratch.h"
#include "graph/math.h"
#include "ops/linalg/dense.h"

namespace plait {

// ---------------------------------------------------------------- shapes

// Number of matrices in an array.
inline int64_t CountMatrices(const Shape& x) {
  return x.size(0, x.rank() - 2);
}

inline void CheckMatrices(const Shape& x, const char* op) {
  Check(!x.rank_known() || x.rank() >= 2, op, ": x has shape ", x,
        "; matrices in the last two axes were expected");
}

inline void CheckSquare(const Shape& x, const char* op) {
  CheckMatrices(x, op);
  if (!x.rank_known()) return;
  const int64_t m = x[x.rank() - 2], n = x.back();
  Check(m == n || m == kUnknownSize || n == kUnknownSize, op, ": x has shape ", x,
        "; square matrices in the last two axes were expected");
}

// The shape of one number for each matrix; (1,) for a single one.
inline Shape OneEach(const Shape& x) {
  return x.rank() > 2 ? Shape(x.begin(), x.end() - 2) : Shape{1};
}

// ---------------------------------------------------------------- kernels

// Arrays of float or double; halves by float copies, which go back when it ends.
template <typename T>
class Floats {
 public:
  explicit Floats(const KernelArgs& args) : args_(args) {
    for (const View& x : args.in) {
      in_.push_back(Place(x));
      if (IsHalf(x.dtype)) {
        cpu::Convert(x.ptr, x.dtype, in_.back(), DType::kFloat32, x.size());
      }
    }
    for (const View& y : args.out) out_.push_back(Place(y));
  }
  T* in(int i) const { return static_cast<T*>(in_[i]); }
  T* out(int i) const { return static_cast<T*>(out_[i]); }
  void Finish() const {
    for (size_t i = 0; i < args_.out.size(); ++i) {
      const View& y = args_.out[i];
      if (!IsHalf(y.dtype)) continue;
      cpu::Convert(out_[i], DType::kFloat32, y.ptr, y.dtype, y.size());
    }
  }

 private:
  void* Place(const View& x) {
    if (!IsHalf(x.dtype)) return x.ptr;
    return copies_[used_++].emplace(x.size() * sizeof(float)).template As<void>();
  }

  const KernelArgs& args_;
  SmallVector<void*, 8> in_, out_;
  std::optional<cpu::Scratch> copies_[8];
  int used_ = 0;
};

// Calls f(const Floats<T>&) with T float or double.
template <typename F>
void InFloats(const KernelArgs& args, F&& f) {
  if (args.out[0].dtype == DType::kFloat64) {
    f(Floats<double>(args));
  } else {
    const Floats<float> arrays(args);
    f(arrays);
    arrays.Finish();
  }
}

// Calls f(i) for each of `count` matrices: several at once, or one that uses all
// threads itself. `work`: operations for one.
template <typename F>
void ForEachMatrix(int64_t count, double work, F&& f) {
  if (count == 1) return f(int64_t{0});
  const auto grain = static_cast<int64_t>(1 + 1e5 / (1 + work));
  ParallelFor(count, grain, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) f(i);
  });
}

// Zeros in one triangle of a square matrix, without its diagonal.
template <typename T>
void ClearTriangle(bool lower, int64_t n, Matrix<T> a) {
  for (int64_t i = 0; i < n; ++i) {
    if (lower) {
      std::fill_n(a.row(i), i, T{0});
    } else {
      std::fill_n(a.row(i) + i + 1, n - i - 1, T{0});
    }
  }
}

// ---------------------------------------------------------------- gradients

// alpha op(A) op(B), matrix by matrix.
inline Value mm(const Value& a, const Value& b, bool transpose_a = false,
                bool transpose_b = false, double alpha = 1) {
  return Make("_linalg_gemm2", {a, b},
              {{"transpose_a", Attr(transpose_a)},
               {"transpose_b", Attr(transpose_b)},
               {"alpha", Attr(alpha)}});
}

inline Value transposed(const Value& x) {
  const int rank = x.shape().rank();
  Shape axes;
  for (int i = 0; i < rank - 2; ++i) axes.Append(i);
  axes.Append(rank - 1);
  axes.Append(rank - 2);
  return transpose(x, axes);
}

// x with zeros outside of a triangle, and its diagonal times a number.
inline Value triangle(const Value& x, bool lower, double diagonal = 1) {
  return Make("_linalg_triangle", {x},
              {{"lower", Attr(lower)}, {"diagonal", Attr(diagonal)}});
}

// The triangle of x, and its mirror image: a symmetric matrix.
inline Value mirrored(const Value& x, bool lower) {
  const Value half = triangle(x, lower, 0.5);
  return half + transposed(half);
}

// The X of op(A) X = B, or X op(A) = B.
inline Value solve(const Value& a, const Value& b, const Triangle& t,
                   double alpha = 1) {
  return Make("_linalg_trsm", {a, b},
              {{"transpose", Attr(t.transposed)},
               {"rightside", Attr(t.right)},
               {"lower", Attr(t.lower)},
               {"alpha", Attr(alpha)}});
}

}  // namespace plait

#endif  // PLAIT_OPS_LINALG_MATRICES_H_
