// RecordWriter: cuts records at the magic, and buffers short writes.

#include "data/record_writer.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"

namespace plait::data {
namespace {

constexpr size_t kBuffer = size_t{256} << 10;

[[noreturn]] void FailIo(const std::string& path, const char* what) {
  Fail(ErrorKind::kIo, "record file: ", path, ": ", what, ": ", std::strerror(errno));
}

// The first word at or behind `from` (counted in words) that is the magic, or `words`.
size_t FindMagic(const char* bytes, size_t from, size_t words) {
  const auto word = [&](size_t i) {
    uint32_t w;
    std::memcpy(&w, bytes + 4 * i, 4);
    return w;
  };
  constexpr size_t kBlock = 64;  // without an exit inside, so that it is vector code
  for (; from + kBlock <= words; from += kBlock) {
    uint32_t hits = 0;
    for (size_t i = 0; i < kBlock; ++i)
      hits |= static_cast<uint32_t>(word(from + i) == kRecordMagic);
    if (hits != 0) break;
  }
  while (from < words && word(from) != kRecordMagic) ++from;
  return from;
}

}  // namespace

RecordWriter::RecordWriter(const std::string& path, Mode mode)
    : path_(path),
      fd_(::open(path.c_str(),
                 O_WRONLY | O_CREAT | O_CLOEXEC | (mode == Mode::kNew ? O_TRUNC : 0),
                 0666)) {
  if (fd_ < 0) FailIo(path_, "cannot be written");
  if (mode == Mode::kNew) return;
  const off_t end = ::lseek(fd_, 0, SEEK_END);
  if (end < 0 || end % 4 != 0) {
    ::close(fd_);
    Fail(
        ErrorKind::kIo, "record file: ", path_, ": has ", end,
        " bytes, which is no multiple of four; its last record is damaged, nothing can "
        "be appended");
  }
  written_ = static_cast<uint64_t>(end);
}

RecordWriter::~RecordWriter() {
  try {
    Close();
  } catch (const Error&) {
  }
}

void RecordWriter::Send(const char* bytes, size_t size) {
  while (size > 0) {
    const ssize_t n = ::write(fd_, bytes, size);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) FailIo(path_, "cannot be written");
    bytes += n;
    size -= static_cast<size_t>(n);
    written_ += static_cast<uint64_t>(n);
  }
}

void RecordWriter::Put(const char* bytes, size_t size) {
  if (buffer_.size() + size > kBuffer) Flush();
  if (size >= kBuffer) {
    Send(bytes, size);
  } else {
    buffer_.insert(buffer_.end(), bytes, bytes + size);
  }
}

void RecordWriter::WritePart(PartKind kind, std::span<const char> bytes) {
  char head[kHeadSize];
  WriteHead(head, kind, bytes.size());
  Put(head, kHeadSize);
  Put(bytes.data(), bytes.size());
  constexpr char kZeros[4] = {};
  Put(kZeros, Padded(bytes.size()) - bytes.size());
}

void RecordWriter::Write(std::span<const char> record) {
  Check(fd_ >= 0, ErrorKind::kRuntime, "record file: ", path_, ": is closed");
  Check(record.size() <= kMostPart, "record file: ", path_, ": a record of ",
        record.size(), " bytes; at most ", kMostPart, " were expected");
  const size_t words = record.size() / 4;
  size_t begin = 0, magic = FindMagic(record.data(), 0, words);
  while (magic < words) {
    const size_t end = 4 * magic;
    WritePart(begin == 0 ? PartKind::kFirst : PartKind::kMiddle,
              record.subspan(begin, end - begin));
    begin = end + 4;
    magic = FindMagic(record.data(), magic + 1, words);
  }
  WritePart(begin == 0 ? PartKind::kWhole : PartKind::kLast, record.subspan(begin));
}

void RecordWriter::Flush() {
  const size_t before = written_;
  try {
    Send(buffer_.data(), buffer_.size());
  } catch (const Error&) {
    buffer_.erase(buffer_.begin(), buffer_.begin() + (written_ - before));
    throw;
  }
  buffer_.clear();
}

void RecordWriter::Close() {
  if (fd_ < 0) return;
  try {
    Flush();
  } catch (const Error&) {
    Abandon();
    throw;
  }
  if (::close(std::exchange(fd_, -1)) != 0) FailIo(path_, "cannot be closed");
}

void RecordWriter::Abandon() {
  buffer_.clear();
  if (fd_ >= 0) ::close(std::exchange(fd_, -1));
}

}  // namespace plait::data
