// LaneState: the ready operations of a lane, and the accounts of its workers.

#ifndef PLAIT_ENGINE_LANE_H_
#define PLAIT_ENGINE_LANE_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <thread>
#include <vector>

#include "engine/node.h"

namespace plait {

// Everything is guarded by the engine's mutex but HasWork, which a spinning worker
// asks.
//
// A worker is looking for work, asleep, or in an operation; in an operation it may be
// blocked in a wait for another one. At most `most_running` operations run and are not
// blocked, unless a wait ends while others run in its stead. A lane whose workers are
// blocked gets more of them; they are kept.
class LaneState {
 public:
  void SetUp(Lane lane, int most_running, int threads_each);
  Lane lane() const { return lane_; }
  // Threads that ParallelFor may use in one of its operations.
  int threads_each() const { return threads_each_; }

  void Add(Node* node);
  bool HasWork() const { return ready_count_.load(std::memory_order_relaxed) > 0; }

  enum class Need { kNothing, kWakeUp, kNewWorker };
  // What it takes to get the ready operations run.
  Need NeedsWorker() const;
  void WakeOne();                      // after kWakeUp
  void AddWorker(std::thread thread);  // after kNewWorker; it starts as looking

  // --- Called by a worker.

  // Takes the first operation, by priority and then by order of pushes; null when there
  // is none or enough of them run. The worker is then in an operation.
  Node* Take();
  void Return() { ++looking_; }  // from an operation
  bool Surplus() const { return Running() + looking_ > most_running_; }
  template <typename Pred>
  void Sleep(std::unique_lock<std::mutex>& lock, Pred stop);
  void Block() { ++blocked_; }
  void Unblock() { --blocked_; }

  void WakeAll() { wake_.notify_all(); }
  std::vector<std::thread> TakeThreads() { return std::exchange(threads_, {}); }

  // In a forked child: no worker but the calling thread, if it is one of the lane's.
  void ResetInChild(bool self);

 private:
  struct Entry {
    int priority;
    uint64_t order;
    Node* node;
    // Of two entries std::push_heap wants to know which comes later.
    bool operator<(const Entry& other) const {
      return priority != other.priority ? priority < other.priority
                                        : order > other.order;
    }
  };
  int Running() const { return workers_ - blocked_ - asleep_ - looking_; }

  Lane lane_ = Lane::kCompute;
  int most_running_ = 1;
  int threads_each_ = 1;
  std::vector<Entry> ready_;  // a heap
  std::atomic<size_t> ready_count_{0};
  int workers_ = 0, blocked_ = 0, asleep_ = 0, looking_ = 0;
  int wake_ups_ = 0;  // meant for sleepers, who count as looking already
  std::condition_variable wake_;
  std::vector<std::thread> threads_;
};

template <typename Pred>
void LaneState::Sleep(std::unique_lock<std::mutex>& lock, Pred stop) {
  --looking_;
  ++asleep_;
  wake_.wait(lock, [this, &stop] { return wake_ups_ > 0 || stop(); });
  if (wake_ups_ > 0) {
    --wake_ups_;
  } else {
    --asleep_;
    ++looking_;
  }
}

}  // namespace plait

#endif  // PLAIT_ENGINE_LANE_H_
