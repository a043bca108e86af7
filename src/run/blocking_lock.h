// BlockingLock: a lock whose waits let the host language go on.

#ifndef PLAIT_RUN_BLOCKING_LOCK_H_
#define PLAIT_RUN_BLOCKING_LOCK_H_

#include <mutex>

#include "base/blocking.h"

namespace plait {

// Whoever holds the mutex may need the host language's lock, so it must not be kept
// while waiting. The common case, a free mutex, costs no more than that.
class BlockingLock {
 public:
  explicit BlockingLock(std::mutex& mutex) : mutex_(mutex) {
    if (mutex_.try_lock()) return;
    const ScopedBlocking blocking;
    mutex_.lock();
  }
  ~BlockingLock() { mutex_.unlock(); }
  BlockingLock(const BlockingLock&) = delete;
  BlockingLock& operator=(const BlockingLock&) = delete;

 private:
  std::mutex& mutex_;
};

}  // namespace plait

#endif  // PLAIT_RUN_BLOCKING_LOCK_H_
