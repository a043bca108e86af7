// Chunk: creation and destruction.

#include "ndarray/chunk.h"

#include <memory>
#include <mutex>
#include <new>
#include <unordered_map>

#include "ndarray/outside.h"

namespace plait {
namespace {

// Elements start at an aligned address behind the header.
constexpr size_t kHeader =
    (sizeof(Chunk) + memory::kAlignment - 1) / memory::kAlignment * memory::kAlignment;
constexpr size_t kSmall = 4096;
constexpr Device kHost;

// Chunks that others may write, and how many reasons there are. Few.
struct Outside {
  std::mutex mutex;
  std::unordered_map<const Chunk*, int> reasons;  // under mutex
  std::atomic<int> size{0};
};
Outside& GetOutside() {
  static auto* one = new Outside;
  return *one;
}

}  // namespace

bool IsKnownOutside(const Chunk& chunk) {
  Outside& outside = GetOutside();
  if (outside.size.load(std::memory_order_acquire) == 0) return false;
  const std::lock_guard lock(outside.mutex);
  return outside.reasons.contains(&chunk);
}

void BeginLending(const Chunk& chunk) {
  Outside& outside = GetOutside();
  const std::lock_guard lock(outside.mutex);
  ++outside.reasons[&chunk];
  outside.size.store(static_cast<int>(outside.reasons.size()),
                     std::memory_order_release);
}

void EndLending(const Chunk& chunk) noexcept {
  Outside& outside = GetOutside();
  const std::lock_guard lock(outside.mutex);
  const auto it = outside.reasons.find(&chunk);
  if (it != outside.reasons.end() && --it->second == 0) outside.reasons.erase(it);
  outside.size.store(static_cast<int>(outside.reasons.size()),
                     std::memory_order_release);
}

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
  BeginLending(*chunk);
  return Ref<Chunk>(chunk);
}

void Chunk::Destroy() const {
  const memory::Block block = block_, header = header_;
  const Device device = device_;
  std::function<void()>* release = release_;
  if (release != nullptr) EndLending(*this);
  this->~Chunk();
  if (release != nullptr) {
    (*release)();
    delete release;
  }
  if (block.data != nullptr) memory::Free(device, block);
  memory::Free(block.data == nullptr && release == nullptr ? device : kHost, header);
}

}  // namespace plait
