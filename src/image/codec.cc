// Which format some bytes are, and the table of codecs.

#include "image/codec.h"

#include <algorithm>
#include <cctype>
#include <cstring>
#include <string>

#include "base/error.h"

namespace plait::image {
namespace {

std::vector<Codec>& Codecs() {
  static auto* const codecs = new std::vector<Codec>;
  return *codecs;
}

const Codec& CodecOf(std::string_view name) {
  for (const Codec& codec : Codecs()) {
    if (codec.name == name) return codec;
  }
  Fail(
      ErrorKind::kNotImplemented, "image: this build of Plait has no codec for ", name,
      "; the library for it was not found when Plait was built (docs/dependencies.md)");
}

bool Begins(std::span<const uint8_t> file, std::string_view with, size_t at = 0) {
  return file.size() >= at + with.size() &&
         std::memcmp(file.data() + at, with.data(), with.size()) == 0;
}

const Codec& CodecOf(std::span<const uint8_t> file) {
  if (Begins(file, "\xff\xd8\xff")) return CodecOf("JPEG");
  if (Begins(file, "\x89PNG\r\n\x1a\n")) return CodecOf("PNG");
  if (Begins(file, "RIFF") && Begins(file, "WEBP", 8)) return CodecOf("WebP");
  Check(!file.empty(), "image: no bytes were given; an image file was expected");
  const char* known = Begins(file, "GIF8")   ? "GIF"
                      : Begins(file, "BM")   ? "BMP"
                      : Begins(file, "II*")  ? "TIFF"
                      : Begins(file, "MM\0") ? "TIFF"
                                             : nullptr;
  if (known != nullptr) CodecOf(std::string_view(known));
  Fail(ErrorKind::kValue, "image: ", file.size(),
       " bytes that begin like no image format; JPEG, PNG or WebP was expected");
}

// By decoding all of the image.
void CutRegion(const Codec& codec, std::span<const uint8_t> file,
               const DecodeOptions& options, const Place& place) {
  DecodeOptions whole = options;
  whole.region = {};
  whole.orient = false;
  whole.shorter_edge = 0;
  std::vector<uint8_t> pixels;
  Layout layout;
  codec.decode(file, whole, [&](const Layout& l) {
    layout = l;
    pixels.resize(static_cast<size_t>(l.bytes()));
    return pixels.data();
  });
  const auto& r = options.region;
  const int64_t row = layout.bytes() / layout.height, pixel = row / layout.width;
  layout.height = r.height;
  layout.width = r.width;
  auto* to = static_cast<uint8_t*>(place(layout));
  for (int64_t i = 0; i < r.height; ++i) {
    std::memcpy(to + i * r.width * pixel, pixels.data() + (r.y + i) * row + r.x * pixel,
                static_cast<size_t>(r.width * pixel));
  }
}

}  // namespace

bool RegisterCodec(const Codec& codec) {
  Codecs().push_back(codec);
  return true;
}

bool HasCodec(std::string_view name) {
  return std::any_of(Codecs().begin(), Codecs().end(),
                     [&](const Codec& codec) { return codec.name == name; });
}

void CheckSize(const char* format, int64_t height, int64_t width,
               const DecodeOptions& options) {
  Check(height > 0 && width > 0, "image: the ", format, " has no pixels: ", height,
        " x ", width);
  Check(width <= options.most_pixels / height, "image: the ", format,
        " says that it is ", width, " x ", height, " pixels; at most ",
        options.most_pixels, " pixels were expected");
}

void CheckRoom(const char* format, size_t file_bytes, int64_t samples, int64_t most) {
  Check(samples / most <= static_cast<int64_t>(file_bytes), "image: the ", format,
        " says that it has ", samples, " samples, and is of ", file_bytes,
        " bytes; it is damaged or cut off");
}

void Decode(std::span<const uint8_t> file, const DecodeOptions& options,
            const Place& place) {
  const Codec& codec = CodecOf(file);
  const auto& r = options.region;
  if (r.width == 0) return codec.decode(file, options, place);
  const Layout stored = codec.layout(file);
  Check(r.x >= 0 && r.y >= 0 && r.width > 0 && r.height > 0 &&
            r.width <= stored.width - r.x && r.height <= stored.height - r.y,
        "image: a region of ", r.width, " x ", r.height, " pixels at (", r.x, ", ", r.y,
        ") is not inside an image of ", stored.width, " x ", stored.height);
  if (codec.decode_region != nullptr && codec.decode_region(file, options, place))
    return;
  CutRegion(codec, file, options, place);
}

Layout ReadLayout(std::span<const uint8_t> file) {
  return CodecOf(file).layout(file);
}

std::vector<uint8_t> Encode(const void* pixels, const Layout& layout,
                            std::string_view extension, const EncodeOptions& options) {
  std::string kind(extension);
  std::transform(kind.begin(), kind.end(), kind.begin(),
                 [](unsigned char c) { return std::tolower(c); });
  const bool jpeg = kind == ".jpg" || kind == ".jpeg";
  Check(jpeg || kind == ".png", "image: cannot write '", extension,
        "'; .jpg, .jpeg or .png was expected");
  Check(layout.height > 0 && layout.width > 0,
        "image: nothing to encode: ", layout.height, " x ", layout.width, " pixels");
  return CodecOf(jpeg ? "JPEG" : "PNG").encode(pixels, layout, options);
}

}  // namespace plait::image
