// Var: the tag of a resource (an array's memory, a generator, a workspace).
//
// The engine orders operations by the Vars they read and write. Readers share, a writer
// is alone, and the order of pushes is kept for each Var.
//
// state_ packs the holders: bit 31 a queue exists (kQueued), bit 30 a writer holds it,
// the rest counts readers. While kQueued is unset, holding and letting go are one
// atomic instruction each and need no lock; the queue itself belongs to the engine's
// mutex.

#ifndef PLAIT_ENGINE_VAR_H_
#define PLAIT_ENGINE_VAR_H_

#include <atomic>
#include <cstdint>
#include <exception>

#include "base/ref.h"

namespace plait {

struct Use;

// An error on its way to the first thread that waits for what it spoilt.
struct Failure : RefCounted<Failure> {
  std::exception_ptr error;
  std::atomic<bool> reported{false};  // thrown to a waiter already
};

class Var {
 public:
  Var() = default;
  ~Var() {
    if (Failure* f = failure_.load(std::memory_order_acquire)) f->Release();
  }
  Var(const Var&) = delete;
  Var& operator=(const Var&) = delete;

  // Holds the Var now, or returns false and changes nothing.
  bool TryRead() {
    uint32_t s = state_.load(std::memory_order_relaxed);
    while (s < kWriter) {
      if (state_.compare_exchange_weak(s, s + 1, std::memory_order_acquire,
                                       std::memory_order_relaxed))
        return true;
    }
    return false;
  }
  bool TryWrite() {
    uint32_t s = 0;
    return state_.compare_exchange_strong(s, kWriter, std::memory_order_acquire,
                                          std::memory_order_relaxed);
  }
  // Let go; true when the engine must now look at the queue (Engine::Advance).
  bool EndRead() {
    return (state_.fetch_sub(1, std::memory_order_acq_rel) - 1) == kQueued;
  }
  bool EndWrite() {
    version_.store(version() + 1, std::memory_order_relaxed);
    return state_.fetch_and(~kWriter, std::memory_order_acq_rel) & kQueued;
  }
  // As EndWrite, for a holder that wrote nothing.
  bool AbortWrite() {
    return state_.fetch_and(~kWriter, std::memory_order_acq_rel) & kQueued;
  }

  // Nobody writes it and nobody waits: what was pushed before is done.
  bool readable() const { return state_.load(std::memory_order_acquire) < kWriter; }
  bool idle() const { return state_.load(std::memory_order_acquire) == 0; }

  // Number of finished writes.
  uint32_t version() const { return version_.load(std::memory_order_relaxed); }

  // The error of the operation that last wrote it, or null. Only the holder for writing
  // may change it, and only a holder may look into it (any other may compare with
  // null).
  Failure* failure() const { return failure_.load(std::memory_order_acquire); }
  void SetFailure(Failure* failure) {
    if (failure != nullptr) failure->AddRef();
    Failure* before = failure_.exchange(failure, std::memory_order_acq_rel);
    if (before != nullptr) before->Release();
  }

 private:
  friend class VarQueue;
  static constexpr uint32_t kQueued = 1u << 31, kWriter = 1u << 30;

  std::atomic<uint32_t> state_{0};
  std::atomic<uint32_t> version_{0};
  std::atomic<Failure*> failure_{nullptr};
  Use* queue_head_ = nullptr;  // guarded by the engine's mutex
  Use* queue_tail_ = nullptr;
};

}  // namespace plait

#endif  // PLAIT_ENGINE_VAR_H_
