// Reductions as kernels: a pointwise expression, reduced in one pass over memory.

#ifndef PLAIT_OPS_REDUCE_KERNEL_H_
#define PLAIT_OPS_REDUCE_KERNEL_H_

#include <initializer_list>

#include "graph/op.h"

namespace plait {

// An array of any shape that broadcasts with the others.
struct ReduceInput {
  const void* data;
  DType dtype;
  const Shape* shape;
};

// Reduces expression(inputs) over the axes of `mask` (of inputs[0]'s shape) into y,
// whose dtype may differ from that of the expression. `scale` multiplies the result of
// floats.
using ReduceExpression = Pw (*)(std::span<const Pw> inputs);
void ReduceInto(std::initializer_list<ReduceInput> inputs, ReduceExpression expression,
                Reduction reduction, uint64_t mask, double scale, void* y, DType dtype);

// The kernel of an operator with `.reduce = kReduce`, and what it is made of.
void RunReduction(const View& x, const View& y,
                  Pw (*reduce)(const void*, const Pw&, const Shape&,
                               PointwiseReduction&),
                  const void* params);

template <typename P,
          Pw (*kReduce)(const P&, const Pw&, const Shape&, PointwiseReduction&)>
void ReduceKernel(const P& p, const KernelArgs& args) {
  RunReduction(
      args.in[0], args.out[0],
      [](const void* params, const Pw& x, const Shape& shape, PointwiseReduction& r) {
        return kReduce(*static_cast<const P*>(params), x, shape, r);
      },
      &p);
}

// The dtype in which sums over x are kept: halves widen to float32.
inline DType SumDType(DType x) {
  return IsHalf(x) ? DType::kFloat32 : x;
}

}  // namespace plait

#endif  // PLAIT_OPS_REDUCE_KERNEL_H_
