// The special codes of Reshape's target shape.

#ifndef PLAIT_OPS_SHAPE_RESHAPE_CODES_H_
#define PLAIT_OPS_SHAPE_RESHAPE_CODES_H_

#include "base/shape.h"

namespace plait {

// The shape that `codes` make of x, read from left to right:
//   n > 0  the size n          0  the next size of x       -1  whatever is left over
//   -2     all remaining sizes of x        -3  the product of the next two sizes of x
//   -4, a, b  the next size of x, split in a and b, of which one may be -1
// With `reverse` x and the codes are read from the right (a split is a, b, -4). Sizes
// of x may be unknown; what follows from them is unknown then. Throws kValue, naming
// `op`, when the codes do not fit x or the number of elements changes.
Shape ReshapedShape(const Shape& x, const Shape& codes, bool reverse, const char* op);

// Throws unless both shapes, where known, have the same number of elements; a single
// unknown size of x is filled in from y.
void CheckSameSize(Shape& x, const Shape& y, const char* op);

}  // namespace plait

#endif  // PLAIT_OPS_SHAPE_RESHAPE_CODES_H_
