// Kernels that move elements.

#include "ops/shape/copy.h"

#include "cpu/pointwise.h"

namespace plait {

void FillValue(const View& y, double value) {
  uint64_t one = 0;  // room for an element of any dtype
  cpu::Convert(&value, DType::kFloat64, &one, y.dtype, 1);
  cpu::CopyStrided({y.size()}, y.ptr, {1}, &one, {0}, SizeOf(y.dtype));
}

}  // namespace plait
