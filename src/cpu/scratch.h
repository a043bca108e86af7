// Scratch: a buffer for the length of a call, from the pool of device cpu(0).

#ifndef PLAIT_CPU_SCRATCH_H_
#define PLAIT_CPU_SCRATCH_H_

#include <cstddef>
#include <cstdint>

#include "memory/storage.h"

namespace plait::cpu {

// Not cleared, aligned to memory::kAlignment; throws kMemory as Allocate does.
class Scratch {
 public:
  Scratch() = default;
  explicit Scratch(size_t bytes) : block_(memory::Allocate(Device{}, bytes)) {}
  ~Scratch() {
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
    return static_cast<T*>(block_.data);
  }

 private:
  memory::Block block_;
};

}  // namespace plait::cpu

#endif  // PLAIT_CPU_SCRATCH_H_
