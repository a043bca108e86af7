// Sums of slices that are sent to the same place, in a fixed order.

#ifndef PLAIT_OPS_INDEX_SCATTER_H_
#define PLAIT_OPS_INDEX_SCATTER_H_

#include <cstdint>

#include "base/dtype.h"
#include "ops/index/indices.h"

namespace plait {

// y is (outer, n, inner), x is (outer, m, inner), target[j] in [0, n) for j < m:
//   y[o, t, :] = sum of x[o, j, :] over all j with target[j] == t, in the order of j.
// The result does not depend on the number of threads. float32 adds up in float64,
// halves in float32. REQUIRES: a dtype other than bool.
void ScatterAdd(DType dtype, const AxisSplit& y_split, int64_t m, const int64_t* target,
                const void* x, void* y);

}  // namespace plait

#endif  // PLAIT_OPS_INDEX_SCATTER_H_
