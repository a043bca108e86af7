// Gemm: products of row-major matrices, of any dtype, on the calling thread's team.
//
// Thread safety: any thread; ComputeThreads() threads are used above a size. Errors:
// only kMemory, for lack of scratch. Arguments are not checked; that is the caller's.

#ifndef PLAIT_CPU_GEMM_H_
#define PLAIT_CPU_GEMM_H_

#include <cstdint>

#include "base/dtype.h"

namespace plait::cpu {

// C (m, n) = alpha * op(A) op(B) + beta * C, where op(A) is (m, k) and op(B) is (k, n):
// A is stored (m, k), or (k, m) with trans_a; B is stored (k, n), or (n, k) with
// trans_b. lda, ldb, ldc: elements from one stored row to the next. beta = 0: C need
// not be initialised. m, n, k may be 0. C must not overlap A or B.
//
// T: every dtype but bool. Halves add up in float; C is rounded once. Integers wrap;
// alpha and beta are converted to T first.
template <typename T>
void Gemm(bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k, double alpha,
          const T* a, int64_t lda, const T* b, int64_t ldb, double beta, T* c,
          int64_t ldc);

// C = op(A) op(B) + bias, a value a column or none, then relu (NaN stays NaN) if asked.
template <typename T>
void GemmBias(bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k, const T* a,
              int64_t lda, const T* b, int64_t ldb, const T* bias, bool relu, T* c,
              int64_t ldc);

// Gemm with a float result from half matrices.
template <typename T>
void GemmToFloat(bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k,
                 double alpha, const T* a, int64_t lda, const T* b, int64_t ldb,
                 double beta, float* c, int64_t ldc);

// `batch` products; matrix i of A is at a + i * stride_a, and so on. A stride of 0 uses
// one matrix for all (not for C). Small matrices share out the batch among the threads,
// large ones each use all of them.
template <typename T>
void GemmBatch(int64_t batch, bool trans_a, bool trans_b, int64_t m, int64_t n,
               int64_t k, double alpha, const T* a, int64_t lda, int64_t stride_a,
               const T* b, int64_t ldb, int64_t stride_b, double beta, T* c,
               int64_t ldc, int64_t stride_c);

}  // namespace plait::cpu

#endif  // PLAIT_CPU_GEMM_H_
