// EngineCore: pushes, and the steps from a ready operation to a destroyed one.

#include "engine/core.h"

#include <utility>

#include "base/blocking.h"
#include "base/error.h"
#include "engine/callback_lane.h"
#include "engine/pushing.h"
#include "engine/spin.h"
#include "engine/var_queue.h"

namespace plait {
namespace {

// So many operations may be pending however small their results are.
constexpr int64_t kMostPending = 1 << 16;

// The first failure of a Var in use that no wait has thrown yet.
Ref<Failure> FindFailure(Node& node) {
  for (const Use& use : node) {
    Failure* failure = use.var->failure();
    if (failure != nullptr && !failure->reported.load(std::memory_order_acquire)) {
      return Ref<Failure>(failure);
    }
  }
  return nullptr;
}

std::exception_ptr LostInFork(const Operation& op) {
  return std::make_exception_ptr(
      Error(ErrorKind::kRuntime,
            std::string(op.name()) +
                ": was running in another thread when the process forked, so its "
                "results are missing in the child; wait for them before the fork"));
}

}  // namespace

bool& NeverWaitsForRoom() {
  thread_local bool never = false;
  return never;
}

int& AddedPriority() {
  thread_local int added = 0;
  return added;
}

EngineCore::EngineCore(int64_t run_ahead) : run_ahead_(run_ahead) {
  Check(run_ahead >= 0, "PLAIT_RUN_AHEAD: got ", run_ahead,
        "; a number of bytes, 0 or more, was expected");
  epochs_.emplace_back(0);
}

EngineCore::Lock EngineCore::Acquire() {
  for (int i = 0; i < 64; ++i) {
    if (mutex_.try_lock()) return Lock(mutex_, std::adopt_lock);
    for (int k = 0; k < 8; ++k) CpuRelax();
  }
  return Lock(mutex_);
}

EngineCore::Running*& EngineCore::InnermostRunning() {
  thread_local Running* innermost = nullptr;
  return innermost;
}

EngineCore::Running* EngineCore::CurrentOperation() const {
  Running* running = InnermostRunning();
  while (running != nullptr && running->engine != this) running = running->outer;
  return running;
}

const Use* EngineCore::HeldByCurrentOperation(const Var& var) const {
  for (Running* r = InnermostRunning(); r != nullptr; r = r->outer) {
    if (r->engine != this) continue;
    for (const Use& use : *r->node) {
      if (use.var == &var) return &use;
    }
  }
  return nullptr;
}

bool EngineCore::Full(int eighths) const {
  const auto over = [eighths](const Count& count, int64_t limit) {
    return count.load() > limit - limit / 8 * (8 - eighths);
  };
  return over(pending_bytes_, RunAhead()) || over(pending_, kMostPending);
}

int64_t EngineCore::RunAhead() const {
  const int64_t pending = pending_bytes_.load();
  size_t (*used)() = used_bytes_.load(std::memory_order_relaxed);
  if (used == nullptr || pending < kLeastRunAhead / 2) return run_ahead_;
  const int64_t others = std::max<int64_t>(0, static_cast<int64_t>(used()) - pending);
  return std::min(run_ahead_, std::max(kLeastRunAhead, others / 4));
}

// Whoever runs an operation must not wait here: it may be what makes room. When it has
// waited, a pusher goes on only at 7/8, so that it is not woken for every operation.
void EngineCore::WaitForRoom() {
  if (!Full(8)) [[likely]]
    return;
  if (CurrentOperation() != nullptr || NeverWaitsForRoom() || !Schedules()) return;
  const ScopedBlocking blocking;
  Lock lock = Acquire();
  if (forked_) AdoptOrphans(lock);
  ++room_waiters_;
  room_.wait(lock, [this] { return !Full(7) || paused() || !Schedules(); });
  --room_waiters_;
}

Node* EngineCore::MakeNode(std::unique_ptr<Operation> op, UseList uses) {
  std::shared_ptr<Count> parent;
  if (Running* running = CurrentOperation()) {
    if (!running->pushed) running->pushed = std::make_shared<Count>(0);
    parent = running->pushed;
  }
  Node* node = pool_.Get();  // nothing below throws
  node->lane = op->lane;
  node->priority = op->priority + AddedPriority();
  node->bytes = static_cast<int64_t>(op->bytes);
  node->order = pushes_++;
  node->op = std::move(op);
  node->SetUses(std::move(uses));
  node->parent = std::move(parent);
  if (node->parent) ++*node->parent;
  node->epoch = &epochs_.back();
  ++*node->epoch;
  ++pending_;
  pending_bytes_ += node->bytes;
  return node;
}

bool EngineCore::TakeVars(Node& node) {
  const bool nested = CurrentOperation() != nullptr;
  // What an operation pushes belongs before the writers queued behind the operation;
  // else it could not wait for its own pushes.
  return VarQueue::TakeAll(node, [this, nested](const Use& use) {
    if (!nested) return false;
    const Use* held = HeldByCurrentOperation(*use.var);
    if (held == nullptr || held->write) return false;
    VarQueue::Share(*use.var);
    return true;
  });
}

void EngineCore::Push(std::unique_ptr<Operation> op, VarSpan reads, VarSpan writes) {
  Check(op != nullptr && static_cast<size_t>(op->lane) < kNumLanes, ErrorKind::kRuntime,
        "engine: no operation, or one without a lane, was pushed; both were expected");
  WaitForRoom();
  UseList uses(reads, writes);
  NodeList here;
  {
    Lock lock = Acquire();
    if (forked_) [[unlikely]]
      AdoptOrphans(lock);
    Node* node = MakeNode(std::move(op), std::move(uses));
    if (TakeVars(*node)) {
      here.Append(node);
      here = HandOver(here);
    } else if (!Schedules() && CurrentOperation() == nullptr) {
      AwaitTurn(*node, lock);
      here.Append(node);
    }
    // Else whoever releases the last Var hands the node over. An operation does not
    // wait for its pushes: two that pushed for each other's Vars would never end.
  }
  RunHere(here);
}

NodeList EngineCore::HandOver(NodeList ready) {
  NodeList here;
  while (Node* node = ready.Pop()) {
    if (node->waiter != nullptr) {
      node->waiter->granted = true;
      node->waiter->cv.notify_one();
    } else if (!Schedule(node)) {
      here.Append(node);
    }
  }
  return here;
}

Ref<Failure> EngineCore::NewFailure(std::exception_ptr error) {
  Ref<Failure> failure = MakeRef<Failure>();
  failure->error = std::move(error);
  NoteFailure(failure.get());
  return failure;
}

// The Vars written carry the failure, or none any more.
void EngineCore::Mark(Node& node, Failure* failure) {
  if (failure != nullptr) node.op->Abandon();
  for (const Use& use : node) {
    if (use.write && use.var->failure() != failure) use.var->SetFailure(failure);
  }
}

bool EngineCore::Execute(Node& node, bool on_pushing_thread) {
  node.state = Node::State::kRunning;
  if (!node.op) return true;
  Operation& op = *node.op;
  Running running{this, &node, InnermostRunning(), nullptr};
  InnermostRunning() = &running;
  const InlineSections::ScopedOperation operation;
  Ref<Failure> failure;
  if (node.orphan) {
    failure = NewFailure(LostInFork(op));
  } else {
    failure = FindFailure(node);
  }
  AsyncOperation* const async = on_pushing_thread ? nullptr : op.async();
  if (!failure && async != nullptr) {
    failure = Begin(*async, node);
    if (!failure) {
      InnermostRunning() = running.outer;
      return false;
    }
  } else if (!failure) {
    const int64_t start = observed() ? SteadyNanoseconds() : 0;
    try {
      op.Run();
    } catch (...) {
      failure = NewFailure(std::current_exception());
    }
    if (start != 0) {
      observer_.Report({op.name(), op.layer(), op.lane, on_pushing_thread,
                        SmallThreadNumber(), start, SteadyNanoseconds()});
    }
  }
  Mark(node, failure.get());
  InnermostRunning() = running.outer;
  return true;
}

Ref<Failure> EngineCore::Begin(AsyncOperation& op, Node& node) {
  op.engine_ = this;
  op.node_ = &node;
  op.start_ns_ = observed() ? SteadyNanoseconds() : 0;
  try {
    op.Start();
    return nullptr;
  } catch (...) {
    op.engine_ = nullptr;
    return NewFailure(std::current_exception());
  }
}

void EngineCore::Complete(Node& node, std::exception_ptr error) {
  const AsyncOperation& op = *node.op->async();
  Ref<Failure> failure;
  if (error) failure = NewFailure(std::move(error));
  if (op.start_ns_ != 0) {
    observer_.Report({op.name(), op.layer(), op.lane, false, SmallThreadNumber(),
                      op.start_ns_, SteadyNanoseconds()});
  }
  Mark(node, failure.get());
  NodeList here;
  {
    const Lock lock = Acquire();
    NodeList ready;
    VarQueue::ReleaseAll(node, ready);
    here = HandOver(ready);
  }
  Settle(node);
  {
    const Lock lock = Acquire();
    pool_.Put(&node);
  }
  RunHere(here);
}

void EngineCore::Settle(Node& node) {
  node.op.reset();
  // From a count's last decrement on the count may be gone.
  const bool last_of_parent = node.parent && node.parent->fetch_sub(1) == 1;
  node.parent.reset();
  pending_bytes_ -= node.bytes;
  --pending_;
  const bool last_of_epoch = node.epoch->fetch_sub(1) == 1;
  if ((last_of_parent || last_of_epoch) && drain_waiters_ > 0) {
    const Lock lock = Acquire();
    drained_.notify_all();
  }
  if (room_waiters_ > 0 && !Full(7)) {
    const Lock lock = Acquire();
    room_.notify_all();
  }
}

void EngineCore::RunHere(NodeList nodes) {
  while (Node* node = nodes.Pop()) {
    static_cast<void>(Execute(*node, true));  // always ends here
    {
      const Lock lock = Acquire();
      NodeList ready;
      VarQueue::ReleaseAll(*node, ready);
      nodes.Append(HandOver(ready));
    }
    Settle(*node);
    const Lock lock = Acquire();
    pool_.Put(node);
  }
}

void EngineCore::Advance(Var& var) {
  NodeList here;
  {
    const Lock lock = Acquire();
    NodeList ready;
    VarQueue::Advance(var, ready);
    here = HandOver(ready);
  }
  RunHere(here);
}

void EngineCore::NoteFailure(Failure* failure) {
  Failures dropped;
  const Lock lock = Acquire();
  dropped = failures_.Note(failure);
}

void EngineCore::SetObserver(EngineObserver observer) {
  const bool on = observer != nullptr;
  if (!on) observed_ = false;
  observer_.Set(std::move(observer));
  if (on) observed_ = true;
}

void EngineCore::ReportInline(const char* name, const char* layer, Lane lane,
                              int64_t start_ns, int64_t end_ns) {
  observer_.Report({name, layer, lane, true, SmallThreadNumber(), start_ns, end_ns});
}

}  // namespace plait
