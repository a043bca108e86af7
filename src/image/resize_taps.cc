// The kernels of the ways to resize, as OpenCV has them.

#include "image/resize_taps.h"

#include <algorithm>
#include <cmath>

namespace plait::image {
namespace {

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

// Not from / to, which may differ in the last bit; then pixels on the edge would.
double Scale(int64_t from, int64_t to) {
  return 1 / (static_cast<double>(to) / static_cast<double>(from));
}

Taps NearestTaps(int64_t from, int64_t to) {
  Taps taps;
  const double scale = Scale(from, to);
  for (int64_t i = 0; i < to; ++i) {
    const double at = std::floor(static_cast<double>(i) * scale);
    taps.index.push_back(std::min(static_cast<int64_t>(at), from - 1));
    taps.weight.push_back(1);
  }
  return taps;
}

// The share of each sample of x that lies under a sample of the result.
Taps AreaTaps(int64_t from, int64_t to) {
  const double scale = Scale(from, to);
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
  const double scale = Scale(from, to);
  Taps taps;
  taps.count = 2 * reach;
  for (int64_t i = 0; i < to; ++i) {
    const auto middle =
        static_cast<float>((static_cast<double>(i) + 0.5) * scale - 0.5);
    const auto first = static_cast<int64_t>(std::floor(middle)) - reach + 1;
    double total = 0;
    for (int64_t k = 0; k < taps.count; ++k) {
      total += kernel(middle - static_cast<float>(first + k));
    }
    for (int64_t k = 0; k < taps.count; ++k) {
      const double w = kernel(middle - static_cast<float>(first + k)) / total;
      taps.index.push_back(std::clamp<int64_t>(first + k, 0, from - 1));
      taps.weight.push_back(static_cast<float>(w));
    }
  }
  return taps;
}

// Where the image grows, kArea mixes two samples only where their border lies.
Taps BorderTaps(int64_t from, int64_t to) {
  const double scale = Scale(from, to);
  Taps taps;
  taps.count = 2;
  for (int64_t i = 0; i < to; ++i) {
    const double at = std::floor(static_cast<double>(i) * scale);
    double share = static_cast<double>(i + 1) - (at + 1) / scale;
    share = share <= 0 ? 0 : share - std::floor(share);
    const auto first = std::min(static_cast<int64_t>(at), from - 1);
    taps.index.insert(taps.index.end(), {first, std::min(first + 1, from - 1)});
    taps.weight.push_back(static_cast<float>(1 - share));
    taps.weight.push_back(static_cast<float>(share));
  }
  return taps;
}

}  // namespace

Taps TapsOf(int64_t from, int64_t to, Interpolation how, bool shrinks) {
  switch (how) {
    case Interpolation::kNearest:
      return NearestTaps(from, to);
    case Interpolation::kCubic:
      return KernelTaps(from, to, Cubic, 2);
    case Interpolation::kLanczos:
      return KernelTaps(from, to, Lanczos, 4);
    case Interpolation::kArea:
      return shrinks ? AreaTaps(from, to) : BorderTaps(from, to);
    case Interpolation::kLinear:
      break;
  }
  return KernelTaps(from, to, Linear, 1);
}

}  // namespace plait::image
