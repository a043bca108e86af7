// ByteReader: takes numbers and arrays from bytes that may be cut short or hostile.

#ifndef PLAIT_NDARRAY_BYTE_READER_H_
#define PLAIT_NDARRAY_BYTE_READER_H_

#include <cstring>
#include <span>
#include <string>

#include "base/error.h"

namespace plait {

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

  template <typename... Parts>
  [[noreturn]] void Bad(const Parts&... parts) const {
    Fail(ErrorKind::kIo, "load: ", source_, ": at byte ", offset_, " the file ",
         parts...);
  }

 private:
  std::span<const char> bytes_;
  size_t offset_ = 0;
  const std::string& source_;
};

}  // namespace plait

#endif  // PLAIT_NDARRAY_BYTE_READER_H_
