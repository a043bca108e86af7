// ByteReader: takes numbers and arrays from bytes that may be cut short or hostile.

#ifndef PLAIT_NDARRAY_BYTE_READER_H_
#define PLAIT_NDARRAY_BYTE_READER_H_

#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"

namespace plait {

// Whether a text is UTF-8 as Python reads it: shortest forms only, no surrogates.
inline bool IsUtf8(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    const auto byte = [&](size_t k) { return static_cast<unsigned char>(text[k]); };
    const unsigned first = byte(i);
    const size_t more = first < 0x80            ? 0
                        : first >> 5 == 0b110   ? 1
                        : first >> 4 == 0b1110  ? 2
                        : first >> 3 == 0b11110 ? 3
                                                : text.size();
    if (i + more >= text.size()) return false;
    unsigned code = more == 0 ? first : first & (0x3Fu >> more);
    for (size_t k = 1; k <= more; ++k) {
      if (byte(i + k) >> 6 != 0b10) return false;
      code = code << 6 | (byte(i + k) & 0x3F);
    }
    constexpr unsigned kLeast[] = {0, 0x80, 0x800, 0x10000};
    if (code < kLeast[more] || code > 0x10FFFF || code >> 11 == 0xD800 >> 11)
      return false;
    i += more + 1;
  }
  return true;
}

class ByteReader {
 public:
  ByteReader(std::span<const char> bytes, const std::string& source)
      : bytes_(bytes), source_(source) {}

  size_t offset() const { return offset_; }
  size_t left() const { return bytes_.size() - offset_; }

  template <typename T>
  T Take(const char* what) {
    T value;
    std::memcpy(&value, TakeBytes(sizeof(T), what), sizeof(T));
    return value;
  }
  const char* TakeBytes(size_t n, const char* what) {
    if (n > left()) Bad("ends inside ", what);
    const char* data = bytes_.data() + offset_;
    offset_ += n;
    return data;
  }

  std::string TakeText(size_t n, const char* what) {
    std::string text(TakeBytes(n, what), n);
    if (!IsUtf8(text)) Bad("has ", what, " that is not UTF-8");
    return text;
  }

  template <typename... Parts>
  [[noreturn]] void Bad(const Parts&... parts) const {
    Fail(ErrorKind::kIo, "load: ", source_, ": at byte ", offset_, " the file ",
         parts...);
  }
  // For what is sound, but not to be had here.
  template <typename... Parts>
  [[noreturn]] void Unsupported(const Parts&... parts) const {
    Fail(ErrorKind::kNotImplemented, "load: ", source_, ": at byte ", offset_,
         " the file ", parts...);
  }

 private:
  std::span<const char> bytes_;
  size_t offset_ = 0;
  const std::string& source_;
};

}  // namespace plait

#endif  // PLAIT_NDARRAY_BYTE_READER_H_
