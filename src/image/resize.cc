// Resizing as two passes of weighted sums: along rows, then along columns.

#include "image/resize.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>
#include <vector>

#include "base/parallel.h"

namespace plait::image {
namespace {

// Sample i of the result is the sum of weight[i * count + k] * x[index[i * count + k]].
struct Taps {
  int64_t count = 1;
  std::vector<int64_t> index;
  std::vector<float> weight;
};

double Cubic(double x) {
  constexpr double a = -0.75;
  x = std::abs(x);
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}
double Lanczos(double x) {
  constexpr double kPi = 3.14159265358979323846;
  if (x == 0) return 1;
  if (std::abs(x) >= 4) return 0;
  return 4 * std::sin(kPi * x) * std::sin(kPi * x / 4) / (kPi * kPi * x * x);
}
double Linear(double x) {
  return std::max(0.0, 1 - std::abs(x));
}

Taps NearestTaps(int64_t from, int64_t to) {
  Taps taps;
  const double scale = static_cast<double>(from) / static_cast<double>(to);
  for (int64_t i = 0; i < to; ++i) {
    const double at = std::floor(static_cast<double>(i) * scale);
    taps.index.push_back(std::min(static_cast<int64_t>(at), from - 1));
    taps.weight.push_back(1);
  }
  return taps;
}

// The share of each sample of x that lies under a sample of the result.
Taps AreaTaps(int64_t from, int64_t to) {
  const double scale = static_cast<double>(from) / static_cast<double>(to);
  Taps taps;
  taps.count = static_cast<int64_t>(std::ceil(scale)) + 1;
  for (int64_t i = 0; i < to; ++i) {
    const double begin = static_cast<double>(i) * scale, end = begin + scale;
    const auto first = static_cast<int64_t>(begin);
    for (int64_t k = 0; k < taps.count; ++k) {
      const double low = static_cast<double>(first + k);
      const double cover = std::min(end, low + 1) - std::max(begin, low);
      taps.index.push_back(std::min(first + k, from - 1));
      taps.weight.push_back(static_cast<float>(std::max(0.0, cover) / scale));
    }
  }
  return taps;
}

// A kernel around the middle of each sample; beyond the edge the last sample counts.
Taps KernelTaps(int64_t from, int64_t to, double (*kernel)(double), int64_t reach) {
  const double scale = static_cast<double>(from) / static_cast<double>(to);
  Taps taps;
  taps.count = 2 * reach;
  for (int64_t i = 0; i < to; ++i) {
    const double middle = (static_cast<double>(i) + 0.5) * scale - 0.5;
    const auto first = static_cast<int64_t>(std::floor(middle)) - reach + 1;
    double total = 0;
    for (int64_t k = 0; k < taps.count; ++k) {
      total += kernel(middle - static_cast<double>(first + k));
    }
    for (int64_t k = 0; k < taps.count; ++k) {
      const double w = kernel(middle - static_cast<double>(first + k)) / total;
      taps.index.push_back(std::clamp<int64_t>(first + k, 0, from - 1));
      taps.weight.push_back(static_cast<float>(w));
    }
  }
  return taps;
}

Taps TapsOf(int64_t from, int64_t to, Interpolation how, bool shrinks) {
  switch (how) {
    case Interpolation::kNearest:
      return NearestTaps(from, to);
    case Interpolation::kCubic:
      return KernelTaps(from, to, Cubic, 2);
    case Interpolation::kLanczos:
      return KernelTaps(from, to, Lanczos, 4);
    case Interpolation::kArea:
      if (shrinks) return AreaTaps(from, to);
      break;
    case Interpolation::kLinear:
      break;
  }
  return KernelTaps(from, to, Linear, 1);
}

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
