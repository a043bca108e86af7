// The project's own matrix product kernels, for float and double.

#ifndef PLAIT_CPU_GEMM_KERNEL_H_
#define PLAIT_CPU_GEMM_KERNEL_H_

#include <cstdint>

namespace plait::cpu {

// C (m, n) = alpha * op(A) (m, k) * op(B) (k, n) + beta * C + bias of the column, then
// relu if asked for; all row-major. beta = 0: C is not read. REQUIRES: m, n > 0; k >=
// 0; C overlaps neither A nor B.
template <typename T>
struct GemmProblem {
  bool trans_a = false, trans_b = false;
  int64_t m = 0, n = 0, k = 0;
  T alpha = 1;
  const T* a = nullptr;
  int64_t lda = 0;
  const T* b = nullptr;
  int64_t ldb = 0;
  T beta = 0;
  T* c = nullptr;
  int64_t ldc = 0;
  const T* bias = nullptr;  // n values, or none
  bool relu = false;        // NaN stays NaN
};

// Uses ComputeThreads() threads above a size. The bits of C do not depend on their
// number.
void OwnGemm(const GemmProblem<float>& p);
void OwnGemm(const GemmProblem<double>& p);

}  // namespace plait::cpu

#endif  // PLAIT_CPU_GEMM_KERNEL_H_
