// Operations that end later than they were begun: order, errors, pending counts.

#include "engine/async_operation.h"

#include "engine/testing.h"

namespace plait {
namespace {

// Ends when its thread, or whoever has the pointer, says so.
class Later final : public AsyncOperation {
 public:
  explicit Later(std::function<void(Later*)> start) : start_(std::move(start)) {
    lane = Lane::kComm;
  }
  void Start() override { start_(this); }
  void Abandon() noexcept override {
    if (abandoned != nullptr) ++*abandoned;
  }
  const char* name() const override { return "later"; }

  std::atomic<int>* abandoned = nullptr;

 private:
  std::function<void(Later*)> start_;
};

std::unique_ptr<Later> OnThread(std::vector<std::thread>& threads,
                                std::function<void()> work,
                                std::exception_ptr error = nullptr) {
  return std::make_unique<Later>([&threads, work, error](Later* op) {
    threads.emplace_back([op, work, error] {
      work();
      op->Finish(error);
    });
  });
}

class AsyncOperations : public BothEngines {
 protected:
  ~AsyncOperations() override {
    for (std::thread& t : threads_) t.join();
  }
  std::vector<std::thread> threads_;
  // Outlives the threads: ThreadSanitizer does not see that exceptions count their
  // owners, and takes the last one's deletion for a race.
  std::exception_ptr error_;
};

TEST_P(AsyncOperations, LaterOnesSeeWhatTheyWrote) {
  Var var;
  int value = 0;
  for (int i = 0; i < 20; ++i) {
    engine().Push(OnThread(threads_, [&value] { ++value; }), {}, Vars{&var});
    PushTo(engine(), [&value] { value *= 2; }, {}, {&var});
    engine().WaitToRead(var);  // `threads_` is touched by one thread at a time
  }
  EXPECT_EQ(value, (1 << 21) - 2);
}

TEST_P(AsyncOperations, MayEndBeforeTheyHaveBegun) {
  Var var;
  int value = 0;
  for (int i = 0; i < 100; ++i) {
    auto op = std::make_unique<Later>([&value](Later* self) {
      ++value;
      self->Finish();
    });
    engine().Push(std::move(op), {}, Vars{&var});
  }
  engine().WaitAll();
  EXPECT_EQ(value, 100);
}

TEST_P(AsyncOperations, PassTheirErrorOn) {
  Var var, next;
  std::atomic<int> abandoned{0};
  error_ = std::make_exception_ptr(Error(ErrorKind::kIo, "the line was cut"));
  auto op = OnThread(
      threads_, [] {}, error_);
  op->abandoned = &abandoned;
  engine().Push(std::move(op), {}, Vars{&var});
  PushTo(engine(), [] { FAIL() << "ran on a failed value"; }, {&var}, {&next});
  EXPECT_EQ(ErrorOf([&] { engine().WaitToRead(next); }), "the line was cut");
  EXPECT_EQ(abandoned, 1);
  engine().WaitAll();
}

TEST_P(AsyncOperations, ThatCannotBeBegunFail) {
  Var var;
  engine().Push(std::make_unique<Later>([](Later*) { Fail(ErrorKind::kIo, "shut"); }),
                {}, Vars{&var});
  EXPECT_EQ(ErrorOf([&] { engine().WaitToRead(var); }), "shut");
}

TEST(AsyncOperation, ManyAreUnderWayOnOneLane) {
  ThreadedEngine engine(1, kNoLimit);
  std::mutex mutex;
  std::vector<Later*> begun;
  Gate all;
  Var vars[8];
  for (Var& var : vars) {
    auto op = std::make_unique<Later>([&](Later* self) {
      const std::lock_guard lock(mutex);
      begun.push_back(self);
      if (begun.size() == 8) all.Open();
    });
    engine.Push(std::move(op), {}, Vars{&var});
  }
  ASSERT_TRUE(all.WaitFor(std::chrono::seconds(60)));
  EXPECT_FALSE(engine.Idle());
  for (Later* op : begun) op->Finish();
  engine.WaitAll();
  EXPECT_TRUE(engine.Idle());
}

INSTANTIATE_TEST_SUITE_P(Engines, AsyncOperations, testing::Bool(), EngineName);

}  // namespace
}  // namespace plait
