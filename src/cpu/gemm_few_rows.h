// A few rows times the transpose of a large matrix: layers over small batches.
//
// The large matrix comes from memory once and is used as it lies there; packing it, as
// the general kernel does, would take longer than the multiplications.

#ifndef PLAIT_CPU_GEMM_FEW_ROWS_H_
#define PLAIT_CPU_GEMM_FEW_ROWS_H_

#include "cpu/gemm_kernel.h"

namespace plait::cpu {

// Whether GemmFewRows is the fastest way.
bool SuitsFewRows(const GemmProblem<float>& p);

// REQUIRES: trans_b, and A is not transposed. The bits of C do not depend on the number
// of threads.
void GemmFewRows(const GemmProblem<float>& p);

}  // namespace plait::cpu

#endif  // PLAIT_CPU_GEMM_FEW_ROWS_H_
