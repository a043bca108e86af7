// The order of elements along an axis: what sort, argsort and topk share.

#ifndef PLAIT_OPS_INDEX_ORDER_H_
#define PLAIT_OPS_INDEX_ORDER_H_

#include "ops/index/indices.h"

namespace plait {

// Writes for each row along the axis the indices of its first k elements in ascending
// (or descending) order: order[outer][k][inner]. NaN counts as the largest number; of
// equal elements the one with the lower index comes first, in both directions.
void OrderRows(const View& x, const AxisSizes& a, int64_t k, bool descending,
               int64_t* order);

// y[o, i, j] = x[o, order[o, i, j], j].
void GatherOrdered(const View& x, const AxisSizes& a, const int64_t* order, int64_t k,
                   const View& y);

}  // namespace plait

#endif  // PLAIT_OPS_INDEX_ORDER_H_
