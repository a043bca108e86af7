// Images sampled at the points of a grid, as the operators of this family share it.

#ifndef PLAIT_OPS_NN_SAMPLER_H_
#define PLAIT_OPS_NN_SAMPLER_H_

#include "graph/op.h"

namespace plait {

struct SampleParams {
  std::optional<bool> cudnn_off;
  bool slope_x = false, slope_y = false;  // derivatives of the weights
  // Points are (y, x) in pixels, not (x, y) in [-1, 1].
  bool pixels = false;
  // A point counts if it is inside of [0, size), and the last pixel goes on to the end;
  // otherwise pixels beyond the edges are there and are 0.
  bool clamp = false;
  Shape result;  // of Spread: the shape it gives
};

// y[n, c, i] = x[n, c] at grid[n, :, i].
void SampleAt(const SampleParams& p, const View& x, const View& grid, const View& y);

// Applies Sample, its transpose for x (which has the shape given), and the gradient for
// the grid: sums over channels of dy times the slopes of x, (n, 2, h, w).
Value SampleOf(SampleParams p, const Value& x, const Value& grid);
Value SpreadOf(SampleParams p, const Value& y, const Value& grid, const Shape& shape);
Value GridGradient(const SampleParams& p, const Value& dy, const Value& x,
                   const Value& grid);

}  // namespace plait

#endif  // PLAIT_OPS_NN_SAMPLER_H_
