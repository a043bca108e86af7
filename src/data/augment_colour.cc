// ChangeColours: brightness, contrast, saturation; hue, lightness; noise along the
// principal components of colours.

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "data/augment.h"

namespace plait::data {
namespace {

// Runs f(pixel) on each of three channels.
template <typename F>
void EachPixel(Picture& p, F&& f) {
  for (int64_t i = 0; i < p.height; ++i) {
    uint8_t* row = p.data() + i * p.stride;
    for (int64_t j = 0; j < p.width; ++j) f(row + j * 3);
  }
}

uint8_t Byte(float v) {
  return static_cast<uint8_t>(std::clamp(v + 0.5f, 0.0f, 255.0f));
}
float Gray(const uint8_t* x) {
  return 0.299f * static_cast<float>(x[0]) + 0.587f * static_cast<float>(x[1]) +
         0.114f * static_cast<float>(x[2]);
}

void Contrast(Picture& p, float alpha) {
  double sum = 0;
  EachPixel(p, [&](const uint8_t* x) { sum += static_cast<double>(Gray(x)); });
  const auto mean = static_cast<float>(sum / static_cast<double>(p.height * p.width));
  EachPixel(p, [&](uint8_t* x) {
    for (int k = 0; k < 3; ++k)
      x[k] = Byte(alpha * static_cast<float>(x[k]) + (1 - alpha) * mean);
  });
}
void Saturation(Picture& p, float alpha) {
  EachPixel(p, [&](uint8_t* x) {
    const float gray = Gray(x);
    for (int k = 0; k < 3; ++k)
      x[k] = Byte(alpha * static_cast<float>(x[k]) + (1 - alpha) * gray);
  });
}

void Jitter(const AugmentOptions& o, SampleRandom& random, Picture& p) {
  const auto amount = [&](double most) {
    return static_cast<float>(1 + random.Uniform(-most, most));
  };
  const float alphas[3] = {amount(o.brightness), amount(o.contrast),
                           amount(o.saturation)};
  std::array<int, 3> order = {0, 1, 2};
  for (int64_t i = 2; i > 0; --i)
    std::swap(order[static_cast<size_t>(i)],
              order[static_cast<size_t>(random.Whole(0, i))]);
  constexpr void (*kChange[3])(Picture&, float) = {Multiply, Contrast, Saturation};
  for (const int i : order) {
    if (alphas[i] != 1) kChange[i](p, alphas[i]);
  }
}

// Hue in degrees / 2, lightness and saturation 0 to 255, as OpenCV has them.
void ToHls(const uint8_t* x, float* hls) {
  const float r = static_cast<float>(x[0]) / 255, g = static_cast<float>(x[1]) / 255,
              b = static_cast<float>(x[2]) / 255;
  const float most = std::max({r, g, b}), least = std::min({r, g, b});
  const float range = most - least, sum = most + least;
  float h = 0, s = 0;
  if (range > 1e-7f) {
    s = range / (sum < 1 ? sum : 2 - sum);
    h = most == r   ? (g - b) / range
        : most == g ? (b - r) / range + 2
                    : (r - g) / range + 4;
    if (h < 0) h += 6;
  }
  hls[0] = h * 30;
  hls[1] = sum / 2 * 255;
  hls[2] = s * 255;
}
void FromHls(const float* hls, uint8_t* x) {
  const float h = hls[0] / 30, l = hls[1] / 255, s = hls[2] / 255;
  const float chroma = (1 - std::abs(2 * l - 1)) * s;
  for (int k = 0; k < 3; ++k) {
    const float at = std::fmod(h + 6 - 2 * static_cast<float>(k), 6.0f);
    const float share = std::clamp(std::abs(at - 3) - 1, 0.0f, 1.0f);
    x[k] = Byte((l + chroma * (share - 0.5f)) * 255);
  }
}

void ChangeHue(const AugmentOptions& o, SampleRandom& random, Picture& p) {
  // Nearly normal, so that extremes are rare.
  const auto amount = [&](double most) {
    const double unit = (random.Unit() + 4 * random.Unit()) / 5;
    return static_cast<float>(static_cast<int>(unit * most * 2 - most));
  };
  const float h = amount(o.random_h), s = amount(o.random_s), l = amount(o.random_l);
  ShiftHls(p, h, l, s);
}

void AddNoise(const AugmentOptions& o, SampleRandom& random, Picture& p) {
  constexpr double kValues[3] = {55.46, 4.794, 1.148};
  constexpr double kVectors[3][3] = {{-0.5675, 0.7192, 0.4009},
                                     {-0.5808, -0.0045, -0.8140},
                                     {-0.5836, -0.6948, 0.4203}};
  float add[3] = {};
  for (int i = 0; i < 3; ++i) {
    const double alpha = random.Normal() * o.pca_noise * kValues[i];
    for (int k = 0; k < 3; ++k) add[k] += static_cast<float>(alpha * kVectors[k][i]);
  }
  EachPixel(p, [&](uint8_t* x) {
    for (int k = 0; k < 3; ++k) x[k] = Byte(static_cast<float>(x[k]) + add[k]);
  });
}

}  // namespace

void Multiply(Picture& p, float factor) {
  EachPixel(p, [&](uint8_t* x) {
    for (int k = 0; k < 3; ++k) x[k] = Byte(factor * static_cast<float>(x[k]));
  });
}

void ShiftHls(Picture& p, float hue, float lightness, float saturation) {
  EachPixel(p, [&](uint8_t* x) {
    float hls[3];
    ToHls(x, hls);
    hls[0] = std::clamp(hls[0] + hue, 0.0f, 180.0f);
    hls[1] = std::clamp(hls[1] + lightness, 0.0f, 255.0f);
    hls[2] = std::clamp(hls[2] + saturation, 0.0f, 255.0f);
    FromHls(hls, x);
  });
}

void ChangeColours(const AugmentOptions& o, SampleRandom& random, Picture& p) {
  const bool jitters = o.brightness > 0 || o.contrast > 0 || o.saturation > 0;
  const bool changes_hue = o.random_h != 0 || o.random_s != 0 || o.random_l != 0;
  if (!jitters && !changes_hue && o.pca_noise <= 0) return;
  Check(p.channels == 3, "image has ", p.channels,
        " channels; changing colours needs three");
  if (jitters) Jitter(o, random, p);
  if (changes_hue) ChangeHue(o, random, p);
  if (o.pca_noise > 0) AddNoise(o, random, p);
}

}  // namespace plait::data
