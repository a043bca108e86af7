// ObserverSlot: holds the observer of an engine's events.

#ifndef PLAIT_ENGINE_OBSERVER_H_
#define PLAIT_ENGINE_OBSERVER_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <new>
#include <shared_mutex>
#include <utility>

#include "engine/engine.h"

namespace plait {

// A small number for the calling thread, by the order in which threads asked.
inline uint64_t SmallThreadNumber() {
  static std::atomic<uint64_t> last{0};
  thread_local const uint64_t mine = ++last;
  return mine;
}

inline int64_t SteadyNanoseconds() {
  return std::chrono::steady_clock::now().time_since_epoch() /
         std::chrono::nanoseconds(1);
}

// Several threads may report at once. When Set returns, the observer before is not
// being called and will not be; so an observer must not call Set.
class ObserverSlot {
 public:
  void Set(EngineObserver observer) {
    const std::unique_lock lock(mutex_);
    observer_ = std::move(observer);
  }
  void Report(const EngineEvent& event) {
    const std::shared_lock lock(mutex_);
    if (observer_) observer_(event);
  }
  // A thread that the child lacks may have held the lock.
  void ResetInChild() { new (&mutex_) std::shared_mutex; }

 private:
  std::shared_mutex mutex_;
  EngineObserver observer_;
};

}  // namespace plait

#endif  // PLAIT_ENGINE_OBSERVER_H_
