// AugmentOptions: what fits together.

#include <cmath>

#include "base/error.h"
#include "data/augment.h"

namespace plait::data {

double AugmentOptions::LeastAspect() const {
  return min_aspect_ratio ? *min_aspect_ratio : 1 - max_aspect_ratio;
}
double AugmentOptions::MostAspect() const {
  return min_aspect_ratio ? max_aspect_ratio : 1 + max_aspect_ratio;
}

bool AugmentOptions::Warps() const {
  return max_rotate_angle > 0 || max_shear_ratio > 0 || rotate > 0 ||
         !rotate_list.empty() || max_random_scale != 1 || min_random_scale != 1 ||
         (!random_resized_crop && (LeastAspect() != 1 || MostAspect() != 1)) ||
         max_img_size != 1e10 || min_img_size != 0;
}

void AugmentOptions::Check() const {
  using plait::Check;
  const char* name = "ImageRecordIter";
  Check(channels == 1 || channels == 3 || channels == 4, name, ": data_shape has ",
        channels, " channels; 1, 3 or 4 were expected");
  Check(height > 0 && width > 0 && height <= 65536 && width <= 65536, name,
        ": data_shape of ", height, " x ", width, " pixels");
  Check((inter_method >= 0 && inter_method <= 4) || inter_method == 9 ||
            inter_method == 10,
        name, ": inter_method is ", inter_method, "; 0 to 4, 9 or 10 was expected");
  Check(resize == -1 || (resize > 0 && resize <= 65536), name, ": resize is ", resize,
        "; a number of pixels, or -1, was expected");
  Check(pad >= 0 && pad <= 65536, name, ": pad is ", pad);
  Check(fill_value >= 0 && fill_value <= 255, name, ": fill_value is ", fill_value,
        "; 0 to 255 was expected");
  Check(min_random_scale > 0 && min_random_scale <= max_random_scale &&
            max_random_scale <= 1000,
        name, ": min_random_scale ", min_random_scale, " and max_random_scale ",
        max_random_scale, " are no range of scales");
  Check(LeastAspect() > 0 && LeastAspect() <= MostAspect(), name,
        ": aspect ratios from ", LeastAspect(), " to ", MostAspect(),
        " (min_aspect_ratio, max_aspect_ratio) are no range of proportions");
  Check(
      max_random_area >= min_random_area && min_random_area > 0 && max_random_area <= 1,
      name, ": min_random_area ", min_random_area, " and max_random_area ",
      max_random_area, " are no shares of an image");
  Check((max_crop_size == -1) == (min_crop_size == -1) &&
            min_crop_size <= max_crop_size &&
            (max_crop_size == -1 || min_crop_size > 0),
        name, ": min_crop_size ", min_crop_size, " and max_crop_size ", max_crop_size,
        " are no range of sizes");
  Check(!random_resized_crop || (min_random_scale == 1 && max_random_scale == 1 &&
                                 max_crop_size == -1 && !rand_crop),
        name,
        ": random_resized_crop cannot go with min_random_scale, max_random_scale, "
        "min_crop_size, max_crop_size or rand_crop");
  for (const double d : std) Check(d != 0, name, ": a standard deviation is 0");
  Check(mean_image == nullptr ||
            static_cast<int64_t>(mean_image->size()) == channels * height * width,
        name, ": the mean image has ", mean_image ? mean_image->size() : 0,
        " numbers; ", channels * height * width, " were expected (data_shape)");
}

}  // namespace plait::data
