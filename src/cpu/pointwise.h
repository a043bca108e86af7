// Runs PointwisePrograms on the CPU: tile by tile, so that values stay in the L1 cache.

#ifndef PLAIT_CPU_POINTWISE_H_
#define PLAIT_CPU_POINTWISE_H_

#include <cstdint>
#include <span>

#include "base/shape.h"
#include "graph/pointwise.h"

namespace plait::cpu {

// A contiguous array that is broadcast (NumPy's rule) to the program's space.
struct PointwiseInput {
  const void* data = nullptr;
  const Shape* shape = nullptr;
};

// Computes every output for every element of `space`. Outputs are contiguous arrays of
// the shape `space` in the dtype of their value. An output may be the same memory as an
// input of equal shape and dtype size (same start), and must not overlap any input in
// another way. Uses ComputeThreads() threads above a size; the result never depends on
// their number. Never throws but for lack of memory.
void RunPointwise(const PointwiseProgram& program, const Shape& space,
                  std::span<const PointwiseInput> inputs,
                  std::span<void* const> outputs);

// Only the elements [first, last) of the same, on the calling thread, for callers who
// share out several programs. The space is [0, n). REQUIRES: inputs have n elements
// or 1.
void RunPointwisePart(const PointwiseProgram& program, int64_t n,
                      std::span<const PointwiseInput> inputs,
                      std::span<void* const> outputs, int64_t first, int64_t last);

// As RunPointwise, but reduces the program's one output over the axes set in `axes`
// (bit i: axis i of `space`) into `output`, whose elements are those of the kept axes
// in order, in the value's dtype. Floats add up pairwise in float (float64 for
// float64); infinities stay infinities. Maximum and minimum pass NaN on. `scale`
// multiplies the result (1/n makes a mean); integers ignore it. An empty reduction
// gives 0, 1, lowest or highest.
void ReducePointwise(const PointwiseProgram& program, const Shape& space,
                     std::span<const PointwiseInput> inputs, Reduction reduction,
                     uint64_t axes, double scale, void* output);

// The same with all that a reduction may ask for, in one pass over memory: stores every
// output of the program but the last one (as RunPointwise does), reduces that, and
// writes the result in the reduction's dtype.
void ReducePointwise(const PointwiseProgram& program, const Shape& space,
                     std::span<const PointwiseInput> inputs,
                     std::span<void* const> outputs,
                     const PointwiseReduction& reduction, void* result);

// Converts n elements, as a kCast step followed by the store would.
void Convert(const void* src, DType src_dtype, void* dst, DType dst_dtype, int64_t n);

}  // namespace plait::cpu

#endif  // PLAIT_CPU_POINTWISE_H_
