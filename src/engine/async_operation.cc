// AsyncOperation: its end, and the wait for it where nothing may end later.

#include "engine/async_operation.h"

#include <utility>

#include "base/blocking.h"
#include "engine/core.h"

namespace plait {

void AsyncOperation::Finish(std::exception_ptr error) {
  if (engine_ != nullptr) {
    engine_->Complete(*node_, std::move(error));
    return;
  }
  // Under the mutex to the end: Run destroys `this` when it has seen the flag.
  const std::lock_guard lock(mutex_);
  error_ = std::move(error);
  finished_ = true;
  changed_.notify_all();
}

void AsyncOperation::Run() {
  Start();
  {
    const ScopedBlocking blocking;
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return finished_; });
  }
  if (error_) std::rethrow_exception(error_);
}

}  // namespace plait
