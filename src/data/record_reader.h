// RecordReader: reads record files, one record after the other or from an offset.
//
// Errors are of kIo and name the file, the offset of the record and its number where
// that is known. After an error the reader stands before the damaged record; Recover
// goes on behind it. A file that grows may be read; one that shrinks gives an error.
//
// Thread safety: none; readers of one file do not disturb each other, not even after a
// fork, as the position in the file belongs to the reader.

#ifndef PLAIT_DATA_RECORD_READER_H_
#define PLAIT_DATA_RECORD_READER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/record_format.h"

namespace plait::data {

// An open file that is read at offsets. Thread safety: any thread.
class RandomFile {
 public:
  explicit RandomFile(const std::string& path);  // throws kIo
  ~RandomFile();
  RandomFile(const RandomFile&) = delete;
  RandomFile& operator=(const RandomFile&) = delete;

  // Reads up to `bytes` bytes; fewer only at the end of the file.
  size_t Read(uint64_t offset, char* to, size_t bytes) const;
  uint64_t size() const;  // now
  const std::string& path() const { return path_; }

 private:
  const std::string path_;
  int fd_;
};

class RecordReader {
 public:
  explicit RecordReader(const std::string& path);
  explicit RecordReader(std::shared_ptr<const RandomFile> file);

  // The next record, valid until the next call; nothing at the end of the file.
  std::optional<std::span<const char>> Next();

  // The same in two steps, for a caller that brings the memory: the size of the next
  // record, and its bytes. Between the two nothing else may be called.
  std::optional<size_t> NextSize();
  void Take(char* to);

  // The next record is in memory: neither of the two would read the file or throw.
  bool Ready() const {
    if (have() < kHeadSize) return false;
    const PartHead head = ReadHead(buffer_.data() + begin_);
    return head.sound && head.kind == PartKind::kWhole &&
           have() - kHeadSize >= head.length;
  }

  // The offset of the next record. Seek may go anywhere; the next read finds out.
  uint64_t offset() const { return position_ + begin_; }
  void Seek(uint64_t offset);

  // Goes to the first record behind the current offset, over damage; false: none.
  bool Recover();

  const RandomFile& file() const { return *file_; }

 private:
  size_t have() const { return end_ - begin_; }
  bool Fill(size_t bytes);
  void MoveTo(uint64_t offset);
  PartHead CheckedHead(uint64_t at, const char* bytes, bool first) const;
  void CheckRoom(uint64_t at, size_t length) const;
  void Join(size_t length);
  [[noreturn]] void Damaged(uint64_t at, const std::string& what) const;

  const std::shared_ptr<const RandomFile> file_;
  std::vector<char> buffer_;  // holds [begin_, end_) of the file from position_ on
  size_t begin_ = 0, end_ = 0;
  uint64_t position_ = 0;  // file offset of the buffer's start
  size_t window_ = 1024;   // read last
  size_t length_ = 0;      // of the record that NextSize found
  bool joined_ = false;    // it had several parts and stands in whole_
  uint64_t after_ = 0;     // offset behind a joined record
  std::vector<char> whole_;
  int64_t number_ = 0;  // of the next record; -1: unknown
};

}  // namespace plait::data

#endif  // PLAIT_DATA_RECORD_READER_H_
