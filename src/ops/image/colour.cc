// Changes of images' colours: brightness, contrast, saturation, hue, lighting.

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "cpu/random.h"
#include "ops/image/image.h"

namespace plait {
namespace {

// What is done to an image of floats, 0 to 255 for those of integers.
struct Image {
  float* data;
  int64_t pixels, channels;
};
constexpr float kGrey[] = {0.299f, 0.587f, 0.114f};

float GreyOf(const float* pixel) {
  return pixel[0] * kGrey[0] + pixel[1] * kGrey[1] + pixel[2] * kGrey[2];
}

void Brighten(const Image& image, float factor) {
  for (int64_t i = 0; i < image.pixels * image.channels; ++i) image.data[i] *= factor;
}

void Contrast(const Image& image, float factor) {
  double sum = 0;
  for (int64_t i = 0; i < image.pixels; ++i) {
    const float* pixel = image.data + i * image.channels;
    sum += image.channels == 3 ? GreyOf(pixel) : pixel[0];
  }
  const float mean = static_cast<float>(sum / static_cast<double>(image.pixels));
  for (int64_t i = 0; i < image.pixels * image.channels; ++i) {
    image.data[i] = image.data[i] * factor + (1 - factor) * mean;
  }
}

void Saturate(const Image& image, float factor) {
  if (image.channels != 3) return;
  for (int64_t i = 0; i < image.pixels; ++i) {
    float* pixel = image.data + i * 3;
    const float grey = GreyOf(pixel) * (1 - factor);
    for (int c = 0; c < 3; ++c) pixel[c] = pixel[c] * factor + grey;
  }
}

// Hue in sixths of the circle, lightness and saturation in [0, 1].
struct Hls {
  float h, l, s;
};

Hls HlsOf(const float* pixel) {
  const float r = pixel[0] / 255, g = pixel[1] / 255, b = pixel[2] / 255;
  const float most = std::max({r, g, b}), least = std::min({r, g, b});
  const float range = most - least;
  Hls x{0, (most + least) / 2, 0};
  if (!(range > 1e-7f)) return x;
  x.s = range / (x.l < 0.5f ? most + least : 2 - most - least);
  if (most == r) {
    x.h = (g - b) / range;
  } else {
    x.h = most == g ? (b - r) / range + 2 : (r - g) / range + 4;
  }
  return x;
}

void FromHls(const Hls& x, float* pixel) {
  const float high = x.l <= 0.5f ? x.l * (1 + x.s) : x.l + x.s - x.l * x.s;
  const float low = 2 * x.l - high;
  for (int c = 0; c < 3; ++c) {
    // How far the hue is from the channel's own, on the circle of six.
    float at = x.h + 2 - 2 * static_cast<float>(c);
    at -= 6 * std::floor(at / 6);
    float v = low;
    if (at < 1) {
      v = low + (high - low) * at;
    } else if (at < 3) {
      v = high;
    } else if (at < 4) {
      v = low + (high - low) * (4 - at);
    }
    pixel[c] = v * 255;
  }
}

// Turns the hue by `turns` of the circle.
void TurnHue(const Image& image, float turns) {
  if (image.channels != 3 || !std::isfinite(turns)) return;
  for (int64_t i = 0; i < image.pixels; ++i) {
    Hls x = HlsOf(image.data + i * 3);
    x.h += turns * 6;
    FromHls(x, image.data + i * 3);
  }
}

// Adds a shift along the principal axes of the colours of natural images.
void Light(const Image& image, const std::array<float, 3>& alpha) {
  if (image.channels != 3) return;
  constexpr float kAxes[3][3] = {
      {55.46f * -0.5675f, 4.794f * 0.7192f, 1.148f * 0.4009f},
      {55.46f * -0.5808f, 4.794f * -0.0045f, 1.148f * -0.8140f},
      {55.46f * -0.5836f, 4.794f * -0.6948f, 1.148f * 0.4203f}};
  for (int64_t i = 0; i < image.pixels; ++i) {
    for (int c = 0; c < 3; ++c) {
      const float* axis = kAxes[c];
      image.data[i * 3 + c] +=
          axis[0] * alpha[0] + axis[1] * alpha[1] + axis[2] * alpha[2];
    }
  }
}

// Integers are cut to whole numbers in their range.
template <typename T>
T Cut(float v) {
  if constexpr (std::is_integral_v<T>) {
    if (std::isnan(v)) return T{};
    constexpr double kLow = static_cast<double>(std::numeric_limits<T>::min());
    // The largest double that is no larger than T's largest number.
    constexpr double kHigh =
        sizeof(T) < 8 ? static_cast<double>(std::numeric_limits<T>::max()) : 0x1p62;
    return static_cast<T>(std::clamp(static_cast<double>(v), kLow, kHigh));
  } else {
    return static_cast<T>(v);
  }
}

template <typename F>
void Change(const KernelArgs& args, F&& f) {
  const ImageSizes s(args.in[0].shape());
  std::vector<float> values(static_cast<size_t>(s.size()));
  VisitDType(args.in[0].dtype, [&]<typename T>() {
    for (int64_t i = 0; i < s.batch && s.size() > 0; ++i) {
      const T* x = args.in[0].data<const T>() + i * s.size();
      T* y = args.out[0].data<T>() + i * s.size();
      for (int64_t k = 0; k < s.size(); ++k) {
        values[k] = static_cast<float>(static_cast<Accumulate<T>>(x[k]));
      }
      f(Image{values.data(), s.height * s.width, s.channels});
      for (int64_t k = 0; k < s.size(); ++k) y[k] = Cut<T>(values[k]);
    }
  });
}

template <typename P>
bool Infer(const P& p, Specs& in, Specs& out) {
  if (!SameShape(p, in, out)) return false;
  const Shape& x = in[0].shape;
  if (!x.rank_known()) return true;
  CheckImages("image", x);
  Check(x.back() == 1 || x.back() == 3 || x.back() == kUnknownSize, "image: data ", x,
        " has ", x.back(), " channels; 1 or 3 were expected");
  return true;
}

// ---------------------------------------------------------------- with a factor

struct FactorParams {
  float min_factor = 0, max_factor = 0;
};

float Draw(cpu::ElementRandom& random, float low, float high) {
  return low + static_cast<float>(random.NextUniform()) * (high - low);
}

using Adjust = void (*)(const Image&, float);

template <Adjust kAdjust>
void WithFactor(const FactorParams& p, const KernelArgs& args) {
  cpu::ElementRandom random(args.random, 0);
  const float factor = Draw(random, p.min_factor, p.max_factor);
  Change(args, [&](const Image& image) { kAdjust(image, factor); });
}

bool InferFactor(const FactorParams& p, Specs& in, Specs& out) {
  Check(p.min_factor >= 0 && p.max_factor >= p.min_factor, "image: min_factor is ",
        p.min_factor, " and max_factor ", p.max_factor,
        "; numbers of at least 0 in order were expected");
  return Infer(p, in, out);
}

template <typename P>
OpSpec<P> SpecOf(const char* name, const char* alias, const char* doc) {
  OpSpec<P> spec;
  spec.name = name;
  spec.aliases = {alias};
  spec.doc = doc;
  spec.inputs = {{"data", Types::kNumbers, "(height, width, channels), or a batch."}};
  spec.infer = Infer<P>;
  spec.random = true;
  return spec;
}

SampleInput Pixels(Shape shape) {
  return Integers(std::move(shape), 0, 256, DType::kUint8);
}
SampleInput FloatPixels(Shape shape) {
  return Integers(std::move(shape), 0, 256);
}

template <Adjust kAdjust>
void AddFactor(const char* name, const char* alias, const char* doc) {
  OpSpec<FactorParams> spec = SpecOf<FactorParams>(name, alias, doc);
  spec.params = {Required<FactorParams>("min_factor", &FactorParams::min_factor,
                                        "The least factor."),
                 Required<FactorParams>("max_factor", &FactorParams::max_factor,
                                        "The largest factor.")};
  spec.infer = InferFactor;
  spec.cpu = {{"plain", WithFactor<kAdjust>}};
  spec.samples = {{{FloatPixels({2, 3, 3})}, {1.5f, 1.5f}},
                  {{Pixels({3, 2, 3})}, {0.5f, 0.5f}},
                  {{FloatPixels({2, 2, 3, 1})}, {0.2f, 0.9f}}};
  Register(spec);
}

// ---------------------------------------------------------------- all at once

struct JitterParams {
  float brightness = 0, contrast = 0, saturation = 0, hue = 0;
};

void Jitter(const JitterParams& p, const KernelArgs& args) {
  cpu::ElementRandom random(args.random, 0);
  std::array<int, 4> order = {0, 1, 2, 3};
  for (int64_t i = 3; i > 0; --i) {
    std::swap(order[i], order[cpu::NextInteger(random, 0, i + 1)]);
  }
  const float range[] = {p.brightness, p.contrast, p.saturation, p.hue};
  std::array<float, 4> factor;
  for (int i = 0; i < 4; ++i) factor[i] = Draw(random, -range[i], range[i]);
  Change(args, [&](const Image& image) {
    for (int which : order) {
      if (!(range[which] > 0)) continue;
      const float f = factor[which];
      if (which == 0) Brighten(image, 1 + f);
      if (which == 1) Contrast(image, 1 + f);
      if (which == 2) Saturate(image, 1 + f);
      if (which == 3) TurnHue(image, f);
    }
  });
}

struct LightingParams {
  std::vector<double> alpha;
};
struct RandomLightingParams {
  float alpha_std = 0.05f;
};

[[maybe_unused]] const bool kAdded = [] {
  AddFactor<Brighten>("_image_random_brightness", "_npx__image_random_brightness",
                      "Multiplies images by a random factor.");
  AddFactor<Contrast>("_image_random_contrast", "_npx__image_random_contrast",
                      "Moves images away from their mean grey by a random factor.");
  AddFactor<Saturate>("_image_random_saturation", "_npx__image_random_saturation",
                      "Moves pixels away from their grey by a random factor.");
  AddFactor<TurnHue>("_image_random_hue", "_npx__image_random_hue",
                     "Turns the hue of images by random turns of the circle.");
  OpSpec<JitterParams> jitter = SpecOf<JitterParams>(
      "_image_random_color_jitter", "_npx__image_random_color_jitter",
      "Changes brightness, contrast, saturation and hue in random order.");
  jitter.params = {Required<JitterParams>("brightness", &JitterParams::brightness,
                                          "Its factor is 1 minus to plus this."),
                   Required<JitterParams>("contrast", &JitterParams::contrast,
                                          "Its factor is 1 minus to plus this."),
                   Required<JitterParams>("saturation", &JitterParams::saturation,
                                          "Its factor is 1 minus to plus this."),
                   Required<JitterParams>("hue", &JitterParams::hue,
                                          "Turns of minus to plus this.")};
  jitter.cpu = {{"plain", Jitter}};
  jitter.samples = {{{Pixels({3, 2, 3})}, {0.2f, 0.3f, 0.4f, 0.1f}},
                    {{FloatPixels({2, 2, 3})}, {0, 0, 0.4f, 0}}};
  Register(jitter);

  OpSpec<LightingParams> lighting = SpecOf<LightingParams>(
      "_image_adjust_lighting", "_npx__image_adjust_lighting",
      "Shifts images along the principal axes of natural colours.");
  lighting.params = {Required<LightingParams>("alpha", &LightingParams::alpha,
                                              "How far along each of three axes.")};
  lighting.random = false;
  lighting.infer = [](const LightingParams& p, Specs& in, Specs& out) {
    Check(p.alpha.size() == 3, "_image_adjust_lighting: got ", p.alpha.size(),
          " numbers in alpha; 3 were expected");
    return Infer(p, in, out);
  };
  lighting.cpu = {{"plain", [](const LightingParams& p, const KernelArgs& args) {
                     const std::array<float, 3> alpha = {
                         static_cast<float>(p.alpha[0]), static_cast<float>(p.alpha[1]),
                         static_cast<float>(p.alpha[2])};
                     Change(args, [&](const Image& image) { Light(image, alpha); });
                   }}};
  lighting.samples = {{{Pixels({3, 2, 3})}, {{0.1, -0.2, 0.3}}},
                      {{FloatPixels({2, 2, 3})}, {{0.5, 0.1, 0.2}}}};
  Register(lighting);

  OpSpec<RandomLightingParams> random = SpecOf<RandomLightingParams>(
      "_image_random_lighting", "_npx__image_random_lighting",
      "adjust_lighting by normal random numbers.");
  random.params = {{"alpha_std", &RandomLightingParams::alpha_std,
                    "Standard deviation of the numbers."}};
  random.cpu = {{"plain", [](const RandomLightingParams& p, const KernelArgs& args) {
                   cpu::ElementRandom draw(args.random, 0);
                   std::array<float, 3> alpha;
                   for (float& a : alpha) {
                     a = static_cast<float>(draw.NextNormal()) * p.alpha_std;
                   }
                   Change(args, [&](const Image& image) { Light(image, alpha); });
                 }}};
  random.samples = {{{Pixels({3, 2, 3})}}};
  Register(random);
  return true;
}();

}  // namespace
}  // namespace plait
