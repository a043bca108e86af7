// EngineCore: what becomes of operations in a forked child.
//
// The child has a copy of all nodes, but only the thread that forked. Operations still
// in a queue run in the child as well. Those that were running are lost there with
// their threads; they fail, so that what they wrote is never taken for whole.

#include <new>
#include <utility>

#include "base/blocking.h"
#include "engine/core.h"
#include "engine/var_queue.h"

namespace plait {

void EngineCore::PauseInline() {
  InlineSections::Stop();
  if (InlineSections::Empty()) return;
  const ScopedBlocking blocking;
  InlineSections::AwaitEmpty();
}

// The mutex is held during the fork, so the child finds queues and counts in order.
void EngineCore::BeforeFork() {
  Pause();
  mutex_.lock();
}

void EngineCore::AfterForkInParent() {
  mutex_.unlock();
  Resume();
}

void EngineCore::AfterForkInChild() {
  // Destructors would wait for threads that do not exist.
  new (&mutex_) std::mutex;
  new (&room_) std::condition_variable;
  new (&drained_) std::condition_variable;
  observer_.ResetInChild();
  InlineSections::ResetInChild();
  room_waiters_ = 0;
  drain_waiters_ = 0;
  epochs_.resize(1);
  epochs_.front() = 0;
  pending_ = 0;
  pending_bytes_ = 0;
  orphans_ = {};
  pool_.ForEach([this](Node& node) { Inherit(node); });
  forked_ = true;
}

void EngineCore::Inherit(Node& node) {
  if (node.state == Node::State::kFree) return;
  bool running_here = false;
  for (Running* r = InnermostRunning(); r != nullptr; r = r->outer) {
    running_here = running_here || r->node == &node;
  }
  if (node.state == Node::State::kReleased && !running_here) {
    // Half destroyed by a lost thread; what it owned leaks.
    static_cast<void>(node.op.release());
    pool_.Put(&node);
    return;
  }
  node.epoch = &epochs_.front();
  ++*node.epoch;
  ++pending_;
  pending_bytes_ += node.bytes;
  if (running_here) return;
  // Nobody wakes up to run it or to let go of its Var: treat it as an operation.
  const bool had_waiter = std::exchange(node.waiter, nullptr) != nullptr;
  // Ready nodes are in their lanes, or else were on the stack of a lost thread.
  const bool lost = had_waiter || (!Schedules() && CurrentOperation() == nullptr);
  const bool running = node.state == Node::State::kRunning;
  if (running || (node.state == Node::State::kReady && lost)) orphans_.Append(&node);
  // Other processes cannot be spoken to over the parent's connections.
  node.orphan = running || node.lane == Lane::kComm;
}

void EngineCore::AdoptOrphans(Lock& lock) {
  forked_ = false;
  RestartInChild();
  const NodeList here = HandOver(std::exchange(orphans_, {}));
  if (here.empty()) return;
  lock.unlock();
  RunHere(here);
  lock = Acquire();
}

}  // namespace plait
