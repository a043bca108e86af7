// PNG by libpng.
//
// The library reports errors by a jump. Functions that it may jump out of hold nothing
// that a destructor must release; their callers do.

#include <png.h>

#include <algorithm>
#include <bit>
#include <csetjmp>
#include <cstring>
#include <string>

#include "base/error.h"
#include "image/codec.h"

namespace plait::image {
namespace {

// Of one bit each, packed by deflate to a thousandth at most.
constexpr int64_t kMostPerByte = 8 * 1032;

// What an error or a read needs to know.
struct State {
  std::span<const uint8_t> input;
  std::vector<uint8_t>* output = nullptr;
  char text[256] = "";
};

void OnError(png_structp png, png_const_charp text) {
  auto* state = static_cast<State*>(png_get_error_ptr(png));
  std::strncpy(state->text, text, sizeof(state->text) - 1);
  png_longjmp(png, 1);
}
void OnWarning(png_structp, png_const_charp) {}

void OnRead(png_structp png, png_bytep to, size_t size) {
  auto* state = static_cast<State*>(png_get_io_ptr(png));
  if (size > state->input.size()) png_error(png, "the file ends too early");
  std::memcpy(to, state->input.data(), size);
  state->input = state->input.subspan(size);
}

void OnWrite(png_structp png, png_bytep from, size_t size) {
  auto* state = static_cast<State*>(png_get_io_ptr(png));
  try {
    state->output->insert(state->output->end(), from, from + size);
    return;
  } catch (...) {
  }
  png_error(png, "out of memory");
}
void OnFlush(png_structp) {}

class Decoder {
 public:
  explicit Decoder(std::span<const uint8_t> file) {
    state_.input = file;
    png_ = png_create_read_struct(PNG_LIBPNG_VER_STRING, &state_, OnError, OnWarning);
    if (png_ != nullptr) info_ = png_create_info_struct(png_);
    Check(info_ != nullptr, ErrorKind::kMemory, "image: out of memory for a PNG");
  }
  ~Decoder() { png_destroy_read_struct(&png_, &info_, nullptr); }
  Decoder(const Decoder&) = delete;

  bool ReadHead() {
    if (setjmp(png_jmpbuf(png_)) != 0) return false;
    png_set_read_fn(png_, &state_, OnRead);
    // Sizes are compared with our own limit; chunks that are no pixels stay small.
    png_set_user_limits(png_, 0x7fffffff, 0x7fffffff);
    png_set_chunk_malloc_max(png_, 8 << 20);
    png_read_info(png_, info_);
    return true;
  }

  // What is stored, with palettes as the colours that they stand for.
  Layout Stored() const {
    const int type = png_get_color_type(png_, info_);
    const bool transparent = png_get_valid(png_, info_, PNG_INFO_tRNS) != 0;
    const bool alpha = (type & PNG_COLOR_MASK_ALPHA) != 0 || transparent;
    const bool colour = (type & PNG_COLOR_MASK_COLOR) != 0;
    return {.height = png_get_image_height(png_, info_),
            .width = png_get_image_width(png_, info_),
            .channels = alpha    ? 4
                        : colour ? 3
                                 : 1,
            .wide = png_get_bit_depth(png_, info_) == 16};
  }

  // Asks for the channels and the width of `layout`.
  bool Prepare(const Layout& layout, bool red_first) {
    if (setjmp(png_jmpbuf(png_)) != 0) return false;
    const int type = png_get_color_type(png_, info_);
    if (type == PNG_COLOR_TYPE_PALETTE) png_set_palette_to_rgb(png_);
    if ((type & PNG_COLOR_MASK_COLOR) == 0 && png_get_bit_depth(png_, info_) < 8)
      png_set_expand_gray_1_2_4_to_8(png_);
    if (layout.channels == 4) {
      png_set_tRNS_to_alpha(png_);
    } else {
      png_set_strip_alpha(png_);
    }
    if (layout.channels == 1) {
      png_set_rgb_to_gray(png_, 1, 0.299, 0.587);
    } else {
      if ((type & PNG_COLOR_MASK_COLOR) == 0) png_set_gray_to_rgb(png_);
      if (!red_first) png_set_bgr(png_);
    }
    if (!layout.wide) {
      png_set_strip_16(png_);
    } else if (std::endian::native == std::endian::little) {
      png_set_swap(png_);
    }
    png_set_interlace_handling(png_);
    png_read_update_info(png_, info_);
    return true;
  }

  bool ReadRows(uint8_t** rows, int64_t row_bytes) {
    if (setjmp(png_jmpbuf(png_)) != 0) return false;
    if (png_get_rowbytes(png_, info_) != static_cast<size_t>(row_bytes))
      png_error(png_, "rows of an unexpected length");
    png_read_image(png_, rows);
    return true;
  }

  [[noreturn]] void Fail(const char* what) const {
    plait::Fail(ErrorKind::kValue, "image: the PNG ", what, ": ",
                static_cast<const char*>(state_.text));
  }

 private:
  State state_;
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
};

void DecodePng(std::span<const uint8_t> file, const DecodeOptions& options,
               const Place& place) {
  Decoder decoder(file);
  if (!decoder.ReadHead()) decoder.Fail("has a damaged head");
  Layout layout = decoder.Stored();
  CheckSize("PNG", layout.height, layout.width, options);
  CheckRoom("PNG", file.size(), layout.height * layout.width, kMostPerByte);
  if (options.channels != Channels::kAsStored) {
    layout.wide = false;
    layout.channels = options.channels == Channels::kGray ? 1 : 3;
  }
  if (!decoder.Prepare(layout, options.red_first))
    decoder.Fail("is of an unknown kind");
  auto* to = static_cast<uint8_t*>(place(layout));
  const int64_t row_bytes = layout.bytes() / layout.height;
  std::vector<uint8_t*> rows(static_cast<size_t>(layout.height));
  for (size_t i = 0; i < rows.size(); ++i)
    rows[i] = to + static_cast<int64_t>(i) * row_bytes;
  if (!decoder.ReadRows(rows.data(), row_bytes)) decoder.Fail("is damaged or cut off");
}

Layout LayoutOfPng(std::span<const uint8_t> file) {
  Decoder decoder(file);
  if (!decoder.ReadHead()) decoder.Fail("has a damaged head");
  return decoder.Stored();
}

bool WriteImage(png_structp png, png_infop info, State* state, uint8_t** rows,
                const Layout& layout, const EncodeOptions& options) {
  if (setjmp(png_jmpbuf(png)) != 0) return false;
  png_set_write_fn(png, state, OnWrite, OnFlush);
  const int type = layout.channels == 1   ? PNG_COLOR_TYPE_GRAY
                   : layout.channels == 3 ? PNG_COLOR_TYPE_RGB
                                          : PNG_COLOR_TYPE_RGB_ALPHA;
  png_set_IHDR(png, info, static_cast<png_uint_32>(layout.width),
               static_cast<png_uint_32>(layout.height), layout.wide ? 16 : 8, type,
               PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT,
               PNG_FILTER_TYPE_DEFAULT);
  png_set_compression_level(png, options.compression);
  png_write_info(png, info);
  if (layout.channels > 1 && !options.red_first) png_set_bgr(png);
  if (layout.wide && std::endian::native == std::endian::little) png_set_swap(png);
  png_write_image(png, rows);
  png_write_end(png, info);
  return true;
}

std::vector<uint8_t> EncodePng(const void* pixels, const Layout& layout,
                               const EncodeOptions& options) {
  Check(layout.channels == 1 || layout.channels == 3 || layout.channels == 4,
        "image: a PNG of ", layout.channels, " channels; 1, 3 or 4 were expected");
  Check(options.compression >= 0 && options.compression <= 9, "image: PNG compression ",
        options.compression, "; 0 to 9 was expected");
  std::vector<uint8_t> output;
  State state;
  state.output = &output;
  png_structp png =
      png_create_write_struct(PNG_LIBPNG_VER_STRING, &state, OnError, OnWarning);
  png_infop info = png == nullptr ? nullptr : png_create_info_struct(png);
  Check(info != nullptr, ErrorKind::kMemory, "image: out of memory for a PNG");
  const int64_t row_bytes = layout.bytes() / layout.height;
  std::vector<uint8_t*> rows(static_cast<size_t>(layout.height));
  auto* from = static_cast<uint8_t*>(const_cast<void*>(pixels));
  for (size_t i = 0; i < rows.size(); ++i)
    rows[i] = from + static_cast<int64_t>(i) * row_bytes;
  const bool done = WriteImage(png, info, &state, rows.data(), layout, options);
  png_destroy_write_struct(&png, &info);
  Check(done, ErrorKind::kRuntime,
        "image: encoding a PNG failed: ", static_cast<const char*>(state.text));
  return output;
}

[[maybe_unused]] const bool registered = RegisterCodec({
    .name = "PNG",
    .decode = DecodePng,
    .layout = LayoutOfPng,
    .encode = EncodePng,
});

}  // namespace
}  // namespace plait::image
