// EXIF orientation: the first directory of a TIFF, and eight ways to copy an image.

#include "image/orient.h"

#include <cstring>
#include <optional>

namespace plait::image {
namespace {

constexpr unsigned kOrientationTag = 0x0112;

class Tiff {
 public:
  explicit Tiff(std::span<const uint8_t> bytes)
      : bytes_(bytes), big_(bytes.size() > 1 && bytes[0] == 'M') {}

  // An unsigned number of `size` bytes; nothing beyond the end.
  std::optional<uint32_t> Read(size_t at, size_t size) const {
    if (at > bytes_.size() || size > bytes_.size() - at) return std::nullopt;
    uint32_t value = 0;
    for (size_t i = 0; i < size; ++i)
      value = value << 8 | bytes_[at + (big_ ? i : size - 1 - i)];
    return value;
  }

 private:
  std::span<const uint8_t> bytes_;
  bool big_;
};

}  // namespace

int ExifOrientation(std::span<const uint8_t> exif) {
  constexpr char kHead[6] = {'E', 'x', 'i', 'f', 0, 0};
  if (exif.size() < 14 || std::memcmp(exif.data(), kHead, sizeof(kHead)) != 0) return 1;
  const Tiff tiff(exif.subspan(sizeof(kHead)));
  if (tiff.Read(2, 2) != 42u) return 1;
  const size_t directory = tiff.Read(4, 4).value_or(0);
  const uint32_t entries = tiff.Read(directory, 2).value_or(0);
  for (uint32_t i = 0; i < entries; ++i) {
    const size_t entry = directory + 2 + size_t{12} * i;
    const std::optional<uint32_t> tag = tiff.Read(entry, 2);
    if (!tag) break;
    if (*tag != kOrientationTag) continue;
    const uint32_t value = tiff.Read(entry + 8, 2).value_or(1);
    return value >= 1 && value <= 8 ? static_cast<int>(value) : 1;
  }
  return 1;
}

void Orient(const uint8_t* x, int64_t height, int64_t width, int64_t size,
            int orientation, uint8_t* y) {
  const bool transposes = Transposes(orientation);
  const bool right_to_left =
      orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
  const bool bottom_up =
      orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
  const int64_t rows = transposes ? width : height, row = transposes ? height : width;
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < row; ++j, y += size) {
      int64_t from_row = transposes ? j : i, from_column = transposes ? i : j;
      if (bottom_up) from_row = height - 1 - from_row;
      if (right_to_left) from_column = width - 1 - from_column;
      std::memcpy(y, x + (from_row * width + from_column) * size,
                  static_cast<size_t>(size));
    }
  }
}

}  // namespace plait::image
