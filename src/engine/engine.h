// Engine: runs operations when the resources they name allow it.
//
// An Operation is pushed with the Vars it reads and the Vars it writes. Two operations
// of which one writes a Var of the other run in the order of their pushes; all others
// may run at the same time, on the workers of their lanes. A small operation whose Vars
// are all idle may be run by its caller at once: see TryBegin.
//
// Errors: an operation that throws marks the Vars it writes with a Failure. An
// operation that reads or writes a marked Var is not run; it is abandoned and passes
// the mark on. The error is thrown once, by the first wait that meets it (WaitToRead,
// WaitAll); after that the mark counts as gone: what reads the Var later runs on what
// Abandon left there (NaN, or 0 for integers).
//
// Thread safety: everything may be called from any thread. An operation may push and
// wait. The Vars that it holds count as ready for it, and what it pushes to read a Var
// that it reads itself comes before writers which were pushed after it. But it must not
// wait for what itself has to wait for the operation's end: a write of a Var that it
// reads, a use of a Var that it writes, or what comes after these. Between TryBegin and
// End nothing may be pushed or waited for on the same Vars.
//
// Fork: the lanes rest between operations while the process forks. The child may go on
// with all Vars and arrays. Operations that were pushed and not begun run in the child
// too; those of Lane::kComm, and those that were waiting inside when it forked, fail
// there. Compute operations of the child have one thread. A Var that another thread
// held inline at that moment stays held in the child.

#ifndef PLAIT_ENGINE_ENGINE_H_
#define PLAIT_ENGINE_ENGINE_H_

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "base/device.h"
#include "engine/inline_section.h"
#include "engine/var.h"

namespace plait {

enum class Lane : uint8_t {
  kCompute,   // operators; one worker masters all cores, or PLAIT_WORKERS of them
  kCopy,      // between devices
  kIo,        // files
  kCallback,  // code of the host language; grows when its workers block
  kComm,      // other processes
  kCount,
};

using VarSpan = std::span<Var* const>;

class AsyncOperation;

// What is pushed. It owns all it touches (references to arrays) until it is destroyed,
// which happens on any thread, after its Vars are released.
class Operation {
 public:
  virtual ~Operation() = default;

  // Does the work. May throw; the exception becomes the Failure of the Vars written.
  virtual void Run() = 0;
  // Called instead of Run when an input has failed, and after a Run that threw: leaves
  // defined values (NaN, 0) in what it would have written.
  virtual void Abandon() noexcept {}
  // For the profiler; names live as long as the process or the operation.
  virtual const char* name() const { return "operation"; }
  virtual const char* layer() const { return ""; }
  // Itself, when it may end later than its work was begun.
  virtual AsyncOperation* async() { return nullptr; }

  Lane lane = Lane::kCompute;
  int priority = 0;  // higher first among the ready operations of a lane
  size_t bytes = 0;  // of results; counts against the run-ahead limit
};

// An Operation made of a callable.
template <typename F>
class LambdaOperation final : public Operation {
 public:
  LambdaOperation(const char* name, F f) : name_(name), f_(std::move(f)) {}
  void Run() override { f_(); }
  const char* name() const override { return name_; }

 private:
  const char* name_;
  F f_;
};
template <typename F>
std::unique_ptr<Operation> MakeOperation(const char* name, F f) {
  return std::make_unique<LambdaOperation<F>>(name, std::move(f));
}

// One finished operation, for the profiler. Times are from std::chrono::steady_clock.
struct EngineEvent {
  const char* name;
  const char* layer;
  Lane lane;
  bool ran_inline;  // on the thread that pushed it
  uint64_t thread;  // a small number for each thread
  int64_t start_ns;
  int64_t end_ns;
};
using EngineObserver = std::function<void(const EngineEvent&)>;

class Engine {
 public:
  // The engine of the process: ThreadedEngine, or SerialEngine by PLAIT_ENGINE. Never
  // destroyed; Shutdown is called at exit.
  static Engine& Get();
  virtual ~Engine() = default;

  // Inline path. Holds all Vars if that is possible now and none of them carries an
  // unreported failure, or returns false and changes nothing. After true the caller
  // does the work on its own thread and must call End or EndFailed with the same Vars.
  // A Var must not stand in both spans, nor twice in `writes`.
  bool TryBegin(VarSpan reads, VarSpan writes);
  void End(VarSpan reads, VarSpan writes);
  void EndFailed(VarSpan reads, VarSpan writes, std::exception_ptr error);

  // Schedules the operation. The Vars must live until the operation is destroyed. May
  // wait when too many bytes are pending (bounded run-ahead); it then counts as
  // blocking (base/blocking.h). Duplicates, and Vars in both spans, are taken as writes
  // once.
  virtual void Push(std::unique_ptr<Operation> op, VarSpan reads, VarSpan writes) = 0;

  // Returns when all writes of the Var pushed so far are done; throws its failure if
  // that was not thrown before.
  virtual void WaitToRead(Var& var) = 0;
  // Returns when all reads and writes pushed so far are done; does not throw.
  virtual void WaitToWrite(Var& var) = 0;
  // Returns when everything pushed so far, by any thread, is done and destroyed; inside
  // an operation, when what this operation pushed is. Throws the first failure not
  // thrown yet and takes all others as reported.
  virtual void WaitAll() = 0;

  // Every operation pushed so far is done and destroyed.
  virtual bool Idle() const = 0;

  // Gives a measure of the bytes that arrays use now. Results may then be pending up to
  // a quarter of what is used beside them (at least kLeastRunAhead), within the limit:
  // a small program that runs ahead should not need many times its memory.
  virtual void SetUsedBytes(size_t (*used)()) = 0;
  static constexpr int64_t kLeastRunAhead = int64_t{8} << 20;

  // Gives events of operations (also inline ones) to `observer`; nullptr: off. Several
  // threads may call it at once. When SetObserver returns, the one before is not being
  // called and never will be; an observer must not call it.
  virtual void SetObserver(EngineObserver observer) = 0;
  bool observed() const { return observed_.load(std::memory_order_relaxed); }
  // Reports an operation that its caller ran between TryBegin and End.
  virtual void ReportInline(const char* name, const char* layer, Lane lane,
                            int64_t start_ns, int64_t end_ns) = 0;

  // Between Pause and Resume no lane begins an operation. Pause returns when no other
  // thread of a lane is in one (but for waits inside operations, which then go on only
  // after Resume). They nest; whoever paused must not wait. A fork does both by itself;
  // a host language with a global lock calls them around a fork, where it can let go of
  // that lock (Resume only in the parent: in the child no lane is paused).
  virtual void Pause() = 0;
  virtual void Resume() = 0;

  // Finishes what was pushed and joins the workers; later pushes run at once on the
  // calling thread. Does nothing when an operation calls it.
  virtual void Shutdown() = 0;

 protected:
  // A holder of a Var with a queue let go of it.
  virtual void Advance(Var& var) = 0;
  // Notes a failure for WaitAll.
  virtual void NoteFailure(Failure* failure) = 0;

  std::atomic<bool> observed_{false};
};

// Makes the two kinds for tests; Engine::Get is what everything else uses.
std::unique_ptr<Engine> MakeThreadedEngine();
std::unique_ptr<Engine> MakeSerialEngine();

inline bool Engine::TryBegin(VarSpan reads, VarSpan writes) {
  if (!InlineSections::Enter()) [[unlikely]]
    return false;
  const auto sound = [](const Var* v) {
    const Failure* f = v->failure();
    return f == nullptr || f->reported.load(std::memory_order_acquire);
  };
  size_t w = 0, r = 0;  // how many are held
  bool ok = true;
  while (ok && w < writes.size() && (ok = writes[w]->TryWrite())) {
    ok = sound(writes[w++]);
  }
  while (ok && r < reads.size() && (ok = reads[r]->TryRead())) {
    ok = sound(reads[r++]);
  }
  if (ok) [[likely]]
    return true;
  for (size_t i = 0; i < r; ++i) {
    if (reads[i]->EndRead()) Advance(*reads[i]);
  }
  for (size_t i = 0; i < w; ++i) {
    if (writes[i]->AbortWrite()) Advance(*writes[i]);
  }
  InlineSections::Leave();
  return false;
}

inline void Engine::End(VarSpan reads, VarSpan writes) {
  for (Var* v : reads) {
    if (v->EndRead()) [[unlikely]]
      Advance(*v);
  }
  for (Var* v : writes) {
    if (v->failure() != nullptr) [[unlikely]]
      v->SetFailure(nullptr);
    if (v->EndWrite()) [[unlikely]]
      Advance(*v);
  }
  InlineSections::Leave();
}

}  // namespace plait

#endif  // PLAIT_ENGINE_ENGINE_H_
