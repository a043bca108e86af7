// EngineCore: the waits.

#include "base/blocking.h"
#include "base/error.h"
#include "engine/core.h"
#include "engine/spin.h"
#include "engine/var_queue.h"

namespace plait {
namespace {

// How long a waiting thread stays awake: at first with the host language's lock, then
// without it. A sleep costs the time of a wake-up, up to 30 us on a virtual machine.
constexpr std::chrono::microseconds kWaiterSpin{20}, kFreeSpin{100};

// Marks the failure; true when nobody had thrown it before.
bool TakeUp(Failure& failure) {
  return !failure.reported.exchange(true, std::memory_order_acq_rel);
}

}  // namespace

// Waits until the Vars of the node are granted. The mutex is released meanwhile, and
// whenever the host language's lock is let go of or taken again.
void EngineCore::AwaitTurn(Node& node, Lock& lock) {
  Waiter waiter;
  node.waiter = &waiter;
  lock.unlock();
  {
    const ScopedBlocking blocking;
    lock = Acquire();
    if (forked_) AdoptOrphans(lock);
    if (!waiter.granted) {
      EnterWait();
      waiter.cv.wait(lock, [&waiter] { return waiter.granted; });
      LeaveWait(lock);
    }
    lock.unlock();
  }
  lock = Acquire();
  node.waiter = nullptr;
}

// Takes the Var as the next operation would, and lets it go. Returns the failure found.
// While the mutex is free a node stands for the hold, so that it does not outlive the
// thread in a forked child.
Ref<Failure> EngineCore::Await(Var& var, bool write) {
  const auto done = [&var, write] { return write ? var.idle() : var.readable(); };
  if (!SpinUntil(kWaiterSpin, done)) {
    const ScopedBlocking blocking;
    SpinUntil(kFreeSpin, done);
  }
  Ref<Failure> failure;
  NodeList here;
  {
    Lock lock = Acquire();
    Node* node = pool_.Get();
    node->SetUses(UseList(var, write));
    if (!VarQueue::TakeAll(*node, [](const Use&) { return false; })) {
      AwaitTurn(*node, lock);
    }
    failure = Ref<Failure>(var.failure());
    NodeList ready;
    VarQueue::ReleaseAll(*node, ready);
    pool_.Put(node);
    here = HandOver(ready);
  }
  RunHere(here);
  return failure;
}

void EngineCore::WaitToRead(Var& var) {
  if (var.readable() && var.failure() == nullptr) [[likely]]
    return;
  // What the running operation holds is ready for it.
  if (HeldByCurrentOperation(var) != nullptr) return;
  const Ref<Failure> failure = Await(var, false);
  if (failure && TakeUp(*failure)) std::rethrow_exception(failure->error);
}

void EngineCore::WaitToWrite(Var& var) {
  if (var.idle()) [[likely]]
    return;
  if (const Use* held = HeldByCurrentOperation(var)) {
    Check(held->write, ErrorKind::kRuntime,
          "engine: an operation waits to write what it reads itself, which would wait "
          "for ever; the operation must name the Var among its writes");
    return;
  }
  Await(var, true);
}

void EngineCore::WaitAll() {
  Drain();
  Failures all;
  {
    const Lock lock = Acquire();
    all = failures_.TakeAll();
  }
  Ref<Failure> first;
  for (Ref<Failure>& failure : all) {
    if (TakeUp(*failure) && !first) first = failure;
  }
  if (first) std::rethrow_exception(first->error);
}

// Whether all epochs up to number `last` are done.
bool EngineCore::DrainEpochs(int64_t last) {
  while (epochs_.size() > 1 && epochs_.front() == 0) {
    epochs_.pop_front();
    ++first_epoch_;
  }
  return first_epoch_ > last;
}

void EngineCore::Drain() {
  if (Idle()) return;
  const Running* const operation = CurrentOperation();
  if (operation != nullptr && !operation->pushed) return;
  const auto done = [&] { return operation ? *operation->pushed == 0 : Idle(); };
  if (SpinUntil(kWaiterSpin, done)) return;
  const ScopedBlocking blocking;
  if (SpinUntil(kFreeSpin, done)) return;
  Lock lock = Acquire();
  if (forked_) AdoptOrphans(lock);
  ++drain_waiters_;
  EnterWait();
  if (operation != nullptr) {
    drained_.wait(lock, [operation] { return *operation->pushed == 0; });
  } else {
    const int64_t last = first_epoch_ + static_cast<int64_t>(epochs_.size()) - 1;
    epochs_.emplace_back(0);
    drained_.wait(lock, [this, last] { return DrainEpochs(last); });
  }
  LeaveWait(lock);
  --drain_waiters_;
}

}  // namespace plait
