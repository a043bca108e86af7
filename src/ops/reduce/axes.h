// The axes that a reduction takes away, as parameters say them.

#ifndef PLAIT_OPS_REDUCE_AXES_H_
#define PLAIT_OPS_REDUCE_AXES_H_

#include "graph/math.h"

namespace plait {

// Bit i is set for axis i. Negative axes count from the end, none at all means every
// axis, and `exclude` takes those that are not listed. Throws for axes out of range and
// for an axis that stands there twice.
uint64_t AxisMask(const Shape& axes, bool exclude, int rank, const char* op);

// The shape without the axes (or with size 1 there). A reduction over all axes leaves
// shape (1,), as MXNet has it; a scalar stays a scalar.
Shape ReducedShape(const Shape& x, uint64_t mask, bool keepdims);

// Number of elements that become one.
int64_t ReducedCount(const Shape& x, uint64_t mask);

// y, reduced from an array of shape x, spread over that shape again.
Value Expand(const Value& y, const Shape& x, uint64_t mask);

}  // namespace plait

#endif  // PLAIT_OPS_REDUCE_AXES_H_
