// TeamBarrier: where the parts of one ParallelFor meet, many times, without sleeping.

#ifndef PLAIT_CPU_TEAM_BARRIER_H_
#define PLAIT_CPU_TEAM_BARRIER_H_

#include <atomic>
#include <cstdint>
#include <thread>

#include "engine/spin.h"

namespace plait::cpu {

// For ParallelFor(items, 1, f): each call of f passes the number of its items, so that
// fewer threads than items meet just as well, and one alone does not wait. Waiting is
// short work's: it spins, and yields now and then. Nothing between two meetings may
// throw.
class TeamBarrier {
 public:
  explicit TeamBarrier(int64_t items) : items_(items) {}
  TeamBarrier(const TeamBarrier&) = delete;
  TeamBarrier& operator=(const TeamBarrier&) = delete;

  // What one part did before is seen by all after the meeting.
  void Meet(int64_t my_items) {
    if (my_items == items_) return;
    const int64_t round = round_.load(std::memory_order_relaxed);
    if (arrived_.fetch_add(my_items, std::memory_order_acq_rel) + my_items == items_) {
      arrived_.store(0, std::memory_order_relaxed);
      round_.store(round + 1, std::memory_order_release);
      return;
    }
    for (int i = 0; round_.load(std::memory_order_acquire) == round; ++i) {
      if (i % 512 == 511) {
        std::this_thread::yield();
      } else {
        CpuRelax();
      }
    }
  }

 private:
  const int64_t items_;
  std::atomic<int64_t> arrived_{0}, round_{0};
};

}  // namespace plait::cpu

#endif  // PLAIT_CPU_TEAM_BARRIER_H_
