// Processor time of kernels, for the benchmarks beside them.

#ifndef PLAIT_CPU_BENCH_H_
#define PLAIT_CPU_BENCH_H_

#include <algorithm>
#include <ctime>

namespace plait::cpu {

// Seconds that all threads of the process have computed.
inline double CpuSeconds() {
  timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

// The least processor time of a call in milliseconds, of 3 to 20 calls that take up to
// `most` seconds.
template <typename F>
double CpuMilliseconds(F&& f, double most) {
  f();
  double best = 1e9, total = 0;
  for (int i = 0; i < 20 && (i < 3 || total < most); ++i) {
    const double start = CpuSeconds();
    f();
    const double s = CpuSeconds() - start;
    best = std::min(best, s);
    total += s;
  }
  return 1e3 * best;
}

}  // namespace plait::cpu

#endif  // PLAIT_CPU_BENCH_H_
