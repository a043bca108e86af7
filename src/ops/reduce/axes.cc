// Axes of reductions.

#include "ops/reduce/axes.h"

namespace plait {

uint64_t AxisMask(const Shape& axes, bool exclude, int rank, const char* op) {
  const uint64_t all = rank >= 64 ? ~uint64_t{0} : (uint64_t{1} << rank) - 1;
  if (!axes.rank_known() || axes.rank() == 0) return all;
  uint64_t mask = 0;
  for (int64_t axis : axes) {
    const uint64_t bit = uint64_t{1} << NormalizeAxis(axis, rank, op);
    Check((mask & bit) == 0, op, ": axes ", axes, " name axis ", axis,
          " twice; different axes were expected");
    mask |= bit;
  }
  return exclude ? all & ~mask : mask;
}

Shape ReducedShape(const Shape& x, uint64_t mask, bool keepdims) {
  Shape y;
  for (int i = 0; i < x.rank(); ++i) {
    if (!(mask >> i & 1)) {
      y.Append(x[i]);
    } else if (keepdims) {
      y.Append(1);
    }
  }
  if (y.rank() == 0 && x.rank() > 0) y.Append(1);
  return y;
}

int64_t ReducedCount(const Shape& x, uint64_t mask) {
  int64_t n = 1;
  for (int i = 0; i < x.rank(); ++i)
    if (mask >> i & 1) n *= x[i];
  return n;
}

Value Expand(const Value& y, const Shape& x, uint64_t mask) {
  // One number stands in front of any shape.
  if (y.shape().size() == 1 && y.shape().rank() <= x.rank()) return broadcast_to(y, x);
  return broadcast_to(reshape(y, ReducedShape(x, mask, true)), x);
}

}  // namespace plait
