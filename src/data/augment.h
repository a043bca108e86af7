// The augmentations of ImageRecordIter: from the bytes of an image file to a picture of
// the wanted size, and from that to the numbers of a batch.

#ifndef PLAIT_DATA_AUGMENT_H_
#define PLAIT_DATA_AUGMENT_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/dtype.h"
#include "data/sample_random.h"
#include "image/codec.h"

namespace plait::data {

// MXNet's parameters with MXNet's names and defaults, in the order in which they act.
struct AugmentOptions {
  int64_t channels = 3, height = 0, width = 0;  // of the result

  int64_t resize = -1;  // shorter edge first
  double max_rotate_angle = 0, max_shear_ratio = 0;
  double rotate = -1;
  std::vector<int> rotate_list;
  double max_random_scale = 1, min_random_scale = 1;
  double max_aspect_ratio = 0;
  std::optional<double> min_aspect_ratio;
  double max_img_size = 1e10, min_img_size = 0;
  int64_t pad = 0;
  int fill_value = 255;

  bool random_resized_crop = false, rand_crop = false;
  double max_random_area = 1, min_random_area = 1;
  int64_t max_crop_size = -1, min_crop_size = -1;
  int inter_method = 1;

  double brightness = 0, contrast = 0, saturation = 0;
  double random_h = 0, random_s = 0, random_l = 0;
  double pca_noise = 0;

  bool mirror = false, rand_mirror = false;
  double mean[4] = {0, 0, 0, 0}, std[4] = {1, 1, 1, 1};
  std::shared_ptr<const std::vector<float>> mean_image;  // (channels, height, width)
  double scale = 1, max_random_contrast = 0, max_random_illumination = 0;

  bool orient = false;  // by EXIF data
  bool exact = false;   // never decode a JPEG at a smaller size

  // Throws kValue unless the values fit together.
  void Check() const;
  double LeastAspect() const;
  double MostAspect() const;
  bool Warps() const;  // the affine step has something to do
};

// Pixels (height, width, channels) with rows `stride` bytes apart: all of `pixels`, or
// a part of them.
struct Picture {
  std::vector<uint8_t> pixels;
  int64_t begin = 0, stride = 0, height = 0, width = 0;
  int channels = 0;

  const uint8_t* data() const { return pixels.data() + begin; }
  uint8_t* data() { return pixels.data() + begin; }
  void Make(int64_t new_height, int64_t new_width, int new_channels);
  void Cut(int64_t x, int64_t y, int64_t new_width, int64_t new_height);
};

// The augmented picture of options.height x options.width, red first.
Picture Augment(std::span<const uint8_t> file, const AugmentOptions& options,
                SampleRandom& random);

// Writes the picture as (channels, height, width) of the dtype: mirrored, and
// normalised unless it is of bytes. A smaller one is written top left, without
// mirroring, with zeros around it.
void WriteSample(const Picture& picture, const AugmentOptions& options, DType dtype,
                 SampleRandom& random, void* to);

// Parts of Augment.
Picture DecodeWhole(std::span<const uint8_t> file, const AugmentOptions& options);
void ResizePicture(Picture& picture, int64_t width, int64_t height, int method);
void ResizeShorterEdge(const AugmentOptions& options, SampleRandom& random,
                       Picture& picture);
void Warp(const AugmentOptions& options, SampleRandom& random, Picture& picture);
void ChangeColours(const AugmentOptions& options, SampleRandom& random,
                   Picture& picture);

// Of three channels: adds to hue (of 180), lightness and saturation (of 255);
// multiplies.
void ShiftHls(Picture& picture, float hue, float lightness, float saturation);
void Multiply(Picture& picture, float factor);

// 0 to 4 for MXNet's 0 to 4, 9 and 10.
int ChooseInterpolation(int method, int64_t width, int64_t height, int64_t new_width,
                        int64_t new_height, SampleRandom& random);

}  // namespace plait::data

#endif  // PLAIT_DATA_AUGMENT_H_
