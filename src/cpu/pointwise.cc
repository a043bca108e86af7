// The executor of pointwise programs.

#include "cpu/pointwise.h"

#include "cpu/pointwise_plain.h"

namespace plait::cpu {

void RunPointwise(const PointwiseProgram& program, const Shape& space,
                  std::span<const PointwiseInput> inputs,
                  std::span<void* const> outputs) {
  plain::RunPointwise(program, space, inputs, outputs);
}

void ReducePointwise(const PointwiseProgram& program, const Shape& space,
                     std::span<const PointwiseInput> inputs, Reduction reduction,
                     uint64_t axes, double scale, void* output) {
  plain::ReducePointwise(program, space, inputs, reduction, axes, scale, output);
}

void Convert(const void* src, DType src_dtype, void* dst, DType dst_dtype, int64_t n) {
  plain::Convert(src, src_dtype, dst, dst_dtype, n);
}

}  // namespace plait::cpu
