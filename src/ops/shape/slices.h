// Slices as operators say them: begin, end and step of each axis, some left out.

#ifndef PLAIT_OPS_SHAPE_SLICES_H_
#define PLAIT_OPS_SHAPE_SLICES_H_

#include <optional>
#include <vector>

#include "graph/math.h"

namespace plait {

using OptionalInts = std::vector<std::optional<int64_t>>;

struct SliceParams {
  OptionalInts begin, end, step;
};

// What a slice takes of an array: `sizes` elements from `first` on, `step` apart.
struct Slice {
  Shape sizes, first, step;
};

// Python's rules: negative ends count from the back, ends beyond are cut, a slice may
// be empty. Axes without begin and end are taken whole. Sizes along axes of unknown
// size are unknown. Throws kValue for a step of 0 and for more entries than axes.
Slice ResolveSlice(const Shape& x, const SliceParams& p, const char* op);

// The slice that takes [begin, end) of one axis and all of the others.
SliceParams SliceOfAxis(int rank, int axis, std::optional<int64_t> begin,
                        std::optional<int64_t> end);

// The operators of the same names, over Values.
Value slice(const Value& x, const SliceParams& p);
// Zeros of `shape` in which the slice is dy: the gradient of slice.
Value slice_backward(const Value& dy, const SliceParams& p, const Shape& shape);

// Copies the slice of x to y, and y to the slice of x; y is contiguous.
void CopyFromSlice(const View& x, const Slice& s, const View& y);
void CopyToSlice(const View& y, const Slice& s, const View& x);
// Sets the slice of x to the one element of y.
void FillSlice(const View& y, const Slice& s, const View& x);

}  // namespace plait

#endif  // PLAIT_OPS_SHAPE_SLICES_H_
