// Sums and maxima of runs of numbers, written so that compilers make vector code of
// them: sixteen lanes are added up side by side.

#ifndef PLAIT_OPS_NN_LANES_H_
#define PLAIT_OPS_NN_LANES_H_

#include <algorithm>
#include <cstdint>
#include <limits>

#include "base/dtype.h"

namespace plait {

inline constexpr int kLanes = 16;

// f(0) + ... + f(n - 1) for a short run: rounding errors do not average out over more
// than a few thousand numbers.
template <typename A, typename F>
A LaneSum(int64_t n, F&& f) {
  A lanes[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (int l = 0; l < kLanes; ++l) lanes[l] += f(i + l);
  }
  for (; i < n; ++i) lanes[i % kLanes] += f(i);
  for (int width = kLanes / 2; width > 0; width /= 2) {
    for (int l = 0; l < width; ++l) lanes[l] += lanes[l + width];
  }
  return lanes[0];
}

// The same for a run of any length, in blocks that are added up in double.
inline constexpr int64_t kLaneBlock = 2048;
template <typename A, typename F>
double LongSum(int64_t n, F&& f) {
  double total = 0;
  for (int64_t at = 0; at < n; at += kLaneBlock) {
    total += static_cast<double>(
        LaneSum<A>(std::min(kLaneBlock, n - at), [&](int64_t i) { return f(at + i); }));
  }
  return total;
}

// The largest of n numbers; NaN when there is one. -infinity for none.
template <typename A, typename F>
A LaneMax(int64_t n, F&& f) {
  A lanes[kLanes];
  A nans[kLanes] = {};  // v - v: 0, or NaN for NaN and infinities
  std::fill_n(lanes, kLanes, -std::numeric_limits<A>::infinity());
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (int l = 0; l < kLanes; ++l) {
      const A v = f(i + l);
      lanes[l] = v > lanes[l] ? v : lanes[l];
      nans[l] += v - v;
    }
  }
  for (; i < n; ++i) {
    const A v = f(i);
    lanes[0] = v > lanes[0] ? v : lanes[0];
    nans[0] += v - v;
  }
  A top = lanes[0], suspect = nans[0];
  for (int l = 1; l < kLanes; ++l) {
    top = std::max(top, lanes[l]);
    suspect += nans[l];
  }
  if (suspect == 0) return top;
  for (i = 0; i < n; ++i) {
    const A v = f(i);
    if (v != v) return v;
  }
  return top;
}

}  // namespace plait

#endif  // PLAIT_OPS_NN_LANES_H_
