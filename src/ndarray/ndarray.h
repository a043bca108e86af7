// NDArray: a handle on an n-dimensional array whose value may still be on its way.
//
// A handle is a counted pointer to an ArrayBody: shape, dtype, and either a place in a
// Chunk (memory), or a Pending value: the result of a step of a lazy program that has
// not run. Elements are always contiguous in row-major order. Handles that share a
// chunk are views: they see each other's writes.
//
// Thread safety: different handles may be used from different threads, also when they
// share memory; one handle object must not be assigned while another thread uses it.
//
// Invariants: (1) chunk is null exactly while pending is set. (2) A body's shape, dtype
// and place never change once they are visible. (3) data() may be read after WaitToRead
// and written after WaitToWrite; everything else goes through the engine.

#ifndef PLAIT_NDARRAY_NDARRAY_H_
#define PLAIT_NDARRAY_NDARRAY_H_

#include <atomic>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/device.h"
#include "base/dtype.h"
#include "base/ref.h"
#include "base/shape.h"
#include "ndarray/chunk.h"

namespace plait {

// What the tape knows of an array: the node that made it, or that it is a leaf with a
// gradient. Implemented in run/.
class TapeNode : public RefCounted<TapeNode> {
 public:
  virtual ~TapeNode() = default;
};

class ArrayBody : public RefCounted<ArrayBody> {
 public:
  ArrayBody(Shape shape, DType dtype, Device device)
      : shape(std::move(shape)), dtype(dtype), device(device) {}
  ~ArrayBody() {
    if (Pending* p = pending.load(std::memory_order_acquire)) p->Forget(this);
    Place(nullptr);
  }

  // Gives the value its place in memory, or takes it away.
  void Place(Ref<Chunk> memory) {
    if (chunk) chunk->bodies.fetch_sub(1, std::memory_order_acq_rel);
    chunk = std::move(memory);
    if (chunk) chunk->bodies.fetch_add(1, std::memory_order_relaxed);
  }

  // Makes the value's place known: flushes the program that it waits in.
  void Materialize() {
    while (Pending* p = pending.load(std::memory_order_acquire)) p->Flush();
  }

  Ref<Chunk> chunk;    // changed by Place only
  int64_t offset = 0;  // bytes from the chunk's start
  std::atomic<Pending*> pending{nullptr};
  int step = -1;                    // the pending step, and other bodies that wait for
  ArrayBody* next_owner = nullptr;  // the same one; both belong to the program
  Shape shape;
  DType dtype;
  Device device;
  Ref<TapeNode> tape;
  int tape_index = 0;  // which output of the tape's node
};

class NDArray {
 public:
  NDArray() = default;  // no array
  explicit NDArray(Ref<ArrayBody> body) : body_(std::move(body)) {}

  // Uninitialised; throws Error(kMemory).
  static NDArray Empty(const Shape& shape, DType dtype = DType::kFloat32,
                       Device device = {});
  // Copies host memory.
  static NDArray FromHost(const void* data, const Shape& shape, DType dtype,
                          Device device = {});
  // Shares the memory of another library until `release` is called.
  static NDArray Borrow(void* data, const Shape& shape, DType dtype, Device device,
                        std::function<void()> release);

  explicit operator bool() const { return static_cast<bool>(body_); }
  ArrayBody* body() const { return body_.get(); }
  const Shape& shape() const { return body_->shape; }
  DType dtype() const { return body_->dtype; }
  Device device() const { return body_->device; }
  int64_t size() const { return body_->shape.size(); }
  int64_t nbytes() const { return size() * static_cast<int64_t>(SizeOf(dtype())); }

  // The memory, with pending values placed. Does not wait.
  Chunk& chunk() const {
    body_->Materialize();
    return *body_->chunk;
  }
  Var& var() const { return chunk().var(); }
  // REQUIRES: WaitToRead or WaitToWrite, or the engine has given the Var.
  void* data() const {
    return static_cast<char*>(body_->chunk->data()) + body_->offset;
  }
  template <typename T>
  T* data() const {
    return static_cast<T*>(data());
  }

  // Views: they share memory and are cut from any recorded history.
  NDArray View(const Shape& shape, int64_t offset_elements = 0) const;
  NDArray Reshape(const Shape& shape) const;         // of equal size
  NDArray Slice(int64_t first, int64_t last) const;  // along axis 0
  NDArray Detach() const;
  bool SharesMemory(const NDArray& other) const;

  // All that was asked of this array before is done. May throw an engine's failure.
  void WaitToRead() const;
  void WaitToWrite() const;

  // Synchronous copies between this array and host memory of nbytes() bytes.
  void CopyToHost(void* dst) const;
  void CopyFromHost(const void* src) const;

 private:
  Ref<ArrayBody> body_;
};

std::ostream& operator<<(std::ostream& out, const NDArray& a);  // float32 (2, 3)

}  // namespace plait

#endif  // PLAIT_NDARRAY_NDARRAY_H_
