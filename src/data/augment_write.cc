// WriteSample: from interleaved bytes to planes of numbers.

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "base/error.h"
#include "data/augment.h"

namespace plait::data {
namespace {

// What is done to each number of a channel: (x - mean) * multiplier + bias.
struct Channel {
  float mean, multiplier, bias;
};

template <typename T>
T Normalised(uint8_t x, const Channel& c, float mean) {
  if constexpr (std::is_same_v<T, uint8_t>) {
    return x;
  } else if constexpr (std::is_same_v<T, int8_t>) {
    const float v = static_cast<float>(x) - std::round(mean);
    return static_cast<int8_t>(std::clamp(v, -128.0f, 127.0f));
  } else {
    return static_cast<T>((static_cast<float>(x) - mean) * c.multiplier + c.bias);
  }
}

template <typename T, int kChannels>
void WritePlanes(const Picture& p, const Channel* channels, const float* mean_image,
                 bool mirrored, int64_t row_size, int64_t plane, T* to) {
  for (int64_t i = 0; i < p.height; ++i) {
    const uint8_t* row = p.data() + i * p.stride;
    for (int k = 0; k < kChannels; ++k) {
      T* y = to + k * plane + i * row_size;
      const uint8_t* x = row + k;
      const Channel c = channels[k];
      const int64_t last = p.width - 1;
      if (mean_image != nullptr) {
        const float* mean = mean_image + k * plane + i * row_size;
        for (int64_t j = 0; j < p.width; ++j)
          y[mirrored ? last - j : j] = Normalised<T>(x[j * kChannels], c, mean[j]);
      } else if (mirrored) {
        const uint8_t* end = x + last * kChannels;
        for (int64_t j = 0; j < p.width; ++j)
          y[j] = Normalised<T>(end[-j * kChannels], c, c.mean);
      } else {
        for (int64_t j = 0; j < p.width; ++j)
          y[j] = Normalised<T>(x[j * kChannels], c, c.mean);
      }
    }
  }
}

template <typename T>
void Write(const Picture& p, const AugmentOptions& o, const Channel* channels,
           bool mirrored, void* to) {
  auto* y = static_cast<T*>(to);
  const float* mean = o.mean_image ? o.mean_image->data() : nullptr;
  const int64_t plane = o.height * o.width;
  if (p.height < o.height || p.width < o.width)
    std::fill(y, y + p.channels * plane, T{});
  switch (p.channels) {
    case 1:
      return WritePlanes<T, 1>(p, channels, mean, mirrored, o.width, plane, y);
    case 3:
      return WritePlanes<T, 3>(p, channels, mean, mirrored, o.width, plane, y);
    default:
      return WritePlanes<T, 4>(p, channels, mean, mirrored, o.width, plane, y);
  }
}

}  // namespace

void WriteSample(const Picture& p, const AugmentOptions& o, DType dtype,
                 SampleRandom& random, void* to) {
  const bool mirrored = o.mirror || (o.rand_mirror && random.Unit() < 0.5);
  const double contrast =
      (1 + random.Uniform(-o.max_random_contrast, o.max_random_contrast)) * o.scale;
  const double light =
      random.Uniform(-o.max_random_illumination, o.max_random_illumination) * o.scale;
  Channel channels[4];
  for (int k = 0; k < 4; ++k) {
    channels[k] = {static_cast<float>(o.mean[k]),
                   static_cast<float>(contrast / o.std[k]),
                   static_cast<float>(light / o.std[k])};
  }
  switch (dtype) {
    case DType::kUint8:
      return Write<uint8_t>(p, o, channels, mirrored, to);
    case DType::kInt8:
      return Write<int8_t>(p, o, channels, mirrored, to);
    case DType::kFloat32:
      return Write<float>(p, o, channels, mirrored, to);
    case DType::kFloat64:
      return Write<double>(p, o, channels, mirrored, to);
    case DType::kFloat16:
      return Write<Float16>(p, o, channels, mirrored, to);
    default:
      Fail(ErrorKind::kType, "ImageRecordIter: dtype ", Name(dtype),
           "; float32, float64, float16, uint8 or int8 was expected");
  }
}

}  // namespace plait::data
