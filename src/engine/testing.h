// What the engine's tests share.

#ifndef PLAIT_ENGINE_TESTING_H_
#define PLAIT_ENGINE_TESTING_H_

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/testing.h"
#include "engine/serial_engine.h"
#include "engine/threaded_engine.h"

// Sanitizers that do not follow a fork while other threads allocate.
#ifdef __has_feature
#define PLAIT_HAS_FEATURE(x) __has_feature(x)
#else
#define PLAIT_HAS_FEATURE(x) 0
#endif
#if defined(__SANITIZE_THREAD__) || PLAIT_HAS_FEATURE(thread_sanitizer)
#define PLAIT_TSAN 1
#endif
#if defined(__SANITIZE_ADDRESS__) || PLAIT_HAS_FEATURE(address_sanitizer)
#define PLAIT_ASAN 1
#endif

namespace plait {

// Threads wait at it until it is opened.
class Gate {
 public:
  void Open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  void Wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return open_; });
  }
  bool WaitFor(std::chrono::milliseconds limit) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, limit, [this] { return open_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;
};

inline void SleepMs(int ms) {
  std::this_thread::sleep_for(std::chrono::milliseconds(ms));
}

using Vars = std::vector<Var*>;

// Pushes f; lane and priority for those who care.
template <typename F>
void PushTo(Engine& engine, F f, const Vars& reads, const Vars& writes,
            Lane lane = Lane::kCompute, int priority = 0, size_t bytes = 0) {
  auto op = MakeOperation("test", std::move(f));
  op->lane = lane;
  op->priority = priority;
  op->bytes = bytes;
  engine.Push(std::move(op), reads, writes);
}

// An operation that throws, and counts how often it was abandoned.
class Bad final : public Operation {
 public:
  Bad(std::string text, std::atomic<int>* abandoned)
      : text_(std::move(text)), abandoned_(abandoned) {}
  void Run() override { throw Error(ErrorKind::kValue, text_); }
  void Abandon() noexcept override { ++*abandoned_; }
  const char* name() const override { return "bad"; }

 private:
  std::string text_;
  std::atomic<int>* abandoned_;
};

inline constexpr int64_t kNoLimit = int64_t{1} << 40;

// Tests that both engines must pass.
class BothEngines : public testing::TestWithParam<bool> {
 protected:
  BothEngines() {
    if (GetParam()) {
      engine_ = std::make_unique<SerialEngine>();
    } else {
      engine_ = std::make_unique<ThreadedEngine>(2, kNoLimit);
    }
  }
  Engine& engine() { return *engine_; }
  bool serial() const { return GetParam(); }

 private:
  std::unique_ptr<Engine> engine_;
};

inline std::string EngineName(const testing::TestParamInfo<bool>& info) {
  return info.param ? "Serial" : "Threaded";
}

}  // namespace plait

#endif  // PLAIT_ENGINE_TESTING_H_
