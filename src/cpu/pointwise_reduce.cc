// Fused reductions (for now: the plain ones).

#include "cpu/pointwise.h"
#include "cpu/pointwise_plain.h"

namespace plait::cpu {

void ReducePointwise(const PointwiseProgram& program, const Shape& space,
                     std::span<const PointwiseInput> inputs, Reduction reduction,
                     uint64_t axes, double scale, void* output) {
  plain::ReducePointwise(program, space, inputs, reduction, axes, scale, output);
}

}  // namespace plait::cpu
