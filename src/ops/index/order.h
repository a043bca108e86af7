// The order of elements along an axis: what sort, argsort and topk share.

#ifndef PLAIT_OPS_INDEX_ORDER_H_
#define PLAIT_OPS_INDEX_ORDER_H_

#include <cstdint>
#include <functional>

#include "ops/index/indices.h"

namespace plait {

// Sorts x, seen as (outer, n, inner), along n, and calls use(o, i, order) for each of
// the outer * inner slices: order[0], ..., order[k - 1] are the indices of the first k
// elements. NaN counts as the largest number, both zeros as equal; of equal elements
// the one of lower index comes first, in either direction. Calls come from several
// threads. REQUIRES: 0 <= k <= n.
using UseOrder = std::function<void(int64_t o, int64_t i, const int64_t* order)>;
void ForEachOrder(const View& x, const AxisSplit& s, int64_t k, bool ascending,
                  const UseOrder& use);

}  // namespace plait

#endif  // PLAIT_OPS_INDEX_ORDER_H_
