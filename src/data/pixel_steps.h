// What one PixelStep does to an image.

#ifndef PLAIT_DATA_PIXEL_STEPS_H_
#define PLAIT_DATA_PIXEL_STEPS_H_

#include <cstdint>
#include <vector>

#include "data/sample_maker.h"

namespace plait::data {

// A part that is cut out and resized; method -1: it has its size already.
struct Cut {
  image::Window part;
  int64_t width, height;
  int method;
  bool antialias;

  bool Resizes() const {
    return method >= 0 && (width != part.width || height != part.height);
  }
};

// Draws what is left to chance in the order in which the Python transforms do. Throws
// kValue where the step cannot be done. REQUIRES: the step is no flip.
Cut CutOf(const PixelStep& step, int64_t width, int64_t height, SampleRandom& random);

// An image: of another's memory, or of its own.
struct ImageView {
  std::vector<uint8_t> owned;
  const uint8_t* data = nullptr;
  int64_t stride = 0, height = 0, width = 0;
  int channels = 0;
  size_t done = 0;  // steps that are behind it

  void Own(int64_t new_height, int64_t new_width, std::vector<uint8_t> bytes);
  void Apply(const Cut& cut);
  void Flip(bool left_right);
};

}  // namespace plait::data

#endif  // PLAIT_DATA_PIXEL_STEPS_H_
