// Kernels that move elements.

#ifndef PLAIT_OPS_SHAPE_COPY_H_
#define PLAIT_OPS_SHAPE_COPY_H_

#include "cpu/strided.h"
#include "graph/op.h"

namespace plait {

// Output 0 is input 0, element after element, in another shape.
template <typename P>
void CopyKernel(const P&, const KernelArgs& args) {
  const View& x = args.in[0];
  const View& y = args.out[0];
  if (x.ptr == y.ptr) return;
  cpu::CopyStrided({y.size()}, y.ptr, {1}, x.ptr, {1}, SizeOf(y.dtype));
}

// A pointer to element `offset` of an array.
inline char* At(const View& x, int64_t offset) {
  return static_cast<char*>(x.ptr) + offset * static_cast<int64_t>(SizeOf(x.dtype));
}

// One value of a dtype, repeated over all of an array.
void FillValue(const View& y, double value);

}  // namespace plait

#endif  // PLAIT_OPS_SHAPE_COPY_H_
