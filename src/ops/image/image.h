// What the operators on images share: (height, width, channels), or a batch of such.

#ifndef PLAIT_OPS_IMAGE_IMAGE_H_
#define PLAIT_OPS_IMAGE_IMAGE_H_

#include "graph/op.h"
#include "ops/infer.h"

namespace plait {

inline void CheckImages(const char* op, const Shape& x) {
  Check(x.rank() == 3 || x.rank() == 4, op, ": data ", x,
        "; (height, width, channels), or a batch of such, was expected");
}

// Sizes of the images of an array with channels last.
struct ImageSizes {
  explicit ImageSizes(const Shape& x)
      : batch(x.rank() == 4 ? x[0] : 1),
        height(x[x.rank() - 3]),
        width(x[x.rank() - 2]),
        channels(x.back()) {}
  int64_t size() const { return height * width * channels; }
  int64_t batch, height, width, channels;
};

// The same shape with other heights and widths.
inline Shape Resized(Shape x, int64_t height, int64_t width) {
  x[x.rank() - 3] = height;
  x[x.rank() - 2] = width;
  return x;
}

}  // namespace plait

#endif  // PLAIT_OPS_IMAGE_IMAGE_H_
