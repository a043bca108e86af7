// Sums of squares over whole arrays.

#ifndef PLAIT_OPS_OPTIMIZER_NORMS_H_
#define PLAIT_OPS_OPTIMIZER_NORMS_H_

#include "graph/op.h"

namespace plait {

// Of an array of any float dtype, by the pointwise machine's reduction.
double SumOfSquares(const View& x);

}  // namespace plait

#endif  // PLAIT_OPS_OPTIMIZER_NORMS_H_
