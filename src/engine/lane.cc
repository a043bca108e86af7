// The priority queue of a lane and the accounts of its workers.

#include "engine/lane.h"

#include <algorithm>
#include <new>
#include <utility>

namespace plait {

void LaneState::SetUp(Lane lane, int most_running, int threads_each) {
  lane_ = lane;
  most_running_ = most_running;
  threads_each_ = threads_each;
}

void LaneState::Add(Node* node) {
  ready_.push_back({node->priority, node->order, node});
  std::push_heap(ready_.begin(), ready_.end());
  ready_count_.store(ready_.size(), std::memory_order_relaxed);
}

LaneState::Need LaneState::NeedsWorker() const {
  const int looking = looking_;
  if (static_cast<int64_t>(ready_.size()) <= looking ||
      Running() + looking >= most_running_) {
    return Need::kNothing;
  }
  return asleep_ > 0 ? Need::kWakeUp : Need::kNewWorker;
}

void LaneState::WakeOne() {
  --asleep_;
  ++looking_;
  ++wake_ups_;
  wake_.notify_one();
}

void LaneState::AddWorker(std::thread thread) {
  threads_.push_back(std::move(thread));
  ++workers_;
  ++looking_;
}

Node* LaneState::Take() {
  if (ready_.empty() || Running() >= most_running_) return nullptr;
  std::pop_heap(ready_.begin(), ready_.end());
  Node* node = ready_.back().node;
  ready_.pop_back();
  ready_count_.store(ready_.size(), std::memory_order_relaxed);
  --looking_;
  return node;
}

void LaneState::ResetInChild(bool self) {
  new (&wake_) std::condition_variable;
  // Handles of threads that do not exist can be neither joined nor destroyed.
  static auto* const lost = new std::vector<std::thread>;
  for (std::thread& thread : threads_) lost->push_back(std::move(thread));
  threads_.clear();
  workers_ = self ? 1 : 0;
  blocked_ = asleep_ = looking_ = wake_ups_ = 0;
  threads_each_ = 1;
}

}  // namespace plait
