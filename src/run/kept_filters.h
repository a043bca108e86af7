// KeptFilters: filters in the order of their kernels, from one imperative call to the
// next.
//
// Blocked convolutions read filters in an order of their own (graph/blocked_form.h). In
// prediction parameters stay as they are, so what was made of one is kept beside its
// gradient (a leaf of the tape) and goes with it, when the parameter is trained on, or
// when memory runs out. Thread safety: any thread.

#ifndef PLAIT_RUN_KEPT_FILTERS_H_
#define PLAIT_RUN_KEPT_FILTERS_H_

#include "graph/blocked_form.h"
#include "ndarray/ndarray.h"

namespace plait {

// What was made of one array.
struct KeptFilters;

// Made of `weight` as it is after all calls so far, now or before. An empty handle
// where it cannot be kept: the array has no gradient, is being written, or is lent out,
// or there is no memory for it.
NDArray PreparedFilters(const NDArray& weight, const Preparation& how);

// Lets go of what is kept: the array will change soon. Two tests where nothing is.
void ForgetFilters(const NDArray& weight);

}  // namespace plait

#endif  // PLAIT_RUN_KEPT_FILTERS_H_
