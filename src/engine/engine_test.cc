// Tests of the order of operations, waits and events, for both engines.

#include <algorithm>
#include <atomic>
#include <set>

#include "engine/callback_lane.h"
#include "engine/testing.h"

namespace plait {
namespace {

INSTANTIATE_TEST_SUITE_P(Engine, BothEngines, testing::Bool(), EngineName);

TEST_P(BothEngines, OperationsOnOneVarRunInTheOrderOfTheirPushes) {
  Var var;
  std::vector<int> order;
  for (int i = 0; i < 1000; ++i) {
    PushTo(engine(), [&order, i] { order.push_back(i); }, {}, {&var});
  }
  engine().WaitToRead(var);
  ASSERT_EQ(order.size(), 1000u);
  EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
  EXPECT_EQ(var.version(), 1000u);
}

TEST_P(BothEngines, TryBeginHoldsAndEndLetsGo) {
  Var a, b, c;
  Var* const reads[] = {&a, &b};
  Var* const writes[] = {&c};
  ASSERT_TRUE(engine().TryBegin(reads, writes));
  EXPECT_TRUE(a.readable());
  EXPECT_FALSE(a.idle());
  EXPECT_FALSE(c.readable());
  EXPECT_FALSE(engine().TryBegin({}, reads)) << "a reader holds a";
  EXPECT_FALSE(engine().TryBegin(writes, {})) << "a writer holds c";
  Var* const shared[] = {&a};
  ASSERT_TRUE(engine().TryBegin(shared, {})) << "readers share";
  engine().End(shared, {});
  engine().End(reads, writes);
  EXPECT_TRUE(a.idle() && b.idle() && c.idle());
  EXPECT_EQ(c.version(), 1u);
  EXPECT_EQ(a.version(), 0u);
}

TEST_P(BothEngines, TryBeginThatFailsLeavesNothingHeldAndNoVersion) {
  Var a, b, c;
  Var* const held[] = {&b};
  ASSERT_TRUE(engine().TryBegin({}, held));
  Var* const reads[] = {&b};
  Var* const writes[] = {&a, &c};
  EXPECT_FALSE(engine().TryBegin(reads, writes));
  EXPECT_TRUE(a.idle() && c.idle());
  EXPECT_EQ(a.version(), 0u);
  engine().End({}, held);
  EXPECT_TRUE(engine().TryBegin(reads, writes));
  engine().End(reads, writes);
}

TEST_P(BothEngines, PushWaitsForAnInlineHolder) {
  Var var;
  Var* const writes[] = {&var};
  ASSERT_TRUE(engine().TryBegin({}, writes));
  int value = 0, seen = -1;
  std::thread other([&] { PushTo(engine(), [&] { seen = value; }, {&var}, {}); });
  SleepMs(5);
  value = 7;
  engine().End({}, writes);
  other.join();
  engine().WaitToWrite(var);
  EXPECT_EQ(seen, 7);
}

TEST_P(BothEngines, AVarNamedTwiceIsWrittenOnce) {
  Var a, b;
  int runs = 0;
  PushTo(engine(), [&] { ++runs; }, {&a, &b, &a, &b}, {&a, &a});
  engine().WaitAll();
  EXPECT_EQ(runs, 1);
  EXPECT_TRUE(a.idle() && b.idle());
  EXPECT_EQ(a.version(), 1u);
  EXPECT_EQ(b.version(), 0u);
}

TEST_P(BothEngines, ManyVarsWithDuplicatesAreEachTakenOnce) {
  std::vector<Var> vars(300);
  Vars reads, writes;
  for (int i = 0; i < 300; ++i) {
    reads.push_back(&vars[i]);
    if (i % 3 == 0) writes.push_back(&vars[i]);
    if (i % 5 == 0) writes.insert(writes.begin(), &vars[i]);
  }
  int runs = 0;
  for (int i = 0; i < 10; ++i)
    PushTo(
        engine(), [&] { ++runs; }, reads, writes);
  engine().WaitAll();
  EXPECT_EQ(runs, 10);
  for (int i = 0; i < 300; ++i) {
    EXPECT_TRUE(vars[i].idle());
    EXPECT_EQ(vars[i].version(), i % 3 == 0 || i % 5 == 0 ? 10u : 0u) << i;
  }
}

TEST_P(BothEngines, WaitsReturnAtOnceOnAnIdleVar) {
  Var var;
  engine().WaitToRead(var);
  engine().WaitToWrite(var);
  engine().WaitAll();
  EXPECT_TRUE(engine().Idle());
}

TEST_P(BothEngines, WaitAllWaitsForPushesOfAllThreads) {
  std::atomic<int> done{0};
  std::vector<std::thread> threads;
  std::vector<Var> vars(4);
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i) PushTo(engine(), [&] { ++done; }, {}, {&vars[t]});
    });
  }
  for (std::thread& thread : threads) thread.join();
  engine().WaitAll();
  EXPECT_EQ(done, 200);
  EXPECT_TRUE(engine().Idle());
}

TEST_P(BothEngines, OperationsAreDestroyedBeforeWaitAllReturns) {
  Var var;
  const auto token = std::make_shared<int>(1);
  for (int i = 0; i < 20; ++i) {
    PushTo(engine(), [token] { SleepMs(0); }, {}, {&var});
  }
  engine().WaitAll();
  EXPECT_EQ(token.use_count(), 1);
}

TEST_P(BothEngines, AnOperationMayWaitForWhatItPushed) {
  Var outer, inner;
  int value = 0, seen = 0;
  PushTo(engine(),
         [&] {
           PushTo(engine(), [&] { value = 5; }, {}, {&inner});
           engine().WaitToRead(inner);
           seen = value;
           PushTo(engine(), [&] { value = 6; }, {}, {&inner});
           engine().WaitAll();
           seen = seen * 10 + value;
         },
         {}, {&outer});
  engine().WaitAll();
  EXPECT_EQ(seen, 56);
}

// A callback that computes with its inputs, while the next step that overwrites them is
// queued behind it already.
TEST_P(BothEngines, PushesOfAReaderComeBeforeTheWriterBehindIt) {
  Var data, out, temporary;
  Gate queued;
  int value = 1, seen = 0;
  if (serial()) queued.Open();
  PushTo(
      engine(),
      [&] {
        queued.Wait();
        engine().WaitToRead(data);
        PushTo(engine(), [&] { seen = value; }, {&data}, {&temporary});
        engine().WaitToRead(temporary);
      },
      {&data}, {&out}, Lane::kCallback);
  PushTo(engine(), [&] { value = 2; }, {}, {&data});
  queued.Open();
  engine().WaitAll();
  EXPECT_EQ(seen, 1);
  EXPECT_EQ(value, 2);
}

TEST_P(BothEngines, AnOperationThatWritesItsOwnVarAgainRunsThatLater) {
  Var var;
  std::vector<int> order;
  PushTo(engine(),
         [&] {
           PushTo(engine(), [&] { order.push_back(2); }, {}, {&var});
           order.push_back(1);
         },
         {}, {&var});
  engine().WaitToRead(var);
  engine().WaitAll();
  EXPECT_EQ(order, (std::vector<int>{1, 2}));
}

TEST_P(BothEngines, WaitingToWriteWhatTheOperationOnlyReadsIsAnError) {
  Var var, out;
  PushTo(engine(), [&] { engine().WaitToWrite(var); }, {&var}, {&out});
  EXPECT_NE(ErrorOf([&] { engine().WaitToRead(out); }).find("engine: "),
            std::string::npos);
}

TEST_P(BothEngines, NothingMayBePushedAsAnOperation) {
  Var var;
  EXPECT_NE(ErrorOf([&] { engine().Push(nullptr, {}, {}); }), "");
  auto op = MakeOperation("lost", [] {});
  op->lane = static_cast<Lane>(kNumLanes);
  Var* const writes[] = {&var};
  EXPECT_NE(ErrorOf([&] { engine().Push(std::move(op), {}, writes); }), "");
  EXPECT_TRUE(var.idle());
}

TEST_P(BothEngines, EventsNameOperationLaneThreadAndTimes) {
  std::mutex mutex;
  std::vector<EngineEvent> events;
  EXPECT_FALSE(engine().observed());
  engine().SetObserver([&](const EngineEvent& event) {
    const std::lock_guard lock(mutex);
    events.push_back(event);
  });
  EXPECT_TRUE(engine().observed());
  Var var;
  PushTo(
      engine(), [] { SleepMs(2); }, {}, {&var}, Lane::kIo);
  engine().WaitAll();
  engine().ReportInline("small", "layer0", Lane::kCompute, 10, 20);
  engine().SetObserver(nullptr);
  EXPECT_FALSE(engine().observed());
  PushTo(engine(), [] {}, {}, {&var});
  engine().WaitAll();
  ASSERT_EQ(events.size(), 2u);
  EXPECT_STREQ(events[0].name, "test");
  EXPECT_EQ(events[0].lane, Lane::kIo);
  EXPECT_EQ(events[0].ran_inline, serial());
  EXPECT_GE(events[0].end_ns - events[0].start_ns, 2'000'000);
  EXPECT_STREQ(events[1].layer, "layer0");
  EXPECT_TRUE(events[1].ran_inline);
  EXPECT_EQ(events[1].end_ns, 20);
  EXPECT_EQ(events[0].thread == events[1].thread, serial());
  EXPECT_LT(events[0].thread, 10'000u);
}

TEST_P(BothEngines, AfterShutdownPushesRunAtOnce) {
  Var var;
  std::atomic<int> done{0};
  for (int i = 0; i < 20; ++i) PushTo(engine(), [&] { ++done; }, {}, {&var});
  engine().Shutdown();
  EXPECT_EQ(done, 20);
  const auto here = std::this_thread::get_id();
  PushTo(
      engine(),
      [&] {
        ++done;
        EXPECT_EQ(std::this_thread::get_id(), here);
      },
      {}, {&var}, Lane::kCallback);
  EXPECT_EQ(done, 21);
  std::atomic<int> abandoned{0};
  Var* const writes[] = {&var};
  engine().Push(std::make_unique<Bad>("bad: after the end", &abandoned), {}, writes);
  EXPECT_EQ(abandoned, 1);
  EXPECT_EQ(ErrorOf([&] { engine().WaitAll(); }), "bad: after the end");
  engine().Shutdown();
}

TEST(Engine, TheProcessHasOne) {
  Engine& engine = Engine::Get();
  EXPECT_EQ(&engine, &Engine::Get());
  Var var;
  int value = 0;
  PushTo(engine, [&] { value = 3; }, {}, {&var});
  engine.WaitToRead(var);
  EXPECT_EQ(value, 3);
}

TEST(Engine, LimitsThatMakeNoSenseAreErrors) {
  EXPECT_EQ(ErrorOf([] { ThreadedEngine(0, 1); }),
            "PLAIT_WORKERS: got 0; a number from 1 to 1024 was expected");
  EXPECT_EQ(ErrorOf([] { ThreadedEngine(1, -5); }),
            "PLAIT_RUN_AHEAD: got -5; a number of bytes, 0 or more, was expected");
}

}  // namespace
}  // namespace plait
