// EngineCore: what both engines share: the order of Vars, waits, failures, fork.
//
// A derived engine decides who runs an operation that holds all its Vars: Schedule
// takes it for another thread, or leaves it to the thread that made it ready.

#ifndef PLAIT_ENGINE_CORE_H_
#define PLAIT_ENGINE_CORE_H_

#include <deque>
#include <memory>
#include <mutex>

#include "engine/async_operation.h"
#include "engine/failure_list.h"
#include "engine/fork.h"
#include "engine/node.h"
#include "engine/observer.h"

namespace plait {

class EngineCore : public Engine, protected ForkAware {
 public:
  void Push(std::unique_ptr<Operation> op, VarSpan reads, VarSpan writes) final;
  void WaitToRead(Var& var) final;
  void WaitToWrite(Var& var) final;
  void WaitAll() final;
  bool Idle() const final { return pending_.load(std::memory_order_acquire) == 0; }
  void SetObserver(EngineObserver observer) final;
  void SetUsedBytes(size_t (*used)()) final { used_bytes_.store(used); }
  void ReportInline(const char* name, const char* layer, Lane lane, int64_t start_ns,
                    int64_t end_ns) final;

 protected:
  using Lock = std::unique_lock<std::mutex>;
  using Count = std::atomic<int64_t>;

  // An operation that this thread is running; they nest when one runs inside another.
  struct Running {
    const EngineCore* engine;
    Node* node;
    Running* outer;
    std::shared_ptr<Count> pushed;  // operations pushed by it and not destroyed
  };

  explicit EngineCore(int64_t run_ahead);

  // --- For the derived engine.

  // Takes a ready node, to be run by another thread; false: the caller shall run it.
  // With the mutex held.
  virtual bool Schedule(Node* node) = 0;
  // Whether Schedule would take nodes now.
  virtual bool Schedules() const = 0;
  // Around a wait of the calling thread, with the mutex held. LeaveWait may wait
  // itself.
  virtual void EnterWait() {}
  virtual void LeaveWait(Lock&) {}
  virtual bool paused() const { return false; }

  // Lets no thread go on with the inline path, and returns when none is in it.
  void PauseInline();

  void BeforeFork() override;
  void AfterForkInParent() override;
  void AfterForkInChild() override;
  // The first use in a forked child, with the mutex held.
  virtual void RestartInChild() {}

  // --- Steps in the life of a ready node.

  // Gives nodes to their waiters or to Schedule; returns the rest, which the caller
  // must give to RunHere when it has let go of the mutex. With the mutex held.
  [[nodiscard]] NodeList HandOver(NodeList ready);
  // Runs or abandons the operation and marks the Vars written. False: it was begun and
  // goes on by itself, and everything else is left to Complete; `node` may be gone.
  [[nodiscard]] bool Execute(Node& node, bool on_pushing_thread);
  // Destroys the operation and takes it off the counts. The node is then the caller's.
  void Settle(Node& node);
  // All the steps, for these nodes and those that they make ready.
  void RunHere(NodeList nodes);

  // The innermost operation of this engine that this thread is running, or null.
  Running* CurrentOperation() const;
  // Waits until all that was pushed so far is destroyed; inside an operation, what that
  // operation has pushed.
  void Drain();
  // Locks mutex_. Spins a little first: critical sections are shorter than a sleep.
  Lock Acquire();

  void Advance(Var& var) final;
  void NoteFailure(Failure* failure) final;

  std::mutex mutex_;
  NodePool pool_;     // guarded by mutex_
  Count pending_{0};  // operations pushed and not destroyed

 private:
  friend class AsyncOperation;
  static Running*& InnermostRunning();
  // Begins an operation that ends later; the failure when it could not be begun.
  Ref<Failure> Begin(AsyncOperation& op, Node& node);
  // The end of such an operation, on any thread.
  void Complete(Node& node, std::exception_ptr error);
  Ref<Failure> NewFailure(std::exception_ptr error);
  void Mark(Node& node, Failure* failure);
  const Use* HeldByCurrentOperation(const Var& var) const;

  bool Full(int eighths) const;
  void WaitForRoom();
  Node* MakeNode(std::unique_ptr<Operation> op, UseList uses);
  int64_t RunAhead() const;
  bool TakeVars(Node& node);
  void AwaitTurn(Node& node, Lock& lock);
  Ref<Failure> Await(Var& var, bool write);
  bool DrainEpochs(int64_t last);
  void AdoptOrphans(Lock& lock);
  void Inherit(Node& node);

  const int64_t run_ahead_;
  Count pending_bytes_{0};
  std::atomic<size_t (*)()> used_bytes_{nullptr};
  std::atomic<int> room_waiters_{0}, drain_waiters_{0};
  std::condition_variable room_, drained_;
  ObserverSlot observer_;

  // Guarded by mutex_. epochs_[i] counts operations that were pushed between two
  // WaitAlls and are not destroyed; the last one counts new ones.
  std::deque<Count> epochs_;
  int64_t first_epoch_ = 0;  // the number of epochs_[0]
  uint64_t pushes_ = 0;
  FailureList failures_;
  NodeList orphans_;     // of threads that this forked child lacks
  bool forked_ = false;  // the first use in the child is still to come
};

}  // namespace plait

#endif  // PLAIT_ENGINE_CORE_H_
