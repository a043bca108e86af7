// Products of bfloat16 matrices by AVX-512's products of pairs, with sums in float.

#ifndef PLAIT_CPU_HALF_GEMM_H_
#define PLAIT_CPU_HALF_GEMM_H_

#include <cstdint>

#include "base/dtype.h"

namespace plait::cpu {

// C (m, n) = alpha * op(A) (m, k) * op(B) (k, n) + beta * C + bias of the column, then
// relu if asked for, as in GemmProblem. C is rounded once. REQUIRES: m, n > 0; k >= 0;
// C overlaps neither A nor B.
struct HalfGemmProblem {
  bool trans_a = false, trans_b = false;
  int64_t m = 0, n = 0, k = 0;
  float alpha = 1;
  const Bfloat16* a = nullptr;
  int64_t lda = 0;
  const Bfloat16* b = nullptr;
  int64_t ldb = 0;
  float beta = 0;
  void* c = nullptr;  // Bfloat16, or float with to_float
  int64_t ldc = 0;
  bool to_float = false;
  const Bfloat16* bias = nullptr;  // n values, or none
  bool relu = false;               // NaN stays NaN
};

// Whether this processor has such products, and the packing of this one pays.
bool SuitsHalfGemm(const HalfGemmProblem& p);

// Uses ComputeThreads() threads above a size; the bits of C do not depend on their
// number. REQUIRES: SuitsHalfGemm(p).
void HalfGemm(const HalfGemmProblem& p);

}  // namespace plait::cpu

#endif  // PLAIT_CPU_HALF_GEMM_H_
