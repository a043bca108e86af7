// FailureList: the failures that WaitAll may have to throw.

#ifndef PLAIT_ENGINE_FAILURE_LIST_H_
#define PLAIT_ENGINE_FAILURE_LIST_H_

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "engine/var.h"

namespace plait {

using Failures = std::vector<Ref<Failure>>;

// Keeps the oldest kMost failures alive even when all arrays that they spoilt are gone.
// What does not fit is not kept; WaitToRead still throws it. Not thread-safe.
//
// Both functions hand failures back rather than release them: an error may belong to a
// host language, and must not be destroyed under the lock that guards this list.
class FailureList {
 public:
  static constexpr size_t kMost = 1024;

  [[nodiscard]] Failures Note(Failure* failure) {
    Failures dropped;
    if (list_.size() >= kMost) {
      const auto kept = std::stable_partition(
          list_.begin(), list_.end(),
          [](const auto& f) { return !f->reported.load(std::memory_order_acquire); });
      dropped.assign(std::move_iterator(kept), std::move_iterator(list_.end()));
      list_.erase(kept, list_.end());
    }
    if (list_.size() < kMost) list_.emplace_back(failure);
    return dropped;
  }
  [[nodiscard]] Failures TakeAll() { return std::exchange(list_, {}); }

 private:
  Failures list_;
};

}  // namespace plait

#endif  // PLAIT_ENGINE_FAILURE_LIST_H_
