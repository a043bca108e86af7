// The geometry of the vision transforms, and images as they go through them.

#include "data/pixel_steps.h"

#include <cmath>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "data/augment.h"

namespace plait::data {
namespace {

// The part, to a size; a method is drawn even where the size is right, as Python does.
Cut Resized(const PixelStep& s, const image::Window& part, int64_t width,
            int64_t height, SampleRandom& random) {
  Check(width > 0 && height > 0 && width < (1 << 20) && height < (1 << 20),
        "resize: the size is ", width, " x ", height, "; 1 to ", (1 << 20) - 1,
        " was expected");
  const int method = ChooseInterpolation(s.interpolation, part.width, part.height,
                                         width, height, random);
  return {part, width, height, method, s.antialias};
}

Cut Resize(const PixelStep& s, int64_t width, int64_t height, SampleRandom& random) {
  int64_t w = s.width, h = s.height;
  if (s.keep_ratio) {
    if (height > width) {
      h = height * w / width;
    } else {
      h = w;
      w = width * w / height;
    }
  }
  return Resized(s, {0, 0, width, height}, w, h, random);
}

Cut Crop(const PixelStep& s, int64_t width, int64_t height, SampleRandom& random) {
  const image::Window part = {s.x, s.y, s.part_width, s.part_height};
  Check(part.x >= 0 && part.y >= 0 && part.width >= 1 && part.height >= 1 &&
            part.width <= width - part.x && part.height <= height - part.y,
        "crop: a rectangle of ", part.width, "x", part.height, " at (", part.x, ", ",
        part.y, ") is not inside an image of ", width, "x", height,
        " (width x height)");
  if (s.width == 0) return {part, part.width, part.height, -1, false};
  return Resized(s, part, s.width, s.height, random);
}

Cut CenterCrop(const PixelStep& s, int64_t width, int64_t height,
               SampleRandom& random) {
  double w = static_cast<double>(s.width), h = static_cast<double>(s.height);
  const auto from_width = static_cast<double>(width),
             from_height = static_cast<double>(height);
  if (from_height < h) {
    w = w * from_height / h;
    h = from_height;
  }
  if (from_width < w) {
    h = from_width * h / w;
    w = from_width;
  }
  const auto part_w = static_cast<int64_t>(w), part_h = static_cast<int64_t>(h);
  Check(part_w >= 1 && part_h >= 1, "crop: a rectangle of ", part_w, "x", part_h,
        " of an image of ", width, "x", height, " (width x height)");
  const image::Window part = {(width - part_w) / 2, (height - part_h) / 2, part_w,
                              part_h};
  if (part_w == s.width && part_h == s.height) return {part, part_w, part_h, -1, false};
  return Resized(s, part, s.width, s.height, random);
}

Cut RandomResizedCrop(const PixelStep& s, int64_t width, int64_t height,
                      SampleRandom& random) {
  constexpr int kTrials = 10;
  for (int i = 0; i < kTrials; ++i) {
    const double wanted = random.Uniform(s.min_area, s.max_area) *
                          static_cast<double>(height) * static_cast<double>(width);
    const double aspect = std::exp(random.Uniform(s.min_log_ratio, s.max_log_ratio));
    // To the nearest even number where it is in the middle, as Python rounds.
    const auto w = static_cast<int64_t>(std::nearbyint(std::sqrt(wanted * aspect)));
    const auto h = static_cast<int64_t>(std::nearbyint(std::sqrt(wanted / aspect)));
    if (w <= 0 || w > width || h <= 0 || h > height) continue;
    const int64_t x = random.Whole(0, width - w), y = random.Whole(0, height - h);
    return Resized(s, {x, y, w, h}, s.width, s.height, random);
  }
  return CenterCrop(s, width, height, random);
}

}  // namespace

Cut CutOf(const PixelStep& step, int64_t width, int64_t height, SampleRandom& random) {
  switch (step.kind) {
    case PixelStep::Kind::kResize:
      return Resize(step, width, height, random);
    case PixelStep::Kind::kCrop:
      return Crop(step, width, height, random);
    case PixelStep::Kind::kCenterCrop:
      return CenterCrop(step, width, height, random);
    default:
      return RandomResizedCrop(step, width, height, random);
  }
}

void ImageView::Own(int64_t new_height, int64_t new_width, std::vector<uint8_t> bytes) {
  owned = std::move(bytes);
  data = owned.data();
  height = new_height;
  width = new_width;
  stride = width * channels;
}

void ImageView::Apply(const Cut& cut) {
  data += cut.part.y * stride + cut.part.x * channels;
  width = cut.part.width;
  height = cut.part.height;
  if (!cut.Resizes()) return;
  std::vector<uint8_t> y(static_cast<size_t>(cut.height * cut.width * channels));
  const auto how = static_cast<image::Interpolation>(cut.method);
  if (cut.antialias) {
    image::ResizeAntialias(data, stride, height, width, channels, y.data(), cut.height,
                           cut.width, how);
  } else {
    image::ResizeBytes(data, stride, height, width, channels, y.data(), cut.height,
                       cut.width, how);
  }
  Own(cut.height, cut.width, std::move(y));
}

void ImageView::Flip(bool left_right) {
  const int64_t row = width * channels;
  std::vector<uint8_t> y(static_cast<size_t>(height * row));
  for (int64_t i = 0; i < height; ++i) {
    const uint8_t* from = data + i * stride;
    uint8_t* to = y.data() + (left_right ? i : height - 1 - i) * row;
    if (!left_right) {
      std::memcpy(to, from, static_cast<size_t>(row));
      continue;
    }
    const uint8_t* pixel = from + row;
    for (int64_t j = 0; j < row; j += channels) {
      pixel -= channels;
      for (int64_t k = 0; k < channels; ++k) to[j + k] = pixel[k];
    }
  }
  Own(height, width, std::move(y));
}

}  // namespace plait::data
