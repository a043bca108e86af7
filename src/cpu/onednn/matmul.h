// Matrix products by oneDNN's generated code.

#ifndef PLAIT_CPU_ONEDNN_MATMUL_H_
#define PLAIT_CPU_ONEDNN_MATMUL_H_

#include "base/dtype.h"
#include "cpu/gemm_kernel.h"

namespace plait::cpu::onednn {

// As OwnGemm. The last bits may depend on the number of threads.
void Sgemm(const GemmProblem<float>& p);

// A product of bfloat16 matrices, added up in float; C (float or bfloat16) = op(A)
// op(B), or C += op(A) op(B). As GemmProblem otherwise.
struct Bfloat16Problem {
  bool trans_a = false, trans_b = false;
  int64_t m = 0, n = 0, k = 0;
  const Bfloat16* a = nullptr;
  int64_t lda = 0;
  const Bfloat16* b = nullptr;
  int64_t ldb = 0;
  bool add = false;
  DType c_dtype = DType::kFloat32;
  void* c = nullptr;
  int64_t ldc = 0;
};
// False, and nothing done, where oneDNN has no code for it on this processor.
// REQUIRES: m, n, k > 0.
bool Bfloat16Gemm(const Bfloat16Problem& p);

}  // namespace plait::cpu::onednn

#endif  // PLAIT_CPU_ONEDNN_MATMUL_H_
