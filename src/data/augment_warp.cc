// Warp: shear, rotation, scale and proportions by chance, as one affine map.

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "data/augment.h"

namespace plait::data {
namespace {

// y = m * (x, 1)
struct Affine {
  double m[2][3];

  Affine Inverse() const {
    const double d = m[0][0] * m[1][1] - m[0][1] * m[1][0];
    const double a = m[1][1] / d, b = -m[0][1] / d, c = -m[1][0] / d, e = m[0][0] / d;
    return {{{a, b, -a * m[0][2] - b * m[1][2]}, {c, e, -c * m[0][2] - e * m[1][2]}}};
  }
};

// Weights of the samples from floor(x) - reach + 1 on.
template <int kReach>
void WeightsOf(double fraction, float* weights) {
  for (int k = 0; k < 2 * kReach; ++k) {
    const double x = std::abs(fraction + kReach - 1 - k);
    double w = 0;
    if constexpr (kReach == 1) {
      w = 1 - x;
    } else if constexpr (kReach == 2) {
      constexpr double a = -0.75;
      w = x <= 1 ? ((a + 2) * x - (a + 3)) * x * x + 1
                 : ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
    } else {
      constexpr double kPi = 3.14159265358979323846;
      w = x == 0 ? 1
                 : kReach * std::sin(kPi * x) * std::sin(kPi * x / kReach) /
                       (kPi * kPi * x * x);
    }
    weights[k] = static_cast<float>(w);
  }
}

template <int kReach>
void Sample(const Picture& x, const Affine& from, int fill, Picture& y) {
  constexpr int kTaps = 2 * kReach;
  uint8_t* to = y.data();
  for (int64_t i = 0; i < y.height; ++i) {
    for (int64_t j = 0; j < y.width; ++j, to += y.channels) {
      const auto at = [&](int row) {
        return from.m[row][0] * static_cast<double>(j) +
               from.m[row][1] * static_cast<double>(i) + from.m[row][2];
      };
      const double column = std::clamp(at(0), -1e6, 1e6),
                   row = std::clamp(at(1), -1e6, 1e6);
      const double left = std::floor(column), top = std::floor(row);
      float across[kTaps], down[kTaps];
      WeightsOf<kReach>(column - left, across);
      WeightsOf<kReach>(row - top, down);
      float sums[4] = {}, total = 0;
      for (int a = 0; a < kTaps; ++a) {
        const int64_t r = static_cast<int64_t>(top) - kReach + 1 + a;
        for (int b = 0; b < kTaps; ++b) {
          const int64_t c = static_cast<int64_t>(left) - kReach + 1 + b;
          const float w = down[a] * across[b];
          total += w;
          const bool inside = r >= 0 && r < x.height && c >= 0 && c < x.width;
          const uint8_t* pixel = x.data() + r * x.stride + c * x.channels;
          for (int k = 0; k < x.channels; ++k)
            sums[k] += w * static_cast<float>(inside ? pixel[k] : fill);
        }
      }
      for (int k = 0; k < x.channels; ++k)
        to[k] = static_cast<uint8_t>(std::clamp(sums[k] / total + 0.5f, 0.0f, 255.0f));
    }
  }
}

}  // namespace

void Warp(const AugmentOptions& o, SampleRandom& random, Picture& p) {
  const double shear = random.Uniform(-o.max_shear_ratio, o.max_shear_ratio);
  const auto most = static_cast<int64_t>(o.max_rotate_angle);
  auto angle = static_cast<double>(random.Whole(-most, most));
  if (o.rotate > 0) angle = o.rotate;
  if (!o.rotate_list.empty()) {
    const auto last = static_cast<int64_t>(o.rotate_list.size()) - 1;
    angle = o.rotate_list[static_cast<size_t>(random.Whole(0, last))];
  }
  double scale = 1, ratio = 1;
  if (!o.random_resized_crop) {
    scale = random.Uniform(o.min_random_scale, o.max_random_scale);
    ratio = random.Uniform(o.LeastAspect(), o.MostAspect());
  }
  const double a = std::cos(angle * 3.14159265358979323846 / 180),
               b = std::sin(angle * 3.14159265358979323846 / 180);
  const double hs = 2 * scale / (1 + ratio), ws = ratio * hs;
  const auto limited = [&](int64_t size) {
    const double n = std::min(o.max_img_size, scale * static_cast<double>(size));
    return static_cast<int64_t>(std::max(o.min_img_size, n));
  };
  const int64_t width = limited(p.width), height = limited(p.height);
  Check(width > 0 && height > 0 && width <= 65536 && height <= 65536, "image of ",
        p.width, " x ", p.height, " pixels would become ", width, " x ", height);
  Affine m = {
      {{hs * a - shear * b * ws, hs * b + shear * a * ws, 0}, {-b * ws, a * ws, 0}}};
  for (int row = 0; row < 2; ++row) {
    const double middle = m.m[row][0] * static_cast<double>(p.width) +
                          m.m[row][1] * static_cast<double>(p.height);
    m.m[row][2] = (static_cast<double>(row == 0 ? width : height) - middle) / 2;
  }
  const Affine from = m.Inverse();
  Picture y;
  y.Make(height, width, p.channels);
  switch (
      ChooseInterpolation(o.inter_method, p.width, p.height, width, height, random)) {
    case 2:
      Sample<2>(p, from, o.fill_value, y);
      break;
    case 4:
      Sample<4>(p, from, o.fill_value, y);
      break;
    default:
      Sample<1>(p, from, o.fill_value, y);
  }
  p = std::move(y);
}

}  // namespace plait::data
