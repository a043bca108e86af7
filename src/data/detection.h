// The augmentations of ImageDetRecordIter: a picture, and the boxes in it.

#ifndef PLAIT_DATA_DETECTION_H_
#define PLAIT_DATA_DETECTION_H_

#include <span>
#include <vector>

#include "data/augment.h"

namespace plait::data {

// A way to crop at random: MXNet's parameters of one crop sampler.
struct CropSampler {
  double min_scale = 0, max_scale = 1;    // of the sides, in the image's
  double min_aspect = 1, max_aspect = 1;  // of the crop, as width / height
  // Some box must keep these limits: intersection over union, and the intersection's
  // share of the crop and of the box.
  double min_overlap = 0, max_overlap = 1;
  double min_sample_coverage = 0, max_sample_coverage = 1;
  double min_object_coverage = 0, max_object_coverage = 1;
  int64_t trials = 25;

  bool ChecksBoxes() const;
};

// Beside resize, inter_method, fill_value and the normalisation of AugmentOptions.
struct DetectionOptions {
  enum class Resize : int8_t { kForce, kShrink, kFit };
  enum class Emit : int8_t { kCenter, kOverlap };

  static constexpr int64_t kHead = 4;  // numbers before the labels of a row

  int64_t label_width = -1;  // of every record; -1: any
  int64_t label_pad_width =
      0;  // above 0: room for labels; else for the widest record's
  float label_pad_value = -1;

  double rand_mirror_prob = 0;
  double rand_pad_prob = 0, max_pad_scale = 1;
  double rand_crop_prob = 0;
  std::vector<CropSampler> samplers = {CropSampler()};
  Emit emit = Emit::kCenter;
  double emit_overlap_thresh = 0.3;
  Resize resize_mode = Resize::kForce;

  double random_hue_prob = 0, max_random_hue = 0;
  double random_saturation_prob = 0, max_random_saturation = 0;
  double random_illumination_prob = 0, max_random_illumination = 0;
  double random_contrast_prob = 0, max_random_contrast = 0;

  void Check() const;  // throws kValue
};

// A rectangle in shares of the image's sides.
struct Box {
  float x = 0, y = 0, width = 0, height = 0;

  float Area() const { return width * height; }
  float AreaOfIntersection(const Box& other) const;
  bool Contains(float px, float py) const;
};

// The labels of an image, [header width, object width, more header..., objects...],
// each object [class, left, top, right, bottom, more...].
class BoxLabels {
 public:
  // Objects without area are dropped. Throws kValue unless the form is right.
  explicit BoxLabels(std::span<const float> labels);

  void Mirror();
  void Project(const Box& window);  // to coordinates of the window, cut at its edges
  // Drops the objects that are outside and projects the others; false, and nothing is
  // changed: no box keeps the sampler's limits, or all would be dropped.
  bool Crop(const Box& window, const CropSampler& sampler, const DetectionOptions& o);

  std::vector<float> ToArray() const;

 private:
  bool Allows(const Box& window, const CropSampler& sampler) const;
  Box BoxOf(size_t object) const;

  std::vector<float> header_, objects_;
  size_t width_ = 0;  // of an object
};

// The augmented picture, at most options.height x options.width, and the boxes in it.
Picture AugmentDetection(std::span<const uint8_t> file, const AugmentOptions& options,
                         const DetectionOptions& detection, SampleRandom& random,
                         BoxLabels* labels);

}  // namespace plait::data

#endif  // PLAIT_DATA_DETECTION_H_
