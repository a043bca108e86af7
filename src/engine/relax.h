// CpuRelax: tells the core that this thread spins.

#ifndef PLAIT_ENGINE_RELAX_H_
#define PLAIT_ENGINE_RELAX_H_

#if defined(__x86_64__) || defined(__i386__)
#include <immintrin.h>
#endif

namespace plait {

inline void CpuRelax() {
#if defined(__x86_64__) || defined(__i386__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace plait

#endif  // PLAIT_ENGINE_RELAX_H_
