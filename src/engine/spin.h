// SpinUntil: waits a moment for what another thread is about to do, before sleeping.

#ifndef PLAIT_ENGINE_SPIN_H_
#define PLAIT_ENGINE_SPIN_H_

#include <chrono>
#include <thread>

#include "base/parallel.h"

#if defined(__x86_64__) || defined(__i386__)
#include <immintrin.h>
#endif

namespace plait {

// Tells the core that this thread spins.
inline void CpuRelax() {
#if defined(__x86_64__) || defined(__i386__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Returns whether done() became true within `limit`, which should be about the time
// that a sleep and a wake-up take. With one core there is nobody to wait for: asks
// once. Where somebody else works on this very core it gives up early: a thread that
// is woken up goes to a core that is free, one that never sleeps stays.
template <typename F>
bool SpinUntil(std::chrono::microseconds limit, F&& done) {
  using Clock = std::chrono::steady_clock;
  static const bool alone = AvailableThreads() == 1;
  if (alone) return done();
  constexpr std::chrono::microseconds kShared{15};
  const auto end = Clock::now() + limit;
  auto now = Clock::now();
  do {
    for (int i = 0; i < 16; ++i) {
      if (done()) return true;
      CpuRelax();
    }
    const auto before = now;
    std::this_thread::yield();  // the other may want this very core
    now = Clock::now();
    if (now - before > kShared) return done();
  } while (now < end);
  return false;
}

}  // namespace plait

#endif  // PLAIT_ENGINE_SPIN_H_
