// Chunk: creation and destruction.

#include "ndarray/chunk.h"

#include <memory>
#include <new>

namespace plait {
namespace {

// Elements start at an aligned address behind the header.
constexpr size_t kHeader =
    (sizeof(Chunk) + memory::kAlignment - 1) / memory::kAlignment * memory::kAlignment;
constexpr size_t kSmall = 4096;
constexpr Device kHost;

}  // namespace

Ref<Chunk> Chunk::New(Device device, size_t bytes) {
  if (bytes <= kSmall && device.is_cpu()) {
    const memory::Block block = memory::Allocate(device, kHeader + bytes);
    auto* chunk = ::new (block.data)
        Chunk(device, static_cast<char*>(block.data) + kHeader, bytes);
    chunk->header_ = block;
    return Ref<Chunk>(chunk);
  }
  const memory::Block header = memory::Allocate(kHost, kHeader);
  memory::Block block;
  try {
    block = memory::Allocate(device, bytes);
  } catch (...) {
    memory::Free(kHost, header);
    throw;
  }
  auto* chunk = ::new (header.data) Chunk(device, block.data, bytes);
  chunk->header_ = header;
  chunk->block_ = block;
  return Ref<Chunk>(chunk);
}

Ref<Chunk> Chunk::Borrow(Device device, void* data, size_t bytes,
                         std::function<void()> release) {
  auto owned = std::make_unique<std::function<void()>>(std::move(release));
  const memory::Block header = memory::Allocate(kHost, kHeader);
  auto* chunk = ::new (header.data) Chunk(device, data, bytes);
  chunk->header_ = header;
  chunk->release_ = owned.release();
  return Ref<Chunk>(chunk);
}

void Chunk::Destroy() const {
  const memory::Block block = block_, header = header_;
  const Device device = device_;
  std::function<void()>* release = release_;
  this->~Chunk();
  if (release != nullptr) {
    (*release)();
    delete release;
  }
  if (block.data != nullptr) memory::Free(device, block);
  memory::Free(block.data == nullptr && release == nullptr ? device : kHost, header);
}

}  // namespace plait
