// NDArray: creation, views and synchronous copies.

#include "ndarray/ndarray.h"

#include <cstring>

#include "base/blocking.h"
#include "engine/engine.h"
#include "ndarray/outside.h"

namespace plait {
namespace {

size_t BytesOf(const Shape& shape, DType dtype) {
  size_t bytes = SizeOf(dtype);
  for (int64_t size : shape) {
    Check(size >= 0, "ndarray: shape ", shape,
          " has a negative size; sizes >= 0 were expected");
    if (__builtin_mul_overflow(bytes, static_cast<size_t>(size), &bytes))
      Fail(ErrorKind::kMemory, "ndarray: an array of shape ", shape, " and dtype ",
           dtype, " is larger than any memory");
  }
  return bytes;
}

}  // namespace

NDArray NDArray::Empty(const Shape& shape, DType dtype, Device device) {
  Ref<ArrayBody> body = MakeRef<ArrayBody>(shape, dtype, device);
  body->Place(Chunk::New(device, BytesOf(shape, dtype)));
  return NDArray(std::move(body));
}

NDArray NDArray::FromHost(const void* data, const Shape& shape, DType dtype,
                          Device device) {
  NDArray a = Empty(shape, dtype, device);
  // Fresh memory: nobody else can know of it yet.
  if (a.nbytes() > 0) std::memcpy(a.data(), data, a.nbytes());
  return a;
}

NDArray NDArray::Borrow(void* data, const Shape& shape, DType dtype, Device device,
                        std::function<void()> release) {
  Ref<ArrayBody> body = MakeRef<ArrayBody>(shape, dtype, device);
  body->Place(Chunk::Borrow(device, data, BytesOf(shape, dtype), std::move(release)));
  return NDArray(std::move(body));
}

NDArray NDArray::View(const Shape& shape, int64_t offset_elements) const {
  body_->Materialize();
  Ref<ArrayBody> view = MakeRef<ArrayBody>(shape, dtype(), device());
  view->Place(body_->chunk);
  view->offset =
      body_->offset + offset_elements * static_cast<int64_t>(SizeOf(dtype()));
  return NDArray(std::move(view));
}

NDArray NDArray::Reshape(const Shape& shape) const {
  Check(shape.size() == size(), "reshape: an array of shape ", this->shape(), " has ",
        size(), " elements; shape ", shape, " has ", shape.size());
  return View(shape);
}

NDArray NDArray::Slice(int64_t first, int64_t last) const {
  Check(shape().rank() > 0 && first >= 0 && first <= last && last <= shape()[0],
        ErrorKind::kIndex, "slice: [", first, ", ", last, ") of an array of shape ",
        shape(), "; a range inside axis 0 was expected");
  Shape part = shape();
  part[0] = last - first;
  return View(part, first * shape().size(1, shape().rank()));
}

NDArray NDArray::Detach() const {
  return View(shape());
}

bool NDArray::SharesMemory(const NDArray& other) const {
  if (&chunk() != &other.chunk()) return false;
  const int64_t a = body_->offset, b = other.body_->offset;
  return a < b + other.nbytes() && b < a + nbytes();
}

void NDArray::WaitToRead() const {
  Chunk& memory = chunk();
  memory.SettleForRead();
  Var& var = memory.var();
  if (var.readable() && var.failure() == nullptr) return;
  Engine::Get().WaitToRead(var);
}

void NDArray::WaitToWrite() const {
  Chunk& memory = chunk();
  memory.SettleForWrite();
  if (memory.var().idle()) return;
  Engine::Get().WaitToWrite(memory.var());
}

void NDArray::CopyToHost(void* dst) const {
  WaitToRead();
  const size_t bytes = static_cast<size_t>(nbytes());
  if (bytes > 0) std::memcpy(dst, data(), bytes);
}

void NDArray::CopyFromHost(const void* src) const {
  WaitToWrite();
  const size_t bytes = static_cast<size_t>(nbytes());
  Engine& engine = Engine::Get();
  Var* const var = &this->var();
  const bool held = engine.TryBegin({}, {&var, 1});
  if (bytes > 0) std::memcpy(data(), src, bytes);
  if (held) {
    engine.End({}, {&var, 1});
    return;
  }
  // An operation that writes it is the caller, or somebody reads it already. All who
  // come later must see that there is something new.
  NoteWrite(body_->chunk);
}

void NoteWrite(const Ref<Chunk>& chunk) {
  Engine& engine = Engine::Get();
  Var* const var = &chunk->var();
  if (engine.TryBegin({}, {&var, 1})) {
    engine.End({}, {&var, 1});
  } else {
    engine.Push(MakeOperation("note_write", [chunk] {}), {}, {&var, 1});
  }
}

std::ostream& operator<<(std::ostream& out, const NDArray& a) {
  if (!a) return out << "none";
  return out << a.dtype() << ' ' << a.shape();
}

}  // namespace plait
