// Tests that waits let go of a host language's lock, and never hold the engine's mutex
// while they take it again.

#include "base/blocking.h"

#include <atomic>

#include "engine/testing.h"

namespace plait {
namespace {

// A lock such as Python's.
std::mutex host_lock;
thread_local bool holds_host_lock = false;
std::atomic<int> let_go{0};

void TakeHostLock() {
  host_lock.lock();
  holds_host_lock = true;
}

void LeaveHostLock() {
  holds_host_lock = false;
  host_lock.unlock();
}

class Blocking : public BothEngines {
 protected:
  Blocking() {
    GlobalBlockingHooks().enter = []() -> void* {
      if (!holds_host_lock) return nullptr;
      LeaveHostLock();
      ++let_go;
      return &host_lock;
    };
    GlobalBlockingHooks().leave = [](void*) { TakeHostLock(); };
  }
  ~Blocking() override {
    engine().Shutdown();
    GlobalBlockingHooks() = {};
  }
  // An operation in the host language.
  template <typename F>
  void PushCallback(F f, const Vars& reads, const Vars& writes, size_t bytes = 0) {
    PushTo(
        engine(),
        [f] {
          const bool take = !holds_host_lock;
          if (take) TakeHostLock();
          f();
          if (take) LeaveHostLock();
        },
        reads, writes, Lane::kCallback, 0, bytes);
  }
};

INSTANTIATE_TEST_SUITE_P(Engine, Blocking, testing::Bool(), EngineName);

TEST_P(Blocking, EveryWaitLetsTheHostLockGo) {
  Var var, other;
  int done = 0;
  let_go = 0;
  TakeHostLock();
  const auto work = [&] {
    SleepMs(1);
    ++done;
  };
  PushCallback(work, {}, {&var});
  engine().WaitToRead(var);
  PushCallback(work, {&var}, {});
  engine().WaitToWrite(var);
  PushCallback(work, {}, {&var});
  engine().WaitAll();
  PushCallback(work, {}, {&var});
  engine().Pause();
  engine().Resume();
  engine().WaitAll();
  PushCallback(work, {}, {&var});
  engine().Shutdown();
  EXPECT_TRUE(holds_host_lock);
  LeaveHostLock();
  EXPECT_EQ(done, 5);
  EXPECT_GE(let_go, serial() ? 0 : 4);
}

TEST_P(Blocking, ThreadsThatHoldItAndCallbacksThatNeedItDoNotBlockEachOther) {
  std::vector<std::thread> threads;
  std::vector<Var> vars(4);
  std::atomic<int> done{0};
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      TakeHostLock();
      for (int i = 0; i < 100; ++i) {
        Var inner;
        Var* const mine = &vars[t];
        PushCallback(
            [&, mine] {
              PushTo(engine(), [&] { ++done; }, {mine}, {});
              engine().WaitAll();
            },
            {mine}, {&vars[3]});
        if (i % 4 == 0) engine().WaitToRead(vars[3]);
        if (i % 7 == 0) engine().WaitToWrite(*mine);
        if (i % 16 == 0) engine().WaitAll();
      }
      LeaveHostLock();
    });
  }
  for (std::thread& thread : threads) thread.join();
  engine().WaitAll();
  EXPECT_EQ(done, 300);
}

TEST(BlockingPush, WaitsForRoomWithoutTheHostLock) {
  Var var;
  int done = 0;
  GlobalBlockingHooks().enter = []() -> void* {
    LeaveHostLock();
    return &host_lock;
  };
  GlobalBlockingHooks().leave = [](void*) { TakeHostLock(); };
  {
    ThreadedEngine engine(1, 10);
    TakeHostLock();
    for (int i = 0; i < 20; ++i) {
      PushTo(
          engine,
          [&] {
            const std::lock_guard lock(host_lock);
            ++done;
          },
          {}, {&var}, Lane::kCallback, 0, 100);
    }
    engine.WaitAll();
    LeaveHostLock();
    GlobalBlockingHooks() = {};
  }
  EXPECT_EQ(done, 20);
}

}  // namespace
}  // namespace plait
