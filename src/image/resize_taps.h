// Which samples, with which weights, make each sample of a resized row or column.

#ifndef PLAIT_IMAGE_RESIZE_TAPS_H_
#define PLAIT_IMAGE_RESIZE_TAPS_H_

#include <cstdint>
#include <vector>

#include "image/resize.h"

namespace plait::image {

// Sample i of the result is the sum of weight[i * count + k] * x[index[i * count + k]].
struct Taps {
  int64_t count = 1;
  std::vector<int64_t> index;
  std::vector<float> weight;
};

// For a row of `from` samples to one of `to`; `shrinks`: neither axis of the image
// grows.
Taps TapsOf(int64_t from, int64_t to, Interpolation how, bool shrinks);

}  // namespace plait::image

#endif  // PLAIT_IMAGE_RESIZE_TAPS_H_
