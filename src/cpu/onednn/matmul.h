// Matrix products by oneDNN's generated code.

#ifndef PLAIT_CPU_ONEDNN_MATMUL_H_
#define PLAIT_CPU_ONEDNN_MATMUL_H_

#include "cpu/gemm_kernel.h"

namespace plait::cpu::onednn {

// As OwnGemm. The last bits may depend on the number of threads.
void Sgemm(const GemmProblem<float>& p);

}  // namespace plait::cpu::onednn

#endif  // PLAIT_CPU_ONEDNN_MATMUL_H_
