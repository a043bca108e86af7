// Chunk: the memory of one or more arrays, with the Var that orders its users.
//
// A chunk is created already allocated. Small ones keep the elements behind the header,
// in one block of the pool; others own a block; external ones borrow memory of another
// library until their owner's release function is called.

#ifndef PLAIT_NDARRAY_CHUNK_H_
#define PLAIT_NDARRAY_CHUNK_H_

#include <atomic>
#include <cstddef>
#include <functional>

#include "base/device.h"
#include "base/ref.h"
#include "engine/var.h"
#include "memory/storage.h"

namespace plait {

class ArrayBody;

// Work on arrays that was asked for and not done yet: the lazy program of a thread.
// Declared here for NDArray, implemented in run/. Never destroyed.
class Pending {
 public:
  // Pushes all that waits to the engine. Afterwards no array or chunk points here
  // unless more work has been added since.
  virtual void Flush() = 0;
  // An array whose value is pending goes away: its value need not be written.
  virtual void Forget(ArrayBody* array) noexcept = 0;

 protected:
  ~Pending() = default;
};

class Chunk {
 public:
  // Uninitialised memory; throws Error(kMemory).
  static Ref<Chunk> New(Device device, size_t bytes);
  // Memory of somebody else; `release` is called once, on any thread.
  static Ref<Chunk> Borrow(Device device, void* data, size_t bytes,
                           std::function<void()> release);

  void* data() const { return data_; }
  size_t bytes() const { return bytes_; }
  Device device() const { return device_; }
  Var& var() { return var_; }

  // The lazy program that reads or writes this memory when it is flushed, or null. Set
  // and cleared under the program's lock; `slot` and `mark_writes` are its own notes.
  std::atomic<Pending*> mark{nullptr};
  std::atomic<bool> mark_writes{false};
  int slot = -1;

  // Array bodies on this memory; operations under way hold references but are none.
  std::atomic<int> bodies{0};

  // A program of any thread with unflushed writes (or, for a writer, reads) goes first.
  void SettleForRead() {
    if (Pending* p = mark.load(std::memory_order_acquire)) {
      if (mark_writes.load(std::memory_order_acquire)) p->Flush();
    }
  }
  void SettleForWrite() {
    while (Pending* p = mark.load(std::memory_order_acquire)) p->Flush();
  }

  void AddRef() const { count_.fetch_add(1, std::memory_order_relaxed); }
  void Release() const {
    if (count_.load(std::memory_order_acquire) == 1 ||
        count_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
      Destroy();
    }
  }
  bool unique() const { return count_.load(std::memory_order_acquire) == 1; }

 private:
  Chunk(Device device, void* data, size_t bytes)
      : device_(device), data_(data), bytes_(bytes) {}
  ~Chunk() = default;
  void Destroy() const;

  mutable std::atomic<int32_t> count_{0};
  Device device_;
  void* data_;
  size_t bytes_;
  memory::Block block_;   // of the elements; empty for small and external chunks
  memory::Block header_;  // of this object, with the elements when they are few
  std::function<void()>* release_ = nullptr;
  Var var_;
};

}  // namespace plait

#endif  // PLAIT_NDARRAY_CHUNK_H_
