// Blocked values: arrays whose elements lie in blocks of channels until somebody asks.
//
// Such an array is pending (ndarray.h): whoever wants its memory, by whatever way,
// calls Materialize, and then a copy puts the elements in order. Nobody else can see
// the blocks. Thread safety: any thread.

#ifndef PLAIT_RUN_BLOCKED_VALUE_H_
#define PLAIT_RUN_BLOCKED_VALUE_H_

#include "ndarray/ndarray.h"

namespace plait {

// An array of this shape, of four axes, whose value is `blocks`, of five
// (graph/blocked_form.h). REQUIRES: nobody else will write the blocks.
NDArray MakeBlocked(NDArray blocks, const Shape& shape);

// The blocks, to be read only; an empty handle where x is in order.
NDArray BlocksOf(const NDArray& x);

// A second body for the same value, or null when `array` is in order.
Ref<ArrayBody> ShareBlocked(ArrayBody* array);

// Channels of a block, where imperative calls use blocks at all; else 0.
int64_t ImperativeBlock();

// Copies from one layout to the other.
NDArray Block(const NDArray& plain);

}  // namespace plait

#endif  // PLAIT_RUN_BLOCKED_VALUE_H_
