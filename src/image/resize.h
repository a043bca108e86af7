// Resizing of images with interleaved channels, by OpenCV's methods.

#ifndef PLAIT_IMAGE_RESIZE_H_
#define PLAIT_IMAGE_RESIZE_H_

#include <cstdint>

namespace plait::image {

// Numbers as OpenCV has them. kArea averages where the image shrinks, else it is
// kLinear.
enum class Interpolation : uint8_t { kNearest, kLinear, kCubic, kArea, kLanczos };

// y (y_height, y_width, channels) from x (height, width, channels). Integers are
// rounded to the nearest one and kept in range. T: uint8_t, int32_t, float, double.
// Thread safety: any thread; uses ComputeThreads() threads. REQUIRES: all sizes > 0; y
// does not overlap x.
template <typename T>
void Resize(const T* x, int64_t height, int64_t width, int64_t channels, T* y,
            int64_t y_height, int64_t y_width, Interpolation how);

// The same of bytes whose rows are `stride` apart: a part of a larger image. One
// thread.
void ResizeBytes(const uint8_t* x, int64_t stride, int64_t height, int64_t width,
                 int64_t channels, uint8_t* y, int64_t y_height, int64_t y_width,
                 Interpolation how);

}  // namespace plait::image

#endif  // PLAIT_IMAGE_RESIZE_H_
