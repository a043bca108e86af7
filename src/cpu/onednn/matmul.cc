// Matrix products by oneDNN's generated code.

#include "cpu/onednn/matmul.h"

#include <algorithm>

#include "base/error.h"
#include "cpu/onednn/team.h"
#include "dnnl.h"

namespace plait::cpu::onednn {

void Sgemm(const GemmProblem<float>& p) {
  // A thread is worth waking for about two million multiplications.
  const double work = static_cast<double>(p.m) * p.n * p.k;
  const ScopedTeam team(
      static_cast<int>(std::clamp<double>(work / 2e6, 1, ComputeThreads())));
  const dnnl_status_t status =
      dnnl_sgemm(p.trans_a ? 'T' : 'N', p.trans_b ? 'T' : 'N', p.m, p.n, p.k, p.alpha,
                 p.a, p.lda, p.b, p.ldb, p.beta, p.c, p.ldc);
  Check(status != dnnl_out_of_memory, ErrorKind::kMemory,
        "matmul: no memory for the buffers of a product of (", p.m, ", ", p.k,
        ") and (", p.k, ", ", p.n, ")");
  Check(status == dnnl_success, ErrorKind::kRuntime,
        "matmul: oneDNN failed with status ", static_cast<int>(status));
}

}  // namespace plait::cpu::onednn
