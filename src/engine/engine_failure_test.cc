// Tests of failures on their way from an operation to the first wait that meets them.

#include "engine/testing.h"

namespace plait {
namespace {

class EngineFailure : public BothEngines {
 protected:
  void PushBad(const char* text, const Vars& reads, const Vars& writes) {
    engine().Push(std::make_unique<Bad>(text, &abandoned_), reads, writes);
  }
  std::string ReadError(Var& var) {
    return ErrorOf([&] { engine().WaitToRead(var); });
  }
  std::string AllError() {
    return ErrorOf([&] { engine().WaitAll(); });
  }
  std::atomic<int> abandoned_{0};
};

INSTANTIATE_TEST_SUITE_P(Engine, EngineFailure, testing::Bool(), EngineName);

TEST_P(EngineFailure, IsThrownOnceByTheFirstWait) {
  Var var;
  PushBad("bad: one", {}, {&var});
  EXPECT_EQ(ReadError(var), "bad: one");
  EXPECT_EQ(ReadError(var), "");
  EXPECT_EQ(AllError(), "");
  EXPECT_EQ(abandoned_, 1);
}

TEST_P(EngineFailure, WaitAllThrowsTheFirstAndTakesTheOthersAsReported) {
  Var a, b;
  PushBad("bad: first", {}, {&a});
  PushBad("bad: second", {&a}, {&a});  // not run: its input is bad
  engine().WaitToWrite(a);
  PushBad("bad: third", {}, {&b});
  EXPECT_EQ(AllError(), "bad: first");
  EXPECT_EQ(AllError(), "");
  EXPECT_EQ(ReadError(a), "");
  EXPECT_EQ(ReadError(b), "");
}

TEST_P(EngineFailure, WaitAllThrowsAlsoWhenNoVarIsLeft) {
  {
    Var var;
    PushBad("bad: lost", {}, {&var});
    engine().WaitToWrite(var);
  }
  PushBad("bad: without a Var", {}, {});
  EXPECT_EQ(AllError(), "bad: lost");
  EXPECT_EQ(AllError(), "");
}

TEST_P(EngineFailure, PassesThroughOperationsToWhatTheyWrite) {
  Var a, b, c, clean;
  int runs = 0;
  PushBad("bad: source", {}, {&a});
  PushTo(engine(), [&] { ++runs; }, {&a}, {&b});
  PushTo(engine(), [&] { ++runs; }, {&clean}, {&b, &c});  // b is written, and bad
  PushTo(engine(), [&] { ++runs; }, {}, {&clean});
  EXPECT_EQ(ReadError(c), "bad: source");
  EXPECT_EQ(ReadError(a), "");
  EXPECT_EQ(ReadError(b), "");
  EXPECT_EQ(ReadError(clean), "");
  EXPECT_EQ(runs, 1);
}

TEST_P(EngineFailure, CountsAsGoneAfterItWasThrown) {
  Var a, b;
  int runs = 0;
  PushBad("bad: source", {}, {&a});
  EXPECT_EQ(ReadError(a), "bad: source");
  PushTo(engine(), [&] { ++runs; }, {&a}, {&b});
  EXPECT_EQ(ReadError(b), "");
  Var* const reads[] = {&a};
  Var* const writes[] = {&b};
  ASSERT_TRUE(engine().TryBegin(reads, writes));
  engine().End(reads, writes);
  Var* const again[] = {&a};
  ASSERT_NE(a.failure(), nullptr);
  ASSERT_TRUE(engine().TryBegin({}, again));
  engine().End({}, again);
  EXPECT_EQ(a.failure(), nullptr) << "a new write clears the mark";
  EXPECT_EQ(runs, 1);
}

TEST_P(EngineFailure, KeepsTryBeginFromRunning) {
  Var a, b;
  PushBad("bad: source", {}, {&a});
  engine().WaitToWrite(a);
  Var* const spoilt[] = {&a};
  Var* const clean[] = {&b};
  EXPECT_FALSE(engine().TryBegin(spoilt, clean));
  EXPECT_FALSE(engine().TryBegin({}, spoilt));
  EXPECT_TRUE(a.idle() && b.idle());
  EXPECT_EQ(a.version(), 1u);
  EXPECT_EQ(ReadError(a), "bad: source");
  EXPECT_TRUE(engine().TryBegin(spoilt, clean));
  engine().End(spoilt, clean);
}

TEST_P(EngineFailure, MayComeFromTheInlinePath) {
  Var a, b;
  Var* const reads[] = {&a};
  Var* const writes[] = {&b};
  ASSERT_TRUE(engine().TryBegin(reads, writes));
  engine().EndFailed(
      reads, writes,
      std::make_exception_ptr(Error(ErrorKind::kMemory, "inline: no memory")));
  EXPECT_TRUE(a.idle() && b.idle());
  EXPECT_EQ(ReadError(b), "inline: no memory");
  EXPECT_EQ(AllError(), "");
}

// Abandon must find the Vars still held, and may thus write the results.
class Watched final : public Operation {
 public:
  Watched(Var* var, bool* held) : var_(var), held_(held) {}
  void Run() override { throw std::runtime_error("watched"); }
  void Abandon() noexcept override { *held_ = !var_->readable(); }

 private:
  Var* var_;
  bool* held_;
};

TEST_P(EngineFailure, AbandonIsCalledWhileTheVarsAreHeld) {
  Var var;
  bool held = false;
  Var* const writes[] = {&var};
  engine().Push(std::make_unique<Watched>(&var, &held), {}, writes);
  EXPECT_THROW(engine().WaitToRead(var), std::runtime_error);
  EXPECT_TRUE(held);
}

TEST_P(EngineFailure, IsThrownToOneOfSeveralWaitingThreads) {
  for (int round = 0; round < 20; ++round) {
    Var var;
    std::atomic<int> thrown{0};
    PushBad("bad: shared", {}, {&var});
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&] { thrown += ReadError(var) == "bad: shared"; });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(thrown, 1);
  }
}

TEST_P(EngineFailure, ManyAreKeptWithinBounds) {
  Var var;
  for (int i = 0; i < 3000; ++i) PushBad("bad: one of many", {}, {});
  PushBad("bad: late", {}, {&var});
  engine().WaitToWrite(var);
  EXPECT_EQ(ReadError(var), "bad: late") << "not kept, but still on its Var";
  EXPECT_EQ(AllError(), "bad: one of many");
  EXPECT_EQ(AllError(), "");
}

TEST_P(EngineFailure, ReportedOnesMakeRoomForNewOnes) {
  for (int i = 0; i < 2000; ++i) {
    Var var;
    PushBad("bad: seen", {}, {&var});
    EXPECT_EQ(ReadError(var), "bad: seen");
  }
  PushBad("bad: unseen", {}, {});
  EXPECT_EQ(AllError(), "bad: unseen");
}

}  // namespace
}  // namespace plait
