// ThreadedEngine: workers and their lanes, pausing, fork, shutdown.

#include "engine/threaded_engine.h"

#include <pthread.h>
#include <signal.h>

#include <chrono>
#include <new>
#include <system_error>

#include "base/blocking.h"
#include "base/error.h"
#include "base/parallel.h"
#include "engine/spin.h"
#include "engine/var_queue.h"

namespace plait {
namespace {

constexpr const char* kThreadNames[] = {"plait-compute", "plait-copy", "plait-io",
                                        "plait-callback", "plait-comm"};

// How long a compute worker without work stays awake: a wake-up takes longer than the
// gap between two operations often is.
constexpr std::chrono::microseconds kWorkerSpin{50};

// The lane that the calling thread works for.
struct WorkPlace {
  const ThreadedEngine* engine = nullptr;
  LaneState* lane = nullptr;
};
thread_local WorkPlace work_place;

// Signals are for the threads of the program.
class ScopedNoSignals {
 public:
  ScopedNoSignals() {
    sigset_t all;
    sigfillset(&all);
    for (int fatal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGPROF}) {
      sigdelset(&all, fatal);
    }
    pthread_sigmask(SIG_BLOCK, &all, &before_);
  }
  ~ScopedNoSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_;
};

}  // namespace

ThreadedEngine::ThreadedEngine(int64_t workers, int64_t run_ahead)
    : EngineCore(run_ahead) {
  Check(workers >= 1 && workers <= 1024, "PLAIT_WORKERS: got ", workers,
        "; a number from 1 to 1024 was expected");
  const int count = static_cast<int>(workers);
  for (size_t i = 0; i < lanes_.size(); ++i)
    lanes_[i].SetUp(static_cast<Lane>(i), 1, 1);
  lanes_[0].SetUp(Lane::kCompute, count, std::max(1, AvailableThreads() / count));
  RegisterForFork(this);
}

ThreadedEngine::~ThreadedEngine() {
  Shutdown();
  UnregisterForFork(this);
}

LaneState* ThreadedEngine::OwnLane() const {
  return work_place.engine == this ? work_place.lane : nullptr;
}

// --- Getting workers to the work. With the mutex held.

bool ThreadedEngine::Schedule(Node* node) {
  if (stopped_) return false;
  LaneState& lane = lanes_[static_cast<size_t>(node->lane)];
  lane.Add(node);
  Staff(lane);
  return true;
}

void ThreadedEngine::Staff(LaneState& lane) {
  while (paused_ == 0) {
    switch (lane.NeedsWorker()) {
      case LaneState::Need::kNothing:
        return;
      case LaneState::Need::kWakeUp:
        lane.WakeOne();
        break;
      case LaneState::Need::kNewWorker:
        if (!StartWorker(lane)) return;
    }
  }
}

void ThreadedEngine::StaffAll() {
  for (LaneState& lane : lanes_) Staff(lane);
}

// When the system has no more threads, the next push or wait tries again.
bool ThreadedEngine::StartWorker(LaneState& lane) {
  const ScopedNoSignals inherited;
  try {
    lane.AddWorker(std::thread([this, &lane] { Work(lane); }));
    return true;
  } catch (const std::system_error&) {
    return false;
  }
}

// --- The life of a worker.

void ThreadedEngine::Work(LaneState& lane) {
  work_place = {this, &lane};
  const Lane kind = IsCallback(lane.lane()) ? Lane::kCallback : lane.lane();
  pthread_setname_np(pthread_self(), kThreadNames[static_cast<size_t>(kind)]);
  Node* done = nullptr;  // its Vars are released; still to be destroyed
  bool tired = false;    // has looked for a while
  Lock lock = Acquire();
  for (;;) {
    Node* const node = paused_ > 0 ? nullptr : lane.Take();
    if (node != nullptr) {
      if (done == nullptr) ++busy_;
      done = RunOne(lane, *node, done, lock);
      tired = false;
    } else if (done != nullptr) {
      lock.unlock();
      Settle(*done);
      lock = Acquire();
      pool_.Put(std::exchange(done, nullptr));
      NowIdle();
    } else if (stopped_) {
      return;
    } else if (!tired && lane.lane() == Lane::kCompute && !lane.Surplus()) {
      lock.unlock();
      SpinUntil(kWorkerSpin, [&] { return lane.HasWork() || stopped_; });
      lock = Acquire();
      tired = true;
    } else {
      lane.Sleep(lock, [this] { return stopped_.load(); });
      tired = false;
    }
  }
}

// Runs a node; before that, with the mutex released anyhow, destroys the one before.
Node* ThreadedEngine::RunOne(LaneState& lane, Node& node, Node* done, Lock& lock) {
  lock.unlock();
  if (done != nullptr) Settle(*done);
  bool ended = false;
  {
    const ScopedComputeThreads threads(lane.threads_each());
    ended = Execute(node, false);
  }
  lock = Acquire();
  if (done != nullptr) pool_.Put(done);
  if (!ended) {
    lane.Return();
    NowIdle();
    return nullptr;
  }
  // First, so that nobody is woken for the one operation that this worker will take.
  lane.Return();
  NodeList ready;
  VarQueue::ReleaseAll(node, ready);
  static_cast<void>(HandOver(ready));  // Schedule takes all while something is pending
  return &node;
}

// --- Waits inside operations, pauses, forks.

void ThreadedEngine::NowIdle() {
  --busy_;
  if (paused_ > 0) rest_.notify_all();
}

void ThreadedEngine::EnterWait() {
  LaneState* const lane = OwnLane();
  if (lane == nullptr) return;
  lane->Block();
  NowIdle();
  Staff(*lane);
}

void ThreadedEngine::LeaveWait(Lock& lock) {
  LaneState* const lane = OwnLane();
  if (lane == nullptr) return;
  resumed_.wait(lock, [this] { return paused_ == 0; });
  lane->Unblock();
  ++busy_;
}

// Waits until no other thread runs an operation. The caller, if it runs one, counts as
// resting meanwhile, so that two of them do not wait for each other.
void ThreadedEngine::AwaitRest(Lock& lock) {
  const bool self = OwnLane() != nullptr;
  if (self) NowIdle();
  rest_.wait(lock, [this] { return busy_ == 0; });
  if (self) ++busy_;
}

void ThreadedEngine::Pause() {
  PauseInline();  // first: an inline section may wait for a lane
  const int self = OwnLane() != nullptr ? 1 : 0;
  Lock lock = Acquire();
  ++paused_;
  if (busy_ == self) return;
  lock.unlock();
  const ScopedBlocking blocking;
  lock = Acquire();
  AwaitRest(lock);
  lock.unlock();  // before the host language's lock is taken again
}

void ThreadedEngine::Resume() {
  InlineSections::Go();
  const Lock lock = Acquire();
  if (--paused_ > 0) return;
  resumed_.notify_all();
  StaffAll();
}

void ThreadedEngine::AfterForkInChild() {
  EngineCore::AfterForkInChild();
  new (&rest_) std::condition_variable;
  new (&resumed_) std::condition_variable;
  paused_ = 0;
  LaneState* const own = OwnLane();
  for (LaneState& lane : lanes_) lane.ResetInChild(&lane == own);
  busy_ = own != nullptr ? 1 : 0;
  // The rest of the operation that forked must not use the pool of the parent.
  if (own != nullptr) {
    [[maybe_unused]] static auto* const for_ever = new ScopedComputeThreads(1);
  }
}

void ThreadedEngine::RestartInChild() {
  StaffAll();
}

// --- The end.

void ThreadedEngine::Shutdown() {
  if (CurrentOperation() != nullptr) return;  // exit() called by an operation
  for (;;) {
    Drain();
    const Lock lock = Acquire();
    if (!Idle()) continue;
    stopped_ = true;
    for (LaneState& lane : lanes_) lane.WakeAll();
    break;
  }
  for (LaneState& lane : lanes_) {
    std::vector<std::thread> threads;
    {
      const Lock lock = Acquire();
      threads = lane.TakeThreads();
    }
    const ScopedBlocking blocking;
    for (std::thread& thread : threads) thread.join();
  }
}

}  // namespace plait
