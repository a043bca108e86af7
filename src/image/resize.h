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

// As Pillow and torchvision resize: the kernel covers all that a sample of the result
// stands for. kCubic and kLanczos have Pillow's kernels, kArea is its box; not
// kNearest. Rows of x are `stride` elements apart. One thread.
template <typename T>
void ResizeAntialias(const T* x, int64_t stride, int64_t height, int64_t width,
                     int64_t channels, T* y, int64_t y_height, int64_t y_width,
                     Interpolation how);

// A part of an image, in its pixels.
struct Window {
  int64_t x = 0, y = 0, width = 0, height = 0;
};

// Resizing of which only a part of the result is wanted, for the ways that have few
// taps: not kNearest, and not kArea where the image shrinks.
struct PartialResize {
  int64_t height, width, channels;  // of all of x
  int64_t y_height, y_width;        // of all of y
  Interpolation how;
  Window part;  // of y

  // The part of x that is needed.
  Window Source() const;
  // The part of y from that part of x, whose rows are `stride` bytes apart.
  void Run(const uint8_t* source, int64_t stride, uint8_t* y) const;
};

}  // namespace plait::image

#endif  // PLAIT_IMAGE_RESIZE_H_
