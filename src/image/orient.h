// Turning and mirroring images by the EXIF orientation, and reading it.

#ifndef PLAIT_IMAGE_ORIENT_H_
#define PLAIT_IMAGE_ORIENT_H_

#include <cstdint>
#include <span>

namespace plait::image {

// The orientation, 1 to 8, of EXIF data ("Exif\0\0" and a TIFF head); 1 where there is
// none or the data is damaged.
int ExifOrientation(std::span<const uint8_t> exif);

// Orientations above 4 exchange height and width.
inline bool Transposes(int orientation) {
  return orientation >= 5;
}

// y from x (height, width), pixels of `size` bytes; y is (width, height) where
// Transposes(orientation). REQUIRES: they do not overlap.
void Orient(const uint8_t* x, int64_t height, int64_t width, int64_t size,
            int orientation, uint8_t* y);

}  // namespace plait::image

#endif  // PLAIT_IMAGE_ORIENT_H_
