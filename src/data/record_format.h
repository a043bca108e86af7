// The format of record files (RecordIO): what reader, writer and scanner share.
//
// A file is a row of parts: magic, a word with kind and length, the bytes, zeros up to
// a multiple of four. A record that holds the magic at a multiple of four of its own is
// cut there into several parts; the reader puts the magic back between them.

#ifndef PLAIT_DATA_RECORD_FORMAT_H_
#define PLAIT_DATA_RECORD_FORMAT_H_

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace plait::data {

inline constexpr uint32_t kRecordMagic = 0xCED7230A;
inline constexpr size_t kHeadSize = 8;
inline constexpr size_t kMostPart = (size_t{1} << 29) - 1;  // bytes of a part

enum class PartKind : uint8_t { kWhole, kFirst, kMiddle, kLast };

struct PartHead {
  bool sound;  // the magic is there and the kind is known
  PartKind kind;
  size_t length;
};

inline PartHead ReadHead(const char* at) {
  uint32_t words[2];
  std::memcpy(words, at, sizeof(words));
  return {words[0] == kRecordMagic && words[1] >> 29 <= 3,
          static_cast<PartKind>(words[1] >> 29 & 3), words[1] & kMostPart};
}
inline void WriteHead(char* at, PartKind kind, size_t length) {
  const uint32_t words[2] = {
      kRecordMagic, static_cast<uint32_t>(kind) << 29 | static_cast<uint32_t>(length)};
  std::memcpy(at, words, sizeof(words));
}

// Length with the zeros that follow.
constexpr size_t Padded(size_t length) {
  return (length + 3) & ~size_t{3};
}

}  // namespace plait::data

#endif  // PLAIT_DATA_RECORD_FORMAT_H_
