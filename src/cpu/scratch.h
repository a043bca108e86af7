// Scratch: a buffer for the length of a call, from the caller's workspace or the pool.

#ifndef PLAIT_CPU_SCRATCH_H_
#define PLAIT_CPU_SCRATCH_H_

#include <cstddef>
#include <cstdint>

#include "memory/storage.h"

namespace plait::cpu {

// Memory that a caller lends to the Scratch of its thread, used like a stack. What does
// not fit comes from the pool. It notes how much a call needed at most, so that the
// next one can be given as much: a planned graph lends memory that is free at that
// moment.
class Workspace {
 public:
  // For this thread until it is destroyed. `data` may be null with 0 bytes.
  Workspace(void* data, size_t bytes)
      : data_(static_cast<char*>(data)), bytes_(bytes), outer_(current_) {
    current_ = this;
  }
  ~Workspace() { current_ = outer_; }
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;

  size_t most_used() const { return most_used_; }

 private:
  friend class Scratch;
  static size_t Aligned(size_t bytes) {
    return (bytes + memory::kAlignment - 1) / memory::kAlignment * memory::kAlignment;
  }
  // Null where it does not fit.
  void* Take(size_t bytes) {
    in_use_ += Aligned(bytes);
    most_used_ = in_use_ > most_used_ ? in_use_ : most_used_;
    if (top_ + Aligned(bytes) > bytes_) return nullptr;
    void* place = data_ + top_;
    top_ += Aligned(bytes);
    ++taken_;
    return place;
  }
  void Return(void* place, size_t bytes) {
    in_use_ -= Aligned(bytes);
    if (place == nullptr) return;
    if (data_ + top_ == static_cast<char*>(place) + Aligned(bytes))
      top_ -= Aligned(bytes);
    if (--taken_ == 0) top_ = 0;
  }

  static inline thread_local Workspace* current_ = nullptr;
  char* const data_;
  const size_t bytes_;
  Workspace* const outer_;
  size_t top_ = 0, in_use_ = 0, most_used_ = 0;
  int taken_ = 0;
};

// Not cleared, aligned to memory::kAlignment; throws kMemory as Allocate does.
class Scratch {
 public:
  Scratch() = default;
  explicit Scratch(size_t bytes) : bytes_(bytes), workspace_(Workspace::current_) {
    if (workspace_ != nullptr && bytes > 0) lent_ = workspace_->Take(bytes);
    if (lent_ == nullptr) block_ = memory::Allocate(Device{}, bytes);
  }
  ~Scratch() {
    if (workspace_ != nullptr && bytes_ > 0) workspace_->Return(lent_, bytes_);
    if (block_.data != nullptr) memory::Free(Device{}, block_);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  template <typename T>
  static size_t Bytes(int64_t count) {
    return static_cast<size_t>(count) * sizeof(T);
  }
  template <typename T>
  T* As() const {
    return static_cast<T*>(lent_ != nullptr ? lent_ : block_.data);
  }

 private:
  memory::Block block_;
  void* lent_ = nullptr;
  size_t bytes_ = 0;
  Workspace* workspace_ = nullptr;
};

}  // namespace plait::cpu

#endif  // PLAIT_CPU_SCRATCH_H_
