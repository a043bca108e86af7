// RecordReader: a window on the file; what is longer is read straight to its place.

#include "data/record_reader.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"

namespace plait::data {
namespace {

// What is read at once: little after a jump, then more. The most stays in the
// second-level cache, and few calls of the system and few moves of bytes are needed.
constexpr size_t kLeastWindow = size_t{4} << 10, kMostWindow = size_t{1} << 20;

}  // namespace

RecordReader::RecordReader(const std::string& path)
    : RecordReader(std::make_shared<const RandomFile>(path)) {}
RecordReader::RecordReader(std::shared_ptr<const RandomFile> file)
    : file_(std::move(file)) {}

void RecordReader::Damaged(uint64_t at, const std::string& what) const {
  std::string which;
  if (number_ >= 0) which = " (record " + std::to_string(number_) + ")";
  Fail(ErrorKind::kIo, "record file: ", file_->path(), ": at offset ", at, which, ": ",
       what);
}

// At least `bytes` bytes behind begin_, if the file has them.
bool RecordReader::Fill(size_t bytes) {
  if (have() >= bytes) return true;
  window_ = std::min(4 * window_, kMostWindow);
  const size_t want = std::max(bytes, window_);
  if (begin_ > 0) std::memmove(buffer_.data(), buffer_.data() + begin_, have());
  position_ += begin_;
  end_ -= begin_;
  begin_ = 0;
  if (buffer_.size() < want) buffer_.resize(want);
  end_ += file_->Read(position_ + end_, buffer_.data() + end_, want - end_);
  return end_ >= bytes;
}

void RecordReader::MoveTo(uint64_t offset) {
  if (offset >= position_ && offset <= position_ + end_) {
    begin_ = offset - position_;
  } else {
    position_ = offset;
    begin_ = end_ = 0;
  }
}

void RecordReader::Seek(uint64_t offset) {
  MoveTo(offset);
  if (have() == 0) window_ = kLeastWindow / 4;
  number_ = offset == 0 ? 0 : -1;
}

PartHead RecordReader::CheckedHead(uint64_t at, const char* bytes, bool first) const {
  const PartHead head = ReadHead(bytes);
  if (!head.sound)
    Damaged(at, "no record begins here; the file is damaged, or it is no record file");
  const bool begins = head.kind == PartKind::kWhole || head.kind == PartKind::kFirst;
  if (begins != first) {
    Damaged(at, first ? "this is the middle of a record; its begin was expected"
                      : "a record begins where the rest of another was expected");
  }
  return head;
}

// Before memory is taken for a length that damage may have made.
void RecordReader::CheckRoom(uint64_t at, size_t length) const {
  const uint64_t size = file_->size();
  if (at + kHeadSize > size || length > size - at - kHeadSize) {
    Damaged(at, "the record needs " + std::to_string(length) +
                    " bytes, but the file ends at " + std::to_string(size) +
                    "; it is cut off or damaged");
  }
}

std::optional<size_t> RecordReader::NextSize() {
  if (!Fill(kHeadSize)) {
    if (have() == 0) {
      const uint64_t size = file_->size();
      if (offset() > Padded(size))  // the last zeros may be missing
        Damaged(offset(),
                "the offset is behind the file's end at " + std::to_string(size));
      return std::nullopt;
    }
    Damaged(offset(), "only " + std::to_string(have()) +
                          " bytes are left; the file is cut off or damaged");
  }
  const PartHead head = CheckedHead(offset(), buffer_.data() + begin_, true);
  if (have() < kHeadSize + head.length) CheckRoom(offset(), head.length);
  joined_ = head.kind == PartKind::kFirst;
  length_ = head.length;
  if (joined_) Join(head.length);
  return length_;
}

// Puts the parts of a record together in whole_.
void RecordReader::Join(size_t length) {
  uint64_t at = offset();
  whole_.clear();
  while (true) {
    const size_t before = whole_.size();
    whole_.resize(before + length);
    const size_t got = file_->Read(at + kHeadSize, whole_.data() + before, length);
    if (got < length) CheckRoom(at, length);
    at += kHeadSize + Padded(length);
    char bytes[kHeadSize];
    if (file_->Read(at, bytes, kHeadSize) < kHeadSize)
      Damaged(offset(), "the file ends inside the record, at " + std::to_string(at));
    const PartHead head = CheckedHead(at, bytes, false);
    CheckRoom(at, head.length);
    if (whole_.size() + 4 + head.length > kMostPart)
      Damaged(offset(), "the record's parts have more bytes than a record can");
    const char* magic = reinterpret_cast<const char*>(&kRecordMagic);
    whole_.insert(whole_.end(), magic, magic + 4);
    length = head.length;
    if (head.kind == PartKind::kLast) {
      const size_t rest = whole_.size();
      whole_.resize(rest + length);
      if (file_->Read(at + kHeadSize, whole_.data() + rest, length) < length)
        CheckRoom(at, length);
      after_ = at + kHeadSize + Padded(length);
      length_ = whole_.size();
      return;
    }
  }
}

void RecordReader::Take(char* to) {
  const int64_t next = number_ < 0 ? -1 : number_ + 1;
  if (joined_) {
    std::memcpy(to, whole_.data(), length_);
    MoveTo(after_);
    number_ = next;
    return;
  }
  const uint64_t at = offset();
  const size_t near = std::min(have() - kHeadSize, length_);
  std::memcpy(to, buffer_.data() + begin_ + kHeadSize, near);
  if (near < length_) {
    const size_t got =
        file_->Read(at + kHeadSize + near, to + near, length_ - near) + near;
    if (got < length_) CheckRoom(at, length_);
  }
  MoveTo(at + kHeadSize + Padded(length_));
  number_ = next;
}

std::optional<std::span<const char>> RecordReader::Next() {
  const std::optional<size_t> size = NextSize();
  if (!size) return std::nullopt;
  const int64_t next = number_ < 0 ? -1 : number_ + 1;
  std::span<const char> record;
  if (joined_) {
    MoveTo(after_);
    record = {whole_.data(), length_};
  } else {
    if (!Fill(kHeadSize + length_)) CheckRoom(offset(), length_);
    record = {buffer_.data() + begin_ + kHeadSize, length_};
    // Some writers leave out the zeros behind the last record.
    begin_ += std::min(kHeadSize + Padded(length_), have());
  }
  number_ = next;
  return record;
}

bool RecordReader::Recover() {
  Seek(Padded(offset() + 4));
  number_ = -1;
  while (Fill(kHeadSize)) {
    for (; have() >= kHeadSize; begin_ += 4) {
      const PartHead head = ReadHead(buffer_.data() + begin_);
      if (!head.sound || head.kind == PartKind::kMiddle ||
          head.kind == PartKind::kLast) {
        continue;
      }
      return true;
    }
  }
  begin_ = end_;
  return false;
}

}  // namespace plait::data
