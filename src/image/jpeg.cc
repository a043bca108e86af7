// JPEG by libjpeg-turbo.
//
// The library reports errors by a jump. Functions that it may jump out of hold nothing
// that a destructor must release; their callers do.

// clang-format off
#include <cstdio>
#include <jpeglib.h>
#include <jerror.h>
// clang-format on

#include <algorithm>
#include <csetjmp>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "base/error.h"
#include "image/codec.h"
#include "image/orient.h"

namespace plait::image {
namespace {

// A block of 64 samples takes a bit at least, of arithmetic coding less.
constexpr int64_t kMostPerByte = 8192;

// Progressive files of thousands of scans take minutes to decode.
constexpr int kMostScans = 500;

struct ErrorManager {
  jpeg_error_mgr base;
  std::jmp_buf jump;
  char text[JMSG_LENGTH_MAX] = "";
};

void OnError(j_common_ptr info) {
  auto* manager = reinterpret_cast<ErrorManager*>(info->err);
  manager->base.format_message(info, manager->text);
  std::longjmp(manager->jump, 1);
}
void OnMessage(j_common_ptr) {}

// Warnings that mean missing or wrong pixels are errors; the others are not.
void OnWarning(j_common_ptr info, int level) {
  if (level >= 0) return;
  switch (info->err->msg_code) {
    case JWRN_HIT_MARKER:
    case JWRN_HUFF_BAD_CODE:
    case JWRN_MUST_RESYNC:
      OnError(info);
  }
}

void OnProgress(j_common_ptr info) {
  if (!info->is_decompressor) return;
  auto* decoder = reinterpret_cast<j_decompress_ptr>(info);
  if (decoder->input_scan_number <= kMostScans) return;
  auto* manager = reinterpret_cast<ErrorManager*>(info->err);
  std::snprintf(manager->text, sizeof(manager->text), "more than %d scans", kMostScans);
  std::longjmp(manager->jump, 1);
}

void SetUp(ErrorManager* manager) {
  jpeg_std_error(&manager->base);
  manager->base.error_exit = OnError;
  manager->base.output_message = OnMessage;
  manager->base.emit_message = OnWarning;
}

class Decoder {
 public:
  Decoder() {
    info_.err = &errors_.base;
    SetUp(&errors_);
    if (setjmp(errors_.jump) != 0) Fail("cannot be read");
    jpeg_create_decompress(&info_);
    progress_ = {};
    progress_.progress_monitor = OnProgress;
    info_.progress = &progress_;
  }
  ~Decoder() { jpeg_destroy_decompress(&info_); }
  Decoder(const Decoder&) = delete;

  // Everything before the pixels; false: errors_.text says why.
  bool ReadHead(std::span<const uint8_t> file) {
    if (setjmp(errors_.jump) != 0) return false;
    jpeg_mem_src(&info_, file.data(), static_cast<unsigned long>(file.size()));
    info_.src->fill_input_buffer = [](j_decompress_ptr info) -> boolean {
      // Only behind the last row may the end be missing.
      const bool all =
          info->output_height > 0 && info->output_scanline >= info->output_height;
      if (!all) ERREXIT(info, JERR_INPUT_EOF);
      static const JOCTET kEnd[2] = {0xFF, JPEG_EOI};
      info->src->next_input_byte = kEnd;
      info->src->bytes_in_buffer = 2;
      return TRUE;
    };
    jpeg_save_markers(&info_, JPEG_APP0 + 1, 0xFFFF);
    return jpeg_read_header(&info_, TRUE) == JPEG_HEADER_OK;
  }

  int Orientation() const {
    for (jpeg_saved_marker_ptr m = info_.marker_list; m != nullptr; m = m->next) {
      if (m->marker != JPEG_APP0 + 1) continue;
      const int found = ExifOrientation({m->data, m->data_length});
      if (found != 1) return found;
    }
    return 1;
  }

  bool IsCmyk() const {
    return info_.jpeg_color_space == JCS_CMYK || info_.jpeg_color_space == JCS_YCCK;
  }

  // Sets colour space and scale, and finds the size that comes out.
  bool Prepare(const DecodeOptions& options) {
    if (setjmp(errors_.jump) != 0) return false;
    const bool stored_gray = info_.jpeg_color_space == JCS_GRAYSCALE;
    if (IsCmyk()) {
      info_.out_color_space = JCS_CMYK;
    } else if (options.channels == Channels::kGray ||
               (stored_gray && options.channels == Channels::kAsStored)) {
      info_.out_color_space = JCS_GRAYSCALE;
    } else {
      info_.out_color_space = options.red_first ? JCS_EXT_RGB : JCS_EXT_BGR;
    }
    info_.scale_denom = 8;
    info_.scale_num = 8;
    if (options.shorter_edge > 0) {
      const int64_t edge = std::min(info_.image_height, info_.image_width);
      // Other fractions than these are decoded without vector code.
      while (info_.scale_num > 1 &&
             edge * (info_.scale_num / 2) >= options.shorter_edge * 8)
        info_.scale_num /= 2;
    }
    jpeg_calc_output_dimensions(&info_);
    return true;
  }

  bool ReadRows(uint8_t* to, int64_t row_bytes) {
    if (setjmp(errors_.jump) != 0) return false;
    jpeg_start_decompress(&info_);
    while (info_.output_scanline < info_.output_height) {
      JSAMPROW rows[4];
      for (int i = 0; i < 4; ++i) {
        const auto at = static_cast<int64_t>(info_.output_scanline) + i;
        rows[i] = to + std::min<int64_t>(at, info_.output_height - 1) * row_bytes;
      }
      const unsigned left = info_.output_height - info_.output_scanline;
      jpeg_read_scanlines(&info_, rows, std::min(left, 4u));
    }
    // Not jpeg_finish_decompress: what follows the pixels is of no interest.
    return true;
  }

  // A part of the rows and columns, by a row of scratch memory that is large enough.
  // With as much around them as the pixels at the edge depend on.
  bool ReadRegion(const DecodeOptions& options, uint8_t* scratch, uint8_t* to) {
    constexpr int64_t kAround = 16;
    if (setjmp(errors_.jump) != 0) return false;
    const auto& r = options.region;
    jpeg_start_decompress(&info_);
    const int64_t left = std::max<int64_t>(r.x - kAround, 0);
    const int64_t right =
        std::min<int64_t>(r.x + r.width + kAround, info_.output_width);
    auto begin = static_cast<JDIMENSION>(left);
    auto width = static_cast<JDIMENSION>(right - left);
    jpeg_crop_scanline(&info_, &begin, &width);
    const int64_t top = std::max<int64_t>(r.y - kAround, 0);
    if (top > 0) jpeg_skip_scanlines(&info_, static_cast<JDIMENSION>(top));
    const int64_t pixel = info_.out_color_components;
    while (static_cast<int64_t>(info_.output_scanline) < r.y + r.height) {
      const int64_t row = info_.output_scanline;
      jpeg_read_scanlines(&info_, &scratch, 1);
      if (row < r.y) continue;
      std::memcpy(to + (row - r.y) * r.width * pixel,
                  scratch + (r.x - static_cast<int64_t>(begin)) * pixel,
                  static_cast<size_t>(r.width * pixel));
    }
    return true;
  }

  const jpeg_decompress_struct& info() const { return info_; }
  [[noreturn]] void Fail(const char* what) const {
    plait::Fail(ErrorKind::kValue, "image: the JPEG ", what, ": ", errors_.text);
  }

 private:
  ErrorManager errors_;
  jpeg_decompress_struct info_ = {};
  jpeg_progress_mgr progress_;
};

// Inverted, as Adobe's programs write it and as everybody reads it.
void CmykToColour(const uint8_t* x, int64_t pixels, const DecodeOptions& options,
                  uint8_t* y) {
  const bool gray = options.channels == Channels::kGray;
  for (int64_t i = 0; i < pixels; ++i, x += 4) {
    const int k = x[3];
    const int r = k - ((255 - x[0]) * k >> 8), g = k - ((255 - x[1]) * k >> 8),
              b = k - ((255 - x[2]) * k >> 8);
    if (gray) {
      *y++ = static_cast<uint8_t>((r * 4899 + g * 9617 + b * 1868 + 8192) >> 14);
    } else {
      *y++ = static_cast<uint8_t>(options.red_first ? r : b);
      *y++ = static_cast<uint8_t>(g);
      *y++ = static_cast<uint8_t>(options.red_first ? b : r);
    }
  }
}

void DecodeJpeg(std::span<const uint8_t> file, const DecodeOptions& options,
                const Place& place) {
  Decoder decoder;
  if (!decoder.ReadHead(file)) decoder.Fail("has a damaged head");
  CheckSize("JPEG", decoder.info().image_height, decoder.info().image_width, options);
  CheckRoom("JPEG", file.size(),
            int64_t{decoder.info().image_height} * decoder.info().image_width,
            kMostPerByte);
  if (!decoder.Prepare(options)) decoder.Fail("is of an unknown kind");
  const int64_t height = decoder.info().output_height,
                width = decoder.info().output_width;
  const int stored = decoder.info().out_color_components;
  const bool cmyk = decoder.IsCmyk();
  const int channels = !cmyk ? stored : (options.channels == Channels::kGray ? 1 : 3);
  const int orientation = options.orient ? decoder.Orientation() : 1;

  const bool turned = Transposes(orientation);
  auto* to = static_cast<uint8_t*>(place({.height = turned ? width : height,
                                          .width = turned ? height : width,
                                          .channels = channels}));
  if (orientation == 1 && !cmyk) {
    if (!decoder.ReadRows(to, width * stored)) decoder.Fail("is damaged or cut off");
    return;
  }
  std::vector<uint8_t> raw(static_cast<size_t>(height * width * stored));
  if (!decoder.ReadRows(raw.data(), width * stored))
    decoder.Fail("is damaged or cut off");
  if (cmyk) {
    std::vector<uint8_t> colour(static_cast<size_t>(height * width * channels));
    CmykToColour(raw.data(), height * width, options, colour.data());
    raw = std::move(colour);
  }
  Orient(raw.data(), height, width, channels, orientation, to);
}

bool DecodeJpegRegion(std::span<const uint8_t> file, const DecodeOptions& options,
                      const Place& place) {
  Decoder decoder;
  if (!decoder.ReadHead(file)) decoder.Fail("has a damaged head");
  CheckSize("JPEG", decoder.info().image_height, decoder.info().image_width, options);
  CheckRoom("JPEG", file.size(),
            int64_t{decoder.info().image_height} * decoder.info().image_width,
            kMostPerByte);
  if (decoder.IsCmyk()) return false;
  DecodeOptions whole = options;
  whole.shorter_edge = 0;
  if (!decoder.Prepare(whole)) decoder.Fail("is of an unknown kind");
  const int channels = decoder.info().out_color_components;
  auto* to = static_cast<uint8_t*>(place({.height = options.region.height,
                                          .width = options.region.width,
                                          .channels = channels}));
  std::vector<uint8_t> scratch(static_cast<size_t>(decoder.info().output_width) *
                               static_cast<size_t>(channels));
  if (!decoder.ReadRegion(options, scratch.data(), to))
    decoder.Fail("is damaged or cut off");
  return true;
}

Layout LayoutOfJpeg(std::span<const uint8_t> file) {
  Decoder decoder;
  if (!decoder.ReadHead(file)) decoder.Fail("has a damaged head");
  return {.height = decoder.info().image_height,
          .width = decoder.info().image_width,
          .channels = decoder.info().jpeg_color_space == JCS_GRAYSCALE ? 1 : 3,
          .orientation = decoder.Orientation()};
}

// The library's own buffer; released whatever happens.
struct Output {
  unsigned char* bytes = nullptr;
  unsigned long size = 0;
  ~Output() { std::free(bytes); }
};

bool WriteRows(jpeg_compress_struct* info, ErrorManager* errors, Output* output,
               const uint8_t* pixels, const Layout& layout,
               const EncodeOptions& options) {
  if (setjmp(errors->jump) != 0) return false;
  jpeg_create_compress(info);
  jpeg_mem_dest(info, &output->bytes, &output->size);
  info->image_height = static_cast<JDIMENSION>(layout.height);
  info->image_width = static_cast<JDIMENSION>(layout.width);
  info->input_components = layout.channels;
  info->in_color_space = layout.channels == 1 ? JCS_GRAYSCALE
                         : options.red_first  ? JCS_EXT_RGB
                                              : JCS_EXT_BGR;
  jpeg_set_defaults(info);
  jpeg_set_quality(info, options.quality, TRUE);
  jpeg_start_compress(info, TRUE);
  while (info->next_scanline < info->image_height) {
    auto* row =
        const_cast<uint8_t*>(pixels) +
        static_cast<int64_t>(info->next_scanline) * layout.width * layout.channels;
    jpeg_write_scanlines(info, &row, 1);
  }
  jpeg_finish_compress(info);
  return true;
}

std::vector<uint8_t> EncodeJpeg(const void* pixels, const Layout& layout,
                                const EncodeOptions& options) {
  Check(!layout.wide && (layout.channels == 1 || layout.channels == 3),
        "image: a JPEG of ", layout.channels, " channels and ", layout.wide ? 16 : 8,
        " bits; 1 or 3 channels of 8 bits were expected");
  Check(options.quality >= 0 && options.quality <= 100, "image: JPEG quality ",
        options.quality, "; 1 to 100 was expected");
  Check(layout.height <= JPEG_MAX_DIMENSION && layout.width <= JPEG_MAX_DIMENSION,
        "image: a JPEG of ", layout.width, " x ", layout.height, " pixels; at most ",
        JPEG_MAX_DIMENSION, " each were expected");
  ErrorManager errors;
  SetUp(&errors);
  jpeg_compress_struct info = {};
  info.err = &errors.base;
  Output output;
  const bool done = WriteRows(&info, &errors, &output,
                              static_cast<const uint8_t*>(pixels), layout, options);
  jpeg_destroy_compress(&info);
  Check(done, ErrorKind::kRuntime,
        "image: encoding a JPEG failed: ", static_cast<const char*>(errors.text));
  return {output.bytes, output.bytes + output.size};
}

[[maybe_unused]] const bool registered = RegisterCodec({
    .name = "JPEG",
    .decode = DecodeJpeg,
    .layout = LayoutOfJpeg,
    .encode = EncodeJpeg,
    .decode_region = DecodeJpegRegion,
});

}  // namespace
}  // namespace plait::image
