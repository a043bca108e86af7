// Products of row-major matrices for the operators of linear algebra.

#ifndef PLAIT_OPS_LINALG_MATMUL_H_
#define PLAIT_OPS_LINALG_MATMUL_H_

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "base/dtype.h"
#include "base/parallel.h"
#include "cpu/gemm.h"
#include "cpu/pointwise.h"
#include "cpu/scratch.h"
#include "graph/math.h"

namespace plait {

// C (m, n) = op(A) (m, k) * op(B) (k, n), densely stored; op transposes where told.
struct MatMul {
  bool trans_a = false, trans_b = false;
  int64_t m = 0, n = 0, k = 0;

  // Elements from one stored row to the next.
  int64_t lda() const { return trans_a ? m : k; }
  int64_t ldb() const { return trans_b ? k : n; }
  double flops() const { return 2.0 * static_cast<double>(m) * n * k; }
};

// The plain product: every element is one sum, in float for the halves.
template <typename T>
void PlainMatMul(const MatMul& p, const T* a, const T* b, T* c) {
  const int64_t a_row = p.trans_a ? 1 : p.k, a_col = p.trans_a ? p.m : 1;
  const int64_t b_row = p.trans_b ? 1 : p.n, b_col = p.trans_b ? p.k : 1;
  const int64_t grain = std::max<int64_t>(1, 16384 / std::max<int64_t>(1, p.n * p.k));
  ParallelFor(p.m, grain, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      for (int64_t j = 0; j < p.n; ++j) {
        Accumulate<T> total{};
        for (int64_t l = 0; l < p.k; ++l) {
          total += static_cast<Accumulate<T>>(a[i * a_row + l * a_col]) *
                   static_cast<Accumulate<T>>(b[l * b_row + j * b_col]);
        }
        c[i * p.n + j] = static_cast<T>(total);
      }
    }
  });
}

// The same by the tuned kernels of cpu/gemm.h, which have every dtype but bool:
// C = op(A) op(B) + beta C, for `batch` matrices one behind the other.
template <typename T>
void FastMatMul(const MatMul& p, const T* a, const T* b, T* c, int64_t batch = 1,
                double beta = 0) {
  if (batch == 1) {
    cpu::Gemm(p.trans_a, p.trans_b, p.m, p.n, p.k, 1, a, p.lda(), b, p.ldb(), beta, c,
              p.n);
  } else {
    cpu::GemmBatch(batch, p.trans_a, p.trans_b, p.m, p.n, p.k, 1, a, p.lda(), p.m * p.k,
                   b, p.ldb(), p.k * p.n, beta, c, p.n, p.m * p.n);
  }
}

// Calls f.operator()<T>() for every dtype but bool.
template <typename F>
void VisitNumber(DType dtype, F&& f) {
  VisitDType(dtype, [&]<typename T>() {
    if constexpr (!std::is_same_v<T, bool>) f.template operator()<T>();
  });
}

inline const char* DeclineBool(DType dtype) {
  return dtype == DType::kBool ? "bool" : nullptr;
}

// A kernel for factors of one dtype, for any two: they are converted to that of the
// product.
template <auto kKernel, typename P>
void InOneType(const P& p, const KernelArgs& args) {
  const DType dtype = args.out[0].dtype;
  if (args.in[0].dtype == dtype && args.in[1].dtype == dtype) return kKernel(p, args);
  const auto bytes = [&](const View& x) {
    return x.dtype == dtype ? 0 : static_cast<size_t>(x.size()) * SizeOf(dtype);
  };
  const cpu::Scratch a(bytes(args.in[0])), b(bytes(args.in[1]));
  const cpu::Scratch* const scratch[] = {&a, &b};
  View in[2];
  for (int i = 0; i < 2; ++i) {
    in[i] = args.in[i];
    if (in[i].dtype == dtype) continue;
    in[i].ptr = scratch[i]->template As<void>();
    in[i].dtype = dtype;
    cpu::Convert(args.in[i].ptr, args.in[i].dtype, in[i].ptr, dtype, in[i].size());
  }
  KernelArgs inner = args;
  inner.in = in;
  kKernel(p, inner);
}

// The gradient of an input in the input's own dtype.
inline Value InTypeOf(const Value& dx, const Spec& x) {
  return dx && dx.dtype() != x.dtype ? cast(dx, x.dtype) : dx;
}

}  // namespace plait

#endif  // PLAIT_OPS_LINALG_MATMUL_H_
