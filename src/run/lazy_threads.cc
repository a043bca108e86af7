// The lazy programs of all threads, and the thread that flushes those left alone.

#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <memory>
#include <new>
#include <system_error>
#include <thread>
#include <vector>

#include "engine/engine.h"
#include "engine/fork.h"
#include "run/lazy.h"

namespace plait {
namespace {

using std::chrono::nanoseconds;

// A program that is worth a push is flushed when nothing was added for kPatience while
// the engine had nothing to do: short enough that a computer does not wait for long,
// long enough for a host language to make the next call of an expression.
constexpr nanoseconds kPatience = std::chrono::microseconds(250);
// One that is added to all the time is flushed after kLongWait.
constexpr nanoseconds kLongWait = std::chrono::microseconds(500);
// How often the timer looks; rarer while others flush in time, and not at all when no
// program has been worth it for kTired looks.
constexpr nanoseconds kShortest = std::chrono::microseconds(125);
constexpr nanoseconds kLongest = std::chrono::milliseconds(1);
constexpr int kTired = 16;

int64_t Now() {
  return std::chrono::duration_cast<nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

std::mutex& AllMutex() {
  static auto* mutex = new std::mutex;
  return *mutex;
}
// Programs are never freed: a mark may be followed at any time. Those of ended threads
// are used again.
std::vector<LazyProgram*>& AllPrograms() {
  static auto* all = new std::vector<LazyProgram*>;
  return *all;
}
std::vector<LazyProgram*>& FreePrograms() {
  static auto* free = new std::vector<LazyProgram*>;
  return *free;
}

struct ThreadProgram {
  LazyProgram* program;
  ThreadProgram() {
    const std::lock_guard lock(AllMutex());
    if (FreePrograms().empty()) {
      AllPrograms().push_back(program = new LazyProgram);
    } else {
      program = FreePrograms().back();
      FreePrograms().pop_back();
    }
  }
  ~ThreadProgram() {
    program->Flush();
    const std::lock_guard lock(AllMutex());
    FreePrograms().push_back(program);
  }
};

}  // namespace

// Looks now and then, and hands what is due to the compute lane: the flush itself is an
// operation, so that forks and the engine's end find it where they look for work.
class LazyTimer final : public ForkAware {
 public:
  static LazyTimer& Get() {
    // Registered after the engine, so that a fork asks it first.
    static LazyTimer* const timer = [] {
      Engine::Get();
      auto* made = new LazyTimer;
      RegisterForFork(made);
      std::atexit([] { Get().Stop(); });
      return made;
    }();
    return *timer;
  }

  // Called after a program's waiting_since_ was set.
  void Wake() {
    // Either this thread sees `awake_`, or the timer sees the program.
    if (awake_.load(std::memory_order_seq_cst)) return;
    const std::lock_guard lock(mutex_);
    if (stopped_) return;
    awake_.store(true, std::memory_order_seq_cst);
    if (!thread_) {
      Start();
    } else {
      wake_.notify_one();
    }
  }

  void BeforeFork() override {
    mutex_.lock();
    AllMutex().lock();
  }
  void AfterForkInParent() override {
    AllMutex().unlock();
    mutex_.unlock();
  }
  void AfterForkInChild() override {
    new (&AllMutex()) std::mutex;
    new (&mutex_) std::mutex;
    new (&wake_) std::condition_variable;
    static_cast<void>(thread_.release());  // there is no such thread here
    awake_ = false;
  }

 private:
  // Signals are for the threads of the program. Without a thread, programs wait until
  // somebody needs them.
  void Start() {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    try {
      thread_ = std::make_unique<std::thread>([this] { Run(); });
    } catch (const std::system_error&) {
      awake_ = false;
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }

  void Stop() {
    {
      const std::lock_guard lock(mutex_);
      stopped_ = true;
      wake_.notify_one();
    }
    if (thread_) thread_->join();
  }

  void Run() {
    pthread_setname_np(pthread_self(), "plait-lazy");
#ifdef SCHED_BATCH
    // It must not take the processor from the thread that wakes it.
    const sched_param normal{};
    pthread_setschedparam(pthread_self(), SCHED_BATCH, &normal);
#endif
    nanoseconds pause = kShortest;
    int idle = 0;
    std::unique_lock lock(mutex_);
    while (!stopped_) {
      wake_.wait_for(lock, pause, [this] { return stopped_; });
      lock.unlock();
      int waiting = 0;
      const std::vector<LazyProgram*> due = Due(&waiting);
      for (LazyProgram* program : due) PushFlush(program);
      lock.lock();
      pause = due.empty() ? std::min(2 * pause, kLongest) : kShortest;
      idle = waiting > 0 ? 0 : idle + 1;
      if (idle < kTired) continue;
      awake_.store(false, std::memory_order_seq_cst);
      if (Due(&waiting); waiting == 0) {
        wake_.wait(lock, [this] { return stopped_ || awake_.load(); });
      }
      awake_ = true;
      pause = kShortest;
      idle = 0;
    }
  }

  static std::vector<LazyProgram*> Due(int* waiting) {
    std::vector<LazyProgram*> due;
    const int64_t latest = Now() - kPatience.count();
    const std::lock_guard lock(AllMutex());
    *waiting = 0;
    for (LazyProgram* program : AllPrograms()) {
      const int64_t since = program->waiting_since_.load(std::memory_order_seq_cst);
      if (since == 0) continue;
      ++*waiting;
      if (since <= latest && Engine::Get().Idle()) due.push_back(program);
    }
    return due;
  }

  static void PushFlush(LazyProgram* program) {
    const auto flush = [program] { program->FlushIfLeft(Now() - kPatience.count()); };
    Engine::Get().Push(MakeOperation("flush", flush), {}, {});
  }

  std::mutex mutex_;
  std::condition_variable wake_;
  std::unique_ptr<std::thread> thread_;
  bool stopped_ = false;
  std::atomic<bool> awake_{false};  // it looks, or will look, at what is waiting
};

LazyProgram& LazyProgram::OfThisThread() {
  thread_local ThreadProgram mine;
  return *mine.program;
}

void LazyProgram::FlushAll() {
  std::vector<LazyProgram*> all;
  {
    const std::lock_guard lock(AllMutex());
    all = AllPrograms();
  }
  for (LazyProgram* program : all) program->Flush();
}

bool LazyProgram::WaitsTooLong() {
  static LazyTimer& timer = LazyTimer::Get();
  const int64_t now = Now();
  if (waiting_since_.exchange(now, std::memory_order_seq_cst) == 0) {
    first_waiting_ = now;
    timer.Wake();
    return false;
  }
  return now - first_waiting_ > kLongWait.count() && Engine::Get().Idle();
}

// The owner holds the lock only while it adds something or flushes: then it is at work.
void LazyProgram::FlushIfLeft(int64_t since) {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock) return;
  const int64_t waiting = waiting_since_.load(std::memory_order_relaxed);
  if (waiting != 0 && waiting <= since) FlushLocked();
}

}  // namespace plait
