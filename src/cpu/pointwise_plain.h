// The plain executor of pointwise programs: element by element, obviously right, slow.
//
// It is the oracle of the tests. The functions do what those of cpu/pointwise.h do.

#ifndef PLAIT_CPU_POINTWISE_PLAIN_H_
#define PLAIT_CPU_POINTWISE_PLAIN_H_

#include "cpu/pointwise.h"

namespace plait::cpu::plain {

void RunPointwise(const PointwiseProgram& program, const Shape& space,
                  std::span<const PointwiseInput> inputs,
                  std::span<void* const> outputs);

void ReducePointwise(const PointwiseProgram& program, const Shape& space,
                     std::span<const PointwiseInput> inputs, Reduction reduction,
                     uint64_t axes, double scale, void* output);

void Convert(const void* src, DType src_dtype, void* dst, DType dst_dtype, int64_t n);

}  // namespace plait::cpu::plain

#endif  // PLAIT_CPU_POINTWISE_PLAIN_H_
