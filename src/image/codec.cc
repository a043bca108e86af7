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
       " bytes that begin like no image format; JPEG or PNG was expected");
}

}  // namespace

bool RegisterCodec(const Codec& codec) {
  Codecs().push_back(codec);
  return true;
}

void CheckSize(const char* format, int64_t height, int64_t width,
               const DecodeOptions& options) {
  Check(height > 0 && width > 0, "image: the ", format, " has no pixels: ", height,
        " x ", width);
  Check(width <= options.most_pixels / height, "image: the ", format,
        " says that it is ", width, " x ", height, " pixels; at most ",
        options.most_pixels, " pixels were expected");
}

void Decode(std::span<const uint8_t> file, const DecodeOptions& options,
            const Place& place) {
  CodecOf(file).decode(file, options, place);
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
