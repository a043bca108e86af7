// PiecePool: memory for pieces of arrays on their way, used again while it is in
// caches.
//
// Not thread-safe: it belongs to the thread of its exchange.

#ifndef PLAIT_KVSTORE_PIECE_POOL_H_
#define PLAIT_KVSTORE_PIECE_POOL_H_

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "kvstore/packet.h"

namespace plait {

class PiecePool {
 public:
  using Memory = std::unique_ptr<char[]>;

  Memory Take(size_t bytes) {
    if (!Pooled(bytes)) return Memory(new char[bytes]);
    if (free_.empty()) return Memory(new char[kPieceBytes]);
    Memory memory = std::move(free_.back());
    free_.pop_back();
    return memory;
  }
  // What Take(bytes) has given.
  void Give(Memory memory, size_t bytes) {
    if (Pooled(bytes) && free_.size() < kMostFree) free_.push_back(std::move(memory));
  }

 private:
  static constexpr size_t kMostFree = 128;
  static bool Pooled(size_t bytes) {
    return bytes > kInlineBytes && bytes <= static_cast<size_t>(kPieceBytes);
  }
  std::vector<Memory> free_;
};

}  // namespace plait

#endif  // PLAIT_KVSTORE_PIECE_POOL_H_
