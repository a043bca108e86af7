// AugmentDetection: resize, colours, mirror, pad, crop, and the size of the result.

#include "data/detection.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <utility>

#include "base/error.h"

namespace plait::data {
namespace {

// Below this a picture is not padded.
constexpr double kLeastPadScale = 1.05;

void Colours(const DetectionOptions& o, SampleRandom& random, Picture& p) {
  if (o.random_hue_prob <= 0 && o.random_saturation_prob <= 0 &&
      o.random_illumination_prob <= 0 && o.random_contrast_prob <= 0)
    return;
  Check(p.channels == 3, "image has ", p.channels,
        " channels; changing colours needs three");
  double h = random.Uniform(-o.max_random_hue, o.max_random_hue);
  double s = random.Uniform(-o.max_random_saturation, o.max_random_saturation);
  double l = random.Uniform(-o.max_random_illumination, o.max_random_illumination);
  double c = random.Uniform(-o.max_random_contrast, o.max_random_contrast);
  h = random.Unit() < o.random_hue_prob ? std::trunc(h) : 0;
  s = random.Unit() < o.random_saturation_prob ? std::trunc(s) : 0;
  l = random.Unit() < o.random_illumination_prob ? std::trunc(l) : 0;
  c = random.Unit() < o.random_contrast_prob ? c : 0;
  if (h != 0 || s != 0 || l != 0) {
    ShiftHls(p, static_cast<float>(h), static_cast<float>(l), static_cast<float>(s));
  }
  if (std::abs(c) > 1e-3) Multiply(p, static_cast<float>(1 + c));
}

void Mirror(Picture& p) {
  for (int64_t i = 0; i < p.height; ++i) {
    uint8_t* row = p.data() + i * p.stride;
    for (int64_t a = 0, b = p.width - 1; a < b; ++a, --b)
      std::swap_ranges(row + a * p.channels, row + (a + 1) * p.channels,
                       row + b * p.channels);
  }
}

// Puts the picture at a random place of a larger one.
void PadAtRandom(const AugmentOptions& o, const DetectionOptions& d,
                 SampleRandom& random, Picture& p, BoxLabels* labels) {
  const double scale = random.Uniform(1, d.max_pad_scale);
  if (scale < kLeastPadScale) return;
  const double x = random.Uniform(0, scale - 1), y = random.Uniform(0, scale - 1);
  labels->Project({static_cast<float>(-x), static_cast<float>(-y),
                   static_cast<float>(scale), static_cast<float>(scale)});
  const auto share = [](double part, int64_t whole) {
    return static_cast<int64_t>(part * static_cast<double>(whole));
  };
  const int64_t left = share(x, p.width), top = share(y, p.height),
                right = share(scale - x - 1, p.width),
                bottom = share(scale - y - 1, p.height);
  Picture padded;
  padded.Make(p.height + top + bottom, p.width + left + right, p.channels);
  std::fill(padded.pixels.begin(), padded.pixels.end(),
            static_cast<uint8_t>(o.fill_value));
  for (int64_t i = 0; i < p.height; ++i) {
    std::memcpy(padded.data() + (i + top) * padded.stride + left * p.channels,
                p.data() + i * p.stride, static_cast<size_t>(p.width * p.channels));
  }
  p = std::move(padded);
}

Box RandomWindow(const CropSampler& s, double image_aspect, SampleRandom& random) {
  const double scale = random.Uniform(s.min_scale, s.max_scale) + 1e-12;
  const double least = std::max(s.min_aspect / image_aspect, scale * scale),
               most = std::min(s.max_aspect / image_aspect, 1 / (scale * scale));
  const double ratio = std::sqrt(random.Uniform(least, most));
  const double width = std::min(1.0, scale * ratio),
               height = std::min(1.0, scale / ratio);
  const double x = random.Uniform(0, 1 - width), y = random.Uniform(0, 1 - height);
  return {static_cast<float>(x), static_cast<float>(y), static_cast<float>(width),
          static_cast<float>(height)};
}

// By the samplers in random order, until one finds a window that the boxes allow.
void CropAtRandom(const DetectionOptions& d, SampleRandom& random, Picture& p,
                  BoxLabels* labels) {
  std::vector<size_t> order(d.samplers.size());
  std::iota(order.begin(), order.end(), size_t{0});
  for (size_t i = order.size(); i > 1; --i)
    std::swap(order[i - 1],
              order[static_cast<size_t>(random.Whole(0, static_cast<int64_t>(i) - 1))]);
  const double aspect = static_cast<double>(p.width) / static_cast<double>(p.height);
  for (const size_t i : order) {
    const CropSampler& sampler = d.samplers[i];
    for (int64_t trial = 0; trial < sampler.trials; ++trial) {
      const Box w = RandomWindow(sampler, aspect, random);
      if (!labels->Crop(w, sampler, d)) continue;
      const auto pixels = [](float share, int64_t whole) {
        return static_cast<int64_t>(share * static_cast<float>(whole));
      };
      const int64_t x = std::min(pixels(w.x, p.width), p.width - 1),
                    y = std::min(pixels(w.y, p.height), p.height - 1);
      p.Cut(x, y, std::clamp<int64_t>(pixels(w.width, p.width), 1, p.width - x),
            std::clamp<int64_t>(pixels(w.height, p.height), 1, p.height - y));
      return;
    }
  }
}

void FitResult(const AugmentOptions& o, const DetectionOptions& d, SampleRandom& random,
               Picture& p) {
  int64_t width = o.width, height = o.height;
  if (d.resize_mode != DetectionOptions::Resize::kForce) {
    const bool fits = p.height <= height && p.width <= width;
    if (d.resize_mode == DetectionOptions::Resize::kShrink && fits) return;
    const float ratio =
        std::min(static_cast<float>(height) / static_cast<float>(p.height),
                 static_cast<float>(width) / static_cast<float>(p.width));
    height = std::clamp<int64_t>(
        static_cast<int64_t>(ratio * static_cast<float>(p.height)), 1, height);
    width = std::clamp<int64_t>(
        static_cast<int64_t>(ratio * static_cast<float>(p.width)), 1, width);
  }
  ResizePicture(
      p, width, height,
      ChooseInterpolation(o.inter_method, p.width, p.height, width, height, random));
}

}  // namespace

bool CropSampler::ChecksBoxes() const {
  return min_overlap > 0 || max_overlap < 1 || min_sample_coverage > 0 ||
         max_sample_coverage < 1 || min_object_coverage > 0 || max_object_coverage < 1;
}

void DetectionOptions::Check() const {
  using plait::Check;
  const char* name = "ImageDetRecordIter";
  Check(label_width == -1 || label_width > 0, name, ": label_width is ", label_width,
        "; at least 1, or -1 for any, was expected");
  Check(max_pad_scale >= 1 && max_pad_scale <= 1000, name, ": max_pad_scale is ",
        max_pad_scale, "; at least 1 was expected");
  Check(emit_overlap_thresh >= 0, name, ": emit_overlap_thresh is ",
        emit_overlap_thresh, "; at least 0 was expected");
  const auto range = [&](const char* what, double low, double high, double least) {
    Check(low >= least && low <= high, name, ": min_crop_", what, " ", low,
          " and max_crop_", what, " ", high, " are no range");
  };
  for (const CropSampler& s : samplers) {
    range("scales", s.min_scale, s.max_scale, 0);
    Check(s.max_scale <= 1 && s.max_scale > s.min_scale, name, ": min_crop_scales ",
          s.min_scale, " and max_crop_scales ", s.max_scale,
          "; less than the latter, which is at most 1, was expected");
    range("aspect_ratios", s.min_aspect, s.max_aspect, 0);
    range("overlaps", s.min_overlap, s.max_overlap, -HUGE_VAL);
    range("sample_coverages", s.min_sample_coverage, s.max_sample_coverage, -HUGE_VAL);
    range("object_coverages", s.min_object_coverage, s.max_object_coverage, -HUGE_VAL);
  }
}

Picture AugmentDetection(std::span<const uint8_t> file, const AugmentOptions& o,
                         const DetectionOptions& d, SampleRandom& random,
                         BoxLabels* labels) {
  Picture p = DecodeWhole(file, o);
  if (o.resize > 0) ResizeShorterEdge(o, random, p);
  Colours(d, random, p);
  if (d.rand_mirror_prob > 0 && random.Unit() < d.rand_mirror_prob) {
    Mirror(p);
    labels->Mirror();
  }
  if (d.rand_pad_prob > 0 && d.max_pad_scale > 1 && random.Unit() < d.rand_pad_prob)
    PadAtRandom(o, d, random, p, labels);
  if (d.rand_crop_prob > 0 && random.Unit() < d.rand_crop_prob)
    CropAtRandom(d, random, p, labels);
  FitResult(o, d, random, p);
  return p;
}

}  // namespace plait::data
