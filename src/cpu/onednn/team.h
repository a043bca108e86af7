// ScopedTeam: lets oneDNN use the threads that the calling thread may use, no more.

#ifndef PLAIT_CPU_ONEDNN_TEAM_H_
#define PLAIT_CPU_ONEDNN_TEAM_H_

#include "base/parallel.h"

// libgomp's, declared here because clang has no omp.h of its own for it.
extern "C" {
void omp_set_num_threads(int threads);
int omp_get_max_threads(void);
}

namespace plait::cpu::onednn {

// For its lifetime, parallel regions of this thread have at most `threads` threads.
// oneDNN asks for their number when a primitive is made and when it runs; both must see
// the same, so both happen inside such a scope.
class ScopedTeam {
 public:
  explicit ScopedTeam(int threads = ComputeThreads()) : before_(omp_get_max_threads()) {
    omp_set_num_threads(threads);
  }
  ~ScopedTeam() { omp_set_num_threads(before_); }
  ScopedTeam(const ScopedTeam&) = delete;
  ScopedTeam& operator=(const ScopedTeam&) = delete;

 private:
  int before_;
};

}  // namespace plait::cpu::onednn

#endif  // PLAIT_CPU_ONEDNN_TEAM_H_
