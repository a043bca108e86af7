// CopyStrided: moves elements between arrays with any strides, at memory speed.
//
// Slices, transposes, tiles, broadcasts, concatenations and reversals are all one loop
// nest with different strides.

#ifndef PLAIT_CPU_STRIDED_H_
#define PLAIT_CPU_STRIDED_H_

#include <cstddef>
#include <cstdint>

#include "base/shape.h"

namespace plait::cpu {

// Elements from one step along each axis; may be 0 (broadcast, source only) or
// negative.
using Strides = Shape;

// The strides of a contiguous array of this shape.
Strides RowMajor(const Shape& shape);

// dst[sum of i * dst_strides] = src[sum of i * src_strides] for every index i of
// `sizes`. Elements have 1, 2, 4 or 8 bytes. Different indices write different
// elements, and the arrays do not overlap. Uses ComputeThreads() threads above a size.
void CopyStrided(const Shape& sizes, void* dst, const Strides& dst_strides,
                 const void* src, const Strides& src_strides, size_t element_size);

// Sets memory to zero bytes, on several threads above a size.
void FillZero(void* dst, int64_t bytes);

}  // namespace plait::cpu

#endif  // PLAIT_CPU_STRIDED_H_
