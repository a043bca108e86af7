// Tests of lanes: priorities, growth, run-ahead, pauses, threads.

#include <algorithm>
#include <atomic>
#include <set>
#include <thread>

#include "base/parallel.h"
#include "engine/callback_lane.h"
#include "engine/testing.h"

namespace plait {
namespace {

TEST(Lanes, AReadyOperationOfHigherPriorityRunsFirstAndEqualsInOrder) {
  ThreadedEngine engine(1, kNoLimit);
  Gate begun, gate;
  std::vector<Var> vars(9);
  std::vector<int> order;
  PushTo(engine,
         [&] {
           begun.Open();
           gate.Wait();
         },
         {}, {&vars[8]});
  begun.Wait();
  const int priorities[] = {0, -1, 5, 0, 5, -1, 0, 9};
  for (int i = 0; i < 8; ++i) {
    PushTo(
        engine, [&order, i] { order.push_back(i); }, {}, {&vars[i]}, Lane::kCompute,
        priorities[i]);
  }
  gate.Open();
  engine.WaitAll();
  EXPECT_EQ(order, (std::vector<int>{7, 2, 4, 0, 3, 6, 1, 5}));
}

TEST(Lanes, DifferentLanesRunAtTheSameTime) {
  ThreadedEngine engine(1, kNoLimit);
  Var vars[5];
  Gate gates[5];
  for (int i = 0; i < 5; ++i) {
    PushTo(
        engine,
        [&gates, i] {
          gates[i].Open();
          for (Gate& gate : gates) gate.Wait();
        },
        {}, {&vars[i]}, static_cast<Lane>(i));
  }
  engine.WaitAll();
}

TEST(Lanes, ComputeRunsAsManyAtOnceAsItHasWorkers) {
  ThreadedEngine engine(3, kNoLimit);
  std::atomic<int> now{0}, most{0};
  std::vector<Var> vars(30);
  for (Var& var : vars) {
    PushTo(engine,
           [&] {
             const int n = ++now;
             int m = most;
             while (m < n && !most.compare_exchange_weak(m, n)) {
             }
             SleepMs(1);
             --now;
           },
           {}, {&var});
  }
  engine.WaitAll();
  EXPECT_EQ(most, 3);
}

TEST(Lanes, OnlyComputeWorkersHaveSeveralThreads) {
  ThreadedEngine one(1, kNoLimit), many(AvailableThreads(), kNoLimit);
  int threads[3];
  Var vars[3];
  PushTo(one, [&] { threads[0] = ComputeThreads(); }, {}, {&vars[0]});
  PushTo(many, [&] { threads[1] = ComputeThreads(); }, {}, {&vars[1]});
  PushTo(
      one, [&] { threads[2] = ComputeThreads(); }, {}, {&vars[2]}, Lane::kIo);
  one.WaitAll();
  many.WaitAll();
  EXPECT_EQ(threads[0], AvailableThreads());
  EXPECT_EQ(threads[1], 1);
  EXPECT_EQ(threads[2], 1);
  EXPECT_EQ(ComputeThreads(), 1);
}

// Sixteen callbacks in a chain, each of which waits for the compute lane and for the
// callback before it.
TEST(Lanes, CallbacksThatWaitInsideDoNotUseUpTheWorkers) {
  ThreadedEngine engine(1, kNoLimit);
  constexpr int kChain = 16;
  std::vector<Var> out(kChain + 1), inner(kChain);
  std::vector<int> value(kChain + 1, 0);
  Gate all_pushed;
  // The last one first: all others have to run while it waits.
  for (int i = kChain - 1; i >= 0; --i) {
    PushTo(
        engine,
        [&, i] {
          all_pushed.Wait();
          engine.WaitToRead(out[i]);
          int x = value[i];
          PushTo(engine, [&x] { ++x; }, {}, {&inner[i]});
          engine.WaitToRead(inner[i]);
          value[i + 1] = x;
        },
        {}, {&out[i + 1]}, Lane::kCallback);
  }
  all_pushed.Open();
  engine.WaitToRead(out[kChain]);
  EXPECT_EQ(value[kChain], kChain);
}

// Callbacks for two devices meet; those for one run one after the other.
TEST(Lanes, CallbacksForSeveralDevicesRunAtOnce) {
  ThreadedEngine engine(1, kNoLimit);
  Var vars[4];
  Gate gates[2];
  std::atomic<int> running{0}, most{0};
  for (int device = 0; device < 2; ++device) {
    PushTo(
        engine,
        [&gates, device] {
          gates[device].Open();
          EXPECT_TRUE(gates[1 - device].WaitFor(std::chrono::minutes(1)));
        },
        {}, {&vars[device]}, CallbackLane(device));
  }
  engine.WaitToRead(vars[0]);
  engine.WaitToRead(vars[1]);
  for (Var& var : vars) {
    PushTo(
        engine,
        [&] {
          most = std::max(most.load(), ++running);
          std::this_thread::yield();
          --running;
        },
        {}, {&var}, CallbackLane(3 + kCallbackLanes));
  }
  for (Var& var : vars) engine.WaitToRead(var);
  EXPECT_EQ(most, 1);
  EXPECT_EQ(CallbackLane(0), Lane::kCallback);
  EXPECT_EQ(CallbackLane(-1), Lane::kCallback);
  EXPECT_TRUE(IsCallback(CallbackLane(7)) && !IsCallback(Lane::kComm));
}

TEST(Lanes, AComputeOperationMayWaitForAnother) {
  ThreadedEngine engine(1, kNoLimit);
  Var a, b;
  int value = 0;
  Gate pushed;
  PushTo(engine,
         [&] {
           pushed.Wait();
           engine.WaitToRead(b);
           ++value;
         },
         {}, {&a});
  PushTo(engine, [&] { value = 1; }, {}, {&b});
  pushed.Open();
  engine.WaitToRead(a);
  EXPECT_EQ(value, 2);
}

TEST(Lanes, AfterAWaitInsideALaneStillRunsOneAtATime) {
  ThreadedEngine engine(1, kNoLimit);
  std::atomic<int> now{0};
  bool together = false;
  std::vector<Var> vars(40), inner(40);
  for (int i = 0; i < 40; ++i) {
    PushTo(
        engine,
        [&, i] {
          PushTo(engine, [] {}, {}, {&inner[i]});
          engine.WaitToRead(inner[i]);
        },
        {}, {&vars[i]}, Lane::kIo);
  }
  engine.WaitAll();  // now the lane has workers to spare
  for (Var& var : vars) {
    PushTo(
        engine,
        [&] {
          together = together || ++now > 1;
          --now;
        },
        {}, {&var}, Lane::kIo);
  }
  engine.WaitAll();
  EXPECT_FALSE(together);
}

TEST(RunAhead, APushOverTheLimitWaitsForOthersToEnd) {
  constexpr size_t kBytes = 100;
  ThreadedEngine engine(1, 10 * kBytes);
  Var var;
  std::atomic<int> pushed{0}, done{0};
  int most = 0;
  std::thread pusher([&] {
    for (int i = 0; i < 300; ++i) {
      PushTo(
          engine,
          [&] {
            most = std::max(most, pushed - done);
            ++done;
          },
          {}, {&var}, Lane::kCompute, 0, kBytes);
      ++pushed;
    }
  });
  pusher.join();
  engine.WaitAll();
  EXPECT_EQ(done, 300);
  EXPECT_LE(most, 12);
}

TEST(RunAhead, AnOperationLargerThanTheLimitRunsAlone) {
  ThreadedEngine engine(1, 10);
  Var var;
  int done = 0;
  for (int i = 0; i < 5; ++i) {
    PushTo(
        engine, [&] { ++done; }, {}, {&var}, Lane::kCompute, 0, 1000);
  }
  engine.WaitAll();
  EXPECT_EQ(done, 5);
}

TEST(RunAhead, AWorkerNeverWaitsForRoom) {
  ThreadedEngine engine(1, 0);
  Var outer, inner;
  int done = 0;
  PushTo(
      engine,
      [&] {
        for (int i = 0; i < 10; ++i) {
          PushTo(
              engine, [&] { ++done; }, {}, {&inner}, Lane::kCompute, 0, 1000);
        }
      },
      {}, {&outer}, Lane::kCompute, 0, 1000);
  engine.WaitAll();  // the outer one
  engine.WaitToRead(inner);
  EXPECT_EQ(done, 10);
}

TEST(RunAhead, TinyOperationsAreBoundedByTheirNumber) {
  ThreadedEngine engine(1, kNoLimit);
  Var var;
  Gate gate, passed;
  PushTo(engine, [&] { gate.Wait(); }, {}, {&var});
  std::atomic<int> pushed{0};
  std::thread pusher([&] {
    for (int i = 0; i < 70'000; ++i) {
      PushTo(engine, [] {}, {}, {&var});
      ++pushed;
    }
    passed.Open();
  });
  EXPECT_FALSE(passed.WaitFor(std::chrono::milliseconds(300)));
  EXPECT_LE(pushed, 1 << 16);
  gate.Open();
  pusher.join();
  engine.WaitAll();
}

TEST(Pause, LetsRunningOperationsEndAndStartsNoOthers) {
  ThreadedEngine engine(1, kNoLimit);
  Var var;
  std::atomic<int> begun{0}, ended{0};
  for (int i = 0; i < 3; ++i) {
    PushTo(engine,
           [&] {
             ++begun;
             SleepMs(10);
             ++ended;
           },
           {}, {&var});
  }
  while (begun == 0) SleepMs(1);
  engine.Pause();
  const int at_pause = begun;
  EXPECT_EQ(ended, at_pause);
  PushTo(engine, [&] { ++begun; }, {}, {&var});
  engine.Pause();
  engine.Resume();
  SleepMs(5);
  EXPECT_EQ(begun, at_pause);
  engine.Resume();
  engine.WaitAll();
  EXPECT_EQ(ended, 3);
  EXPECT_EQ(begun, 4);
}

TEST(Pause, KeepsTheInlinePathShut) {
  ThreadedEngine engine(1, kNoLimit);
  Var a, b;
  Var* const first[] = {&a};
  Var* const second[] = {&b};
  Gate begun, ended;
  std::thread other([&] {
    ASSERT_TRUE(engine.TryBegin({}, first));
    begun.Open();
    ended.WaitFor(std::chrono::milliseconds(10));
    EXPECT_TRUE(engine.TryBegin({}, second)) << "inside another it may";
    engine.End({}, second);
    engine.End({}, first);
  });
  begun.Wait();
  engine.Pause();
  EXPECT_TRUE(a.idle()) << "Pause has waited";
  EXPECT_FALSE(engine.TryBegin({}, first));
  engine.Resume();
  EXPECT_TRUE(engine.TryBegin({}, first));
  engine.Pause();  // its own section it does not wait for
  engine.Resume();
  engine.End({}, first);
  other.join();
}

TEST(Pause, DoesNotWaitForAnOperationThatWaits) {
  ThreadedEngine engine(1, kNoLimit);
  Var held, var;
  Var* const writes[] = {&held};
  ASSERT_TRUE(engine.TryBegin({}, writes));
  std::atomic<bool> begun{false}, ended{false};
  PushTo(
      engine,
      [&] {
        begun = true;
        engine.WaitToRead(held);
        ended = true;
      },
      {}, {&var}, Lane::kCallback);
  while (!begun) SleepMs(1);
  engine.Pause();
  engine.End({}, writes);
  SleepMs(5);
  EXPECT_FALSE(ended) << "it may go on only after Resume";
  engine.Resume();
  engine.WaitAll();
  EXPECT_TRUE(ended);
}

TEST(Pause, TwoOperationsMayPauseAtTheSameTime) {
  ThreadedEngine engine(1, kNoLimit);
  Var a, b;
  std::atomic<int> inside{0};
  const auto pause = [&] {
    ++inside;
    while (inside < 2) SleepMs(1);
    engine.Pause();
    engine.Resume();
  };
  PushTo(engine, pause, {}, {&a}, Lane::kIo);
  PushTo(engine, pause, {}, {&b}, Lane::kCallback);
  engine.WaitAll();
}

TEST(Shutdown, FinishesPendingWorkOfSeveralThreads) {
  std::atomic<int> done{0};
  std::vector<Var> vars(3);
  {
    ThreadedEngine engine(2, kNoLimit);
    std::vector<std::thread> threads;
    for (Var& var : vars) {
      threads.emplace_back([&] {
        for (int i = 0; i < 100; ++i) PushTo(engine, [&] { ++done; }, {}, {&var});
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  EXPECT_EQ(done, 300);
}

TEST(Shutdown, DoesNothingInsideAnOperation) {
  ThreadedEngine engine(1, kNoLimit);
  Var var;
  int done = 0;
  PushTo(engine, [&] { engine.Shutdown(); }, {}, {&var});
  PushTo(
      engine, [&] { ++done; }, {}, {&var}, Lane::kIo);
  engine.WaitAll();
  EXPECT_EQ(done, 1);
}

}  // namespace
}  // namespace plait
