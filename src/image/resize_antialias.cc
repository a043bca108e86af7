// Resizing where the kernel grows with the image's reduction, so that every pixel of
// the image counts: the results of Pillow, which torchvision's are within one of.

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>
#include <vector>

#include "base/error.h"
#include "image/resize.h"

namespace plait::image {
namespace {

constexpr int kBits =
    22;  // of weights: eight bits of a sample and two of overshoot more

struct Kernel {
  double reach;
  double (*at)(double);
};

double Sinc(double x) {
  constexpr double kPi = 3.14159265358979323846;
  return x == 0 ? 1 : std::sin(kPi * x) / (kPi * x);
}

Kernel KernelOf(Interpolation how) {
  switch (how) {
    case Interpolation::kCubic:
      return {2, [](double x) {
                constexpr double a = -0.5;
                x = std::abs(x);
                if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
                return x < 2 ? (((x - 5) * x + 8) * x - 4) * a : 0.0;
              }};
    case Interpolation::kArea:
      return {0.5, [](double x) { return x > -0.5 && x <= 0.5 ? 1.0 : 0.0; }};
    case Interpolation::kLanczos:
      return {3,
              [](double x) { return std::abs(x) < 3 ? Sinc(x) * Sinc(x / 3) : 0.0; }};
    default:
      return {1, [](double x) { return std::max(0.0, 1 - std::abs(x)); }};
  }
}

// Sample i is the sum of weight[i * most + k] * x[first[i] + k] for k below count[i].
template <typename W>
struct Sums {
  int64_t most;
  std::vector<int64_t> first, count;
  std::vector<W> weight;
};

template <typename W>
Sums<W> SumsOf(int64_t from, int64_t to, Interpolation how) {
  const Kernel kernel = KernelOf(how);
  const double scale = static_cast<double>(from) / static_cast<double>(to);
  const double stretch = std::max(scale, 1.0), reach = kernel.reach * stretch;
  Sums<W> sums;
  sums.most = static_cast<int64_t>(std::ceil(reach)) * 2 + 1;
  sums.weight.assign(static_cast<size_t>(sums.most * to), W(0));
  std::vector<double> weights;
  for (int64_t i = 0; i < to; ++i) {
    const double middle = (static_cast<double>(i) + 0.5) * scale;
    const auto first = std::max<int64_t>(static_cast<int64_t>(middle - reach + 0.5), 0);
    const auto last =
        std::min<int64_t>(static_cast<int64_t>(middle + reach + 0.5), from);
    weights.clear();
    double total = 0;
    for (int64_t k = first; k < last; ++k) {
      weights.push_back(kernel.at((static_cast<double>(k) - middle + 0.5) / stretch));
      total += weights.back();
    }
    W* y = &sums.weight[static_cast<size_t>(i * sums.most)];
    for (size_t k = 0; k < weights.size(); ++k) {
      const double w = total == 0 ? 0 : weights[k] / total;
      if constexpr (std::is_integral_v<W>) {
        y[k] = static_cast<W>(std::lround(w * (1 << kBits)));
      } else {
        y[k] = static_cast<W>(w);
      }
    }
    sums.first.push_back(first);
    sums.count.push_back(last - first);
  }
  return sums;
}

// A: of sums. Bytes have whole-number weights and are rounded after either pass.
template <typename T>
using WeightOf =
    std::conditional_t<std::is_same_v<T, uint8_t>, int32_t,
                       std::conditional_t<std::is_same_v<T, float>, float, double>>;

template <typename T>
T Result(WeightOf<T> sum) {
  if constexpr (std::is_same_v<T, uint8_t>) {
    return static_cast<uint8_t>(std::clamp(sum >> kBits, 0, 255));
  } else if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(std::clamp<double>(std::nearbyint(sum),
                                             std::numeric_limits<T>::min(),
                                             std::numeric_limits<T>::max()));
  } else {
    return static_cast<T>(sum);
  }
}
template <typename T>
constexpr WeightOf<T> kHalf = std::is_same_v<T, uint8_t> ? 1 << (kBits - 1) : 0;

template <typename T, int kChannels>
void Across(const T* x, int64_t any_channels, const Sums<WeightOf<T>>& sums, T* y) {
  const int64_t channels = kChannels == 0 ? any_channels : kChannels;
  const WeightOf<T>* weight = sums.weight.data();
  for (size_t i = 0; i < sums.first.size(); ++i, weight += sums.most, y += channels) {
    const T* from = x + sums.first[i] * channels;
    for (int64_t c = 0; c < channels; ++c) {
      WeightOf<T> sum = kHalf<T>;
      for (int64_t k = 0; k < sums.count[i]; ++k)
        sum += weight[k] * static_cast<WeightOf<T>>(from[k * channels + c]);
      y[c] = Result<T>(sum);
    }
  }
}

template <typename T>
void AcrossRows(const T* x, int64_t stride, int64_t rows, int64_t channels,
                const Sums<WeightOf<T>>& sums, T* y) {
  const auto row = static_cast<int64_t>(sums.first.size()) * channels;
  for (int64_t i = 0; i < rows; ++i, x += stride, y += row) {
    if (channels == 3) {
      Across<T, 3>(x, 3, sums, y);
    } else {
      Across<T, 0>(x, channels, sums, y);
    }
  }
}

template <typename T>
void Down(const T* x, int64_t stride, int64_t row, const Sums<WeightOf<T>>& sums,
          T* y) {
  std::vector<WeightOf<T>> line(static_cast<size_t>(row));
  for (size_t i = 0; i < sums.first.size(); ++i, y += row) {
    std::fill(line.begin(), line.end(), kHalf<T>);
    for (int64_t k = 0; k < sums.count[i]; ++k) {
      const WeightOf<T> w =
          sums.weight[i * static_cast<size_t>(sums.most) + static_cast<size_t>(k)];
      const T* from = x + (sums.first[i] + k) * stride;
      for (int64_t j = 0; j < row; ++j)
        line[static_cast<size_t>(j)] += w * static_cast<WeightOf<T>>(from[j]);
    }
    for (int64_t j = 0; j < row; ++j) y[j] = Result<T>(line[static_cast<size_t>(j)]);
  }
}

}  // namespace

template <typename T>
void ResizeAntialias(const T* x, int64_t stride, int64_t height, int64_t width,
                     int64_t channels, T* y, int64_t y_height, int64_t y_width,
                     Interpolation how) {
  Check(how != Interpolation::kNearest,
        "resize: the nearest pixel, interpolation 0, has no antialiasing");
  using W = WeightOf<T>;
  std::vector<T> wide;
  const int64_t row = y_width * channels;
  if (y_width != width) {
    const bool last = y_height == height;
    if (!last) wide.resize(static_cast<size_t>(height * row));
    T* to = last ? y : wide.data();
    AcrossRows(x, stride, height, channels, SumsOf<W>(width, y_width, how), to);
    if (last) return;
    x = to;
    stride = row;
  }
  if (y_height != height) {
    Down(x, stride, row, SumsOf<W>(height, y_height, how), y);
  } else {
    for (int64_t i = 0; i < height; ++i) std::copy_n(x + i * stride, row, y + i * row);
  }
}

template void ResizeAntialias(const uint8_t*, int64_t, int64_t, int64_t, int64_t,
                              uint8_t*, int64_t, int64_t, Interpolation);
template void ResizeAntialias(const int32_t*, int64_t, int64_t, int64_t, int64_t,
                              int32_t*, int64_t, int64_t, Interpolation);
template void ResizeAntialias(const float*, int64_t, int64_t, int64_t, int64_t, float*,
                              int64_t, int64_t, Interpolation);
template void ResizeAntialias(const double*, int64_t, int64_t, int64_t, int64_t,
                              double*, int64_t, int64_t, Interpolation);

}  // namespace plait::image
