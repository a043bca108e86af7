// Decoding and encoding image files in memory: JPEG, PNG, and what else is built in.
//
// Thread safety: any thread, any number at once; one call uses one thread. Errors are
// kValue and begin with "image: "; a caller that knows where the bytes come from adds
// that. No input crashes: sizes are compared with a limit before memory is taken, and
// an image that ends too early is an error, not a half grey picture.

#ifndef PLAIT_IMAGE_CODEC_H_
#define PLAIT_IMAGE_CODEC_H_

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

namespace plait::image {

// Rows without gaps, channels interleaved; samples are uint8_t, or uint16_t where wide.
struct Layout {
  int64_t height = 0, width = 0;
  int channels = 0;
  bool wide = false;
  int orientation = 1;  // by EXIF data, 1 to 8; told by ReadLayout

  int64_t samples() const { return height * width * channels; }
  int64_t bytes() const { return samples() * (wide ? 2 : 1); }
};

enum class Channels : int8_t {
  kAsStored = -1,  // 1, 3 or 4; 16 bits stay 16 bits
  kGray = 0,
  kColour = 1,  // three; alpha is dropped
};

struct DecodeOptions {
  Channels channels = Channels::kColour;
  bool red_first = true;  // else blue first, as OpenCV has it
  bool orient = true;     // turn and mirror as the EXIF data of a JPEG asks for
  // Above 0: a JPEG may come out at a half, a quarter or an eighth of its size, as long
  // as its shorter edge has this many pixels. Much faster, and not quite the pixels
  // that resizing the whole image gives.
  int64_t shorter_edge = 0;
  // Images of more pixels are refused: a few bytes can ask for gigabytes.
  int64_t most_pixels = int64_t{1} << 28;
  // With a width: only this part of the image, of which a JPEG decodes little more. Its
  // pixels are those of the whole image. Goes without orient and shorter_edge.
  struct {
    int64_t x = 0, y = 0, width = 0, height = 0;
  } region = {};
};

// Gives the memory for an image of which everything is known but the pixels. May throw.
using Place = std::function<void*(const Layout&)>;

void Decode(std::span<const uint8_t> file, const DecodeOptions& options,
            const Place& place);

// What an image file says of itself, before orientation and scaling. Reads the head.
Layout ReadLayout(std::span<const uint8_t> file);

struct EncodeOptions {
  bool red_first = true;
  int quality = 95;     // of JPEG, 1 to 100
  int compression = 3;  // of PNG, 0 to 9
};

// `extension` is ".jpg", ".jpeg" or ".png", in any case. JPEG takes 8 bits and 1 or 3
// channels, PNG both widths and 1, 3 or 4.
std::vector<uint8_t> Encode(const void* pixels, const Layout& layout,
                            std::string_view extension, const EncodeOptions& options);

// One file format, registered by the file that implements it. Where its library was
// missing when Plait was built, it is not there, and using it says so.
struct Codec {
  const char* name;  // "JPEG"
  void (*decode)(std::span<const uint8_t>, const DecodeOptions&, const Place&);
  Layout (*layout)(std::span<const uint8_t>);
  std::vector<uint8_t> (*encode)(const void*, const Layout&, const EncodeOptions&);
  // Optional: decodes a region; false, before `place` is called: cannot of this file.
  bool (*decode_region)(std::span<const uint8_t>, const DecodeOptions&,
                        const Place&) = nullptr;
};
bool RegisterCodec(const Codec& codec);
bool HasCodec(std::string_view name);

// Throws unless the sizes are sound and within the limit.
void CheckSize(const char* format, int64_t height, int64_t width,
               const DecodeOptions& options);

// Throws where a file of so many bytes cannot hold an image of so many samples, `most`
// a byte: before memory is taken for a size that is made up.
void CheckRoom(const char* format, size_t file_bytes, int64_t samples, int64_t most);

}  // namespace plait::image

#endif  // PLAIT_IMAGE_CODEC_H_
