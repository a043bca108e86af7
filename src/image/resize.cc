// Resizing as two passes of weighted sums: along rows, then along columns.

#include "image/resize.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>
#include <vector>

#include "base/parallel.h"
#include "image/resize_taps.h"

namespace plait::image {
namespace {

template <typename T, typename A>
T Rounded(A v) {
  if constexpr (std::is_integral_v<T>) {
    constexpr double kLow = static_cast<double>(std::numeric_limits<T>::min());
    constexpr double kHigh = static_cast<double>(std::numeric_limits<T>::max());
    return static_cast<T>(
        std::clamp(std::nearbyint(static_cast<double>(v)), kLow, kHigh));
  } else {
    return static_cast<T>(v);
  }
}

}  // namespace

template <typename T>
void Resize(const T* x, int64_t height, int64_t width, int64_t channels, T* y,
            int64_t y_height, int64_t y_width, Interpolation how) {
  using A =
      std::conditional_t<sizeof(T) <= 4 && !std::is_same_v<T, int32_t>, float, double>;
  const bool shrinks = y_height <= height && y_width <= width;
  if constexpr (std::is_same_v<T, uint8_t>) {
    if (how != Interpolation::kNearest && (how != Interpolation::kArea || !shrinks)) {
      return ResizeBytes(x, width * channels, height, width, channels, y, y_height,
                         y_width, how);
    }
  }
  const Taps down = TapsOf(height, y_height, how, shrinks);
  const Taps across = TapsOf(width, y_width, how, shrinks);
  const int64_t row = y_width * channels;
  std::vector<A> wide(static_cast<size_t>(height * row));
  ParallelFor(height, 1 + 4096 / row, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      const T* from = x + i * width * channels;
      A* to = wide.data() + i * row;
      for (int64_t j = 0; j < y_width; ++j, to += channels) {
        for (int64_t c = 0; c < channels; ++c) {
          A sum = 0;
          for (int64_t k = j * across.count; k < (j + 1) * across.count; ++k) {
            sum += static_cast<A>(across.weight[k]) *
                   static_cast<A>(from[across.index[k] * channels + c]);
          }
          to[c] = sum;
        }
      }
    }
  });
  ParallelFor(y_height, 1 + 4096 / row, [&](int64_t first, int64_t last) {
    std::vector<A> sums(static_cast<size_t>(row));
    for (int64_t i = first; i < last; ++i) {
      std::fill(sums.begin(), sums.end(), A(0));
      for (int64_t k = i * down.count; k < (i + 1) * down.count; ++k) {
        const A w = static_cast<A>(down.weight[k]);
        const A* from = wide.data() + down.index[k] * row;
        for (int64_t j = 0; j < row; ++j) sums[j] += w * from[j];
      }
      for (int64_t j = 0; j < row; ++j) y[i * row + j] = Rounded<T>(sums[j]);
    }
  });
}

template void Resize(const uint8_t*, int64_t, int64_t, int64_t, uint8_t*, int64_t,
                     int64_t, Interpolation);
template void Resize(const int32_t*, int64_t, int64_t, int64_t, int32_t*, int64_t,
                     int64_t, Interpolation);
template void Resize(const float*, int64_t, int64_t, int64_t, float*, int64_t, int64_t,
                     Interpolation);
template void Resize(const double*, int64_t, int64_t, int64_t, double*, int64_t,
                     int64_t, Interpolation);

}  // namespace plait::image
