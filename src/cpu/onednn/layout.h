// LayoutDesc: how oneDNN wants an array to lie in memory, without oneDNN's types.
//
// Thread safety: any thread.

#ifndef PLAIT_CPU_ONEDNN_LAYOUT_H_
#define PLAIT_CPU_ONEDNN_LAYOUT_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/dtype.h"

namespace plait::cpu::onednn {

// 0 is the plain row-major layout. Layouts of activations (blocks of 8 or 16 channels,
// channels last) do not depend on the shape: arrays of different shapes in the same
// layout have the same number. Layouts of filters hold for one shape and dtype only.
// Numbers hold for one process.
struct LayoutDesc {
  uint32_t id = 0;
  bool plain() const { return id == 0; }
  bool operator==(const LayoutDesc&) const = default;
};

// Blocks of 16 or 8 channels.
LayoutDesc BlockedLayout(int64_t block);

// Bytes of an array in a layout; blocks make it larger than the plain one. The elements
// of the padding are zero in every array that functions here write.
size_t LayoutBytes(LayoutDesc layout, std::span<const int64_t> dims, DType dtype);

// Copies an array from one layout (and dtype, of float32 and bfloat16) to another.
// REQUIRES: neither buffer overlaps the other; no size is 0.
void Reorder(std::span<const int64_t> dims, LayoutDesc from_layout, DType from_dtype,
             const void* from, LayoutDesc to_layout, DType to_dtype, void* to);

}  // namespace plait::cpu::onednn

#endif  // PLAIT_CPU_ONEDNN_LAYOUT_H_
