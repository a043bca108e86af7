// Tests of fork: the child goes on with the engine, whatever the parent was doing.

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <functional>

#include "base/parallel.h"
#include "engine/testing.h"

namespace plait {
namespace {

// Runs f in a forked child; true when it returned true there within 20 seconds.
bool InChild(const std::function<bool()>& f) {
  const pid_t pid = fork();
  if (pid == 0) {
    alarm(20);
    bool good = false;
    try {
      good = f();
    } catch (...) {
    }
    _exit(good ? 0 : 1);
  }
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

class Fork : public testing::Test {
 protected:
  void SetUp() override {
#ifdef PLAIT_TSAN
    GTEST_SKIP() << "ThreadSanitizer does not follow a fork of several threads";
#endif
#ifdef PLAIT_ASAN
    // By a thread of the parent that was just starting, for one.
    GTEST_SKIP() << "the child may find AddressSanitizer's allocator locked";
#endif
  }
};

// Uses every lane and waits in the ways there are.
bool EngineWorks(Engine& engine) {
  std::array<Var, 5> vars;
  std::atomic<int> done{0};
  for (int i = 0; i < 100; ++i) {
    const int a = i % 5, b = (i + 1) % 5;
    PushTo(
        engine, [&] { ++done; }, {&vars[a]}, {&vars[b]}, static_cast<Lane>(a));
  }
  for (Var& var : vars) engine.WaitToRead(var);
  engine.WaitToWrite(vars[0]);
  engine.WaitAll();
  return done == 100 && engine.Idle();
}

TEST_F(Fork, OfAnIdleEngineLeavesBothUsable) {
  ThreadedEngine threaded(1, kNoLimit);
  SerialEngine serial;
  for (Engine* engine : {static_cast<Engine*>(&threaded), static_cast<Engine*>(&serial),
                         &Engine::Get()}) {
    EXPECT_TRUE(EngineWorks(*engine));
    EXPECT_TRUE(InChild([&] { return EngineWorks(*engine); }));
    EXPECT_TRUE(EngineWorks(*engine));
  }
}

TEST_F(Fork, QueuedOperationsRunInBoth) {
  ThreadedEngine engine(1, kNoLimit);
  Var var;
  int done = 0;
  for (int i = 0; i < 50; ++i) {
    PushTo(
        engine,
        [&done, i] {
          SleepMs(i == 0 ? 10 : 0);
          ++done;
        },
        {}, {&var}, Lane::kCompute, 0, 10);
  }
  EXPECT_TRUE(InChild([&] {
    engine.WaitToRead(var);
    engine.WaitAll();
    return done == 50 && engine.Idle() && EngineWorks(engine);
  }));
  engine.WaitAll();
  EXPECT_EQ(done, 50);
}

TEST_F(Fork, InABusyParentWorksManyTimes) {
  ThreadedEngine engine(2, 1000);
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  std::array<Var, 4> vars;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; !stop; ++i) {
        PushTo(
            engine, [] { SleepMs(0); }, {&vars[t]}, {&vars[(t + i) % 4]},
            static_cast<Lane>(i % 5), i % 3, 10);
        if (i % 16 == 0) engine.WaitToRead(vars[i % 4]);
        if (i % 64 == 0) engine.WaitAll();
      }
    });
  }
  int good = 0;
  for (int i = 0; i < 20; ++i) {
    SleepMs(2);
    good += InChild([&] {
      for (Var& var : vars) engine.WaitToWrite(var);
      ErrorOf([&] { engine.WaitAll(); });  // of Lane::kComm
      return EngineWorks(engine);
    });
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
  engine.WaitAll();
  EXPECT_EQ(good, 20);
}

TEST_F(Fork, InASerialEngineThatOtherThreadsUse) {
  SerialEngine engine;
  std::atomic<bool> stop{false};
  std::array<Var, 3> vars;
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; !stop; ++i) {
        PushTo(engine, [] { SleepMs(0); }, {&vars[t]}, {&vars[2]});
      }
    });
  }
  int good = 0;
  for (int i = 0; i < 10; ++i) {
    SleepMs(2);
    good += InChild([&] {
      ErrorOf([&] { engine.WaitAll(); });  // an operation of a lost thread may fail
      return EngineWorks(engine);
    });
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(good, 10);
}

TEST_F(Fork, OperationsThatWereWaitingInsideFailInTheChild) {
  ThreadedEngine engine(1, kNoLimit);
  Var held, out;
  Var* const writes[] = {&held};
  ASSERT_TRUE(engine.TryBegin({}, writes));
  std::atomic<bool> begun{false};
  PushTo(
      engine,
      [&] {
        begun = true;
        engine.WaitToRead(held);
      },
      {}, {&out}, Lane::kCallback);
  while (!begun) SleepMs(1);
  SleepMs(5);
  EXPECT_TRUE(InChild([&] {
    engine.End({}, writes);
    const std::string error = ErrorOf([&] { engine.WaitToRead(out); });
    return error.find("test: was running in another thread") == 0 &&
           EngineWorks(engine);
  }));
  engine.End({}, writes);
  EXPECT_EQ(ErrorOf([&] { engine.WaitToRead(out); }), "");
}

TEST_F(Fork, OtherProcessesAreNotSpokenToByTheChild) {
  ThreadedEngine engine(1, kNoLimit);
  Var var;
  int spoken = 0;
  Var* const writes[] = {&var};
  ASSERT_TRUE(engine.TryBegin({}, writes));
  PushTo(
      engine, [&] { ++spoken; }, {}, {&var}, Lane::kComm);
  EXPECT_TRUE(InChild([&] {
    engine.End({}, writes);
    return ErrorOf([&] { engine.WaitToRead(var); }) != "" && spoken == 0;
  }));
  engine.End({}, writes);
  engine.WaitAll();
  EXPECT_EQ(spoken, 1);
}

TEST_F(Fork, OtherThreadsMayBeWaiting) {
  ThreadedEngine engine(1, 5);
  Var held, other;
  Var* const writes[] = {&held};
  ASSERT_TRUE(engine.TryBegin({}, writes));
  PushTo(
      engine, [] {}, {&held}, {&other}, Lane::kCompute, 0, 10);
  std::vector<std::thread> threads;
  threads.emplace_back([&] { engine.WaitToRead(held); });
  threads.emplace_back([&] { engine.WaitToWrite(held); });
  threads.emplace_back([&] { engine.WaitAll(); });
  threads.emplace_back([&] {  // over the limit
    PushTo(
        engine, [] {}, {}, {&other}, Lane::kCompute, 0, 10);
  });
  SleepMs(10);
  EXPECT_TRUE(InChild([&] {
    engine.End({}, writes);
    engine.WaitToWrite(held);
    engine.WaitToWrite(other);
    engine.WaitAll();
    return held.idle() && other.idle() && EngineWorks(engine);
  }));
  engine.End({}, writes);
  for (std::thread& thread : threads) thread.join();
}

TEST_F(Fork, WaitsForInlineWorkOfOtherThreads) {
  ThreadedEngine threaded(1, kNoLimit);
  SerialEngine serial;
  for (Engine* engine :
       {static_cast<Engine*>(&threaded), static_cast<Engine*>(&serial)}) {
    std::atomic<bool> stop{false};
    std::array<Var, 3> vars;
    int first = 0, second = 0;  // equal but for the middle of an operation
    std::vector<std::thread> threads;
    for (int t = 0; t < 2; ++t) {
      threads.emplace_back([&, t] {
        Var* const reads[] = {&vars[t]};
        Var* const writes[] = {&vars[2]};
        while (!stop) {
          if (!engine->TryBegin(reads, writes)) {
            std::this_thread::yield();
            continue;
          }
          ++first;
          SleepMs(0);
          ++second;
          engine->End(reads, writes);
        }
      });
    }
    int good = 0;
    for (int i = 0; i < 20; ++i) {
      SleepMs(1);
      good += InChild([&] {
        for (Var& var : vars) engine->WaitToWrite(var);
        Var* const writes[] = {&vars[2]};
        if (!engine->TryBegin({}, writes)) return false;
        engine->End({}, writes);
        return first == second && EngineWorks(*engine);
      });
    }
    stop = true;
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(good, 20);
  }
}

TEST_F(Fork, MayHappenInsideAnOperation) {
  ThreadedEngine engine(1, kNoLimit);
  for (const Lane lane : {Lane::kCallback, Lane::kCompute}) {
    Var var;
    bool good = false;
    PushTo(
        engine,
        [&] {
          good = InChild([&] {
            Var inner;
            int threads = 0;
            PushTo(engine, [&] { threads = ComputeThreads(); }, {}, {&inner});
            engine.WaitToRead(inner);
            engine.WaitAll();
            return threads == 1 && ComputeThreads() == 1;
          });
        },
        {}, {&var}, lane);
    engine.WaitToRead(var);
    EXPECT_TRUE(good);
  }
}

TEST_F(Fork, AfterParallelLoopsOfTheParentTheChildLoopsWithOneThread) {
  ThreadedEngine engine(1, kNoLimit);
  const auto sum = [&](int* threads) {
    Var var;
    std::vector<int> marks(100'000, 0);
    PushTo(engine,
           [&] {
             *threads = ComputeThreads();
             ParallelFor(100'000, 1, [&](int64_t first, int64_t last) {
               for (int64_t i = first; i < last; ++i) ++marks[i];
             });
           },
           {}, {&var});
    engine.WaitToRead(var);
    int64_t total = 0;
    for (int mark : marks) total += mark;
    return total;
  };
  int threads = 0;
  EXPECT_EQ(sum(&threads), 100'000);
  EXPECT_EQ(threads, AvailableThreads());
  EXPECT_TRUE(InChild([&] {
    int one = 0;
    return sum(&one) == 100'000 && one == 1;
  }));
  EXPECT_EQ(sum(&threads), 100'000);
}

TEST_F(Fork, AChildMayForkAndExitInTheOrdinaryWay) {
  Engine& engine = Engine::Get();
  Var var;
  PushTo(engine, [] {}, {}, {&var});
  const pid_t pid = fork();
  if (pid == 0) {
    alarm(20);
    const bool good = InChild([&] { return EngineWorks(engine); });
    PushTo(engine, [] { SleepMs(5); }, {}, {&var});
    if (good) std::exit(0);  // with an operation pending
    _exit(1);
  }
  int status = 0;
  waitpid(pid, &status, 0);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  engine.WaitAll();
}

}  // namespace
}  // namespace plait
