// WebP by libwebp: still images, to read.

#include <webp/decode.h>

#include "base/error.h"
#include "image/codec.h"

namespace plait::image {
namespace {

const char* TextOf(VP8StatusCode status) {
  switch (status) {
    case VP8_STATUS_OUT_OF_MEMORY:
      return "out of memory";
    case VP8_STATUS_UNSUPPORTED_FEATURE:
      return "a feature that is not supported";
    case VP8_STATUS_SUSPENDED:
    case VP8_STATUS_NOT_ENOUGH_DATA:
      return "the file ends too early";
    default:
      return "the code is wrong";
  }
}

WebPBitstreamFeatures HeadOf(std::span<const uint8_t> file) {
  WebPBitstreamFeatures head;
  const VP8StatusCode status = WebPGetFeatures(file.data(), file.size(), &head);
  Check(status == VP8_STATUS_OK,
        "image: the WebP has a damaged head: ", TextOf(status));
  Check(head.has_animation == 0, ErrorKind::kNotImplemented,
        "image: the WebP is an animation; a still image was expected");
  return head;
}

Layout LayoutOfWebp(std::span<const uint8_t> file) {
  const WebPBitstreamFeatures head = HeadOf(file);
  return {.height = head.height,
          .width = head.width,
          .channels = head.has_alpha != 0 ? 4 : 3};
}

void DecodeInto(std::span<const uint8_t> file, const Layout& layout, bool red_first,
                uint8_t* to) {
  const auto decode = layout.channels == 4
                          ? (red_first ? WebPDecodeRGBAInto : WebPDecodeBGRAInto)
                          : (red_first ? WebPDecodeRGBInto : WebPDecodeBGRInto);
  const auto row = static_cast<int>(layout.width * layout.channels);
  const auto bytes = static_cast<size_t>(layout.bytes());
  Check(decode(file.data(), file.size(), to, bytes, row) != nullptr,
        "image: the WebP is damaged or cut off");
}

void DecodeWebp(std::span<const uint8_t> file, const DecodeOptions& options,
                const Place& place) {
  Layout layout = LayoutOfWebp(file);
  CheckSize("WebP", layout.height, layout.width, options);
  if (options.channels != Channels::kAsStored) layout.channels = 3;
  if (options.channels != Channels::kGray) {
    DecodeInto(file, layout, options.red_first, static_cast<uint8_t*>(place(layout)));
    return;
  }
  std::vector<uint8_t> colour(static_cast<size_t>(layout.bytes()));
  DecodeInto(file, layout, true, colour.data());
  layout.channels = 1;
  auto* to = static_cast<uint8_t*>(place(layout));
  const uint8_t* x = colour.data();
  for (int64_t i = 0; i < layout.samples(); ++i, x += 3)
    to[i] =
        static_cast<uint8_t>((x[0] * 4899 + x[1] * 9617 + x[2] * 1868 + 8192) >> 14);
}

[[maybe_unused]] const bool registered = RegisterCodec({
    .name = "WebP",
    .decode = DecodeWebp,
    .layout = LayoutOfWebp,
    .encode = nullptr,
});

}  // namespace
}  // namespace plait::image
