// RecordWriter: writes record files, byte for byte as MXNet does.
//
// Thread safety: none. Errors are of kIo and name the file.

#ifndef PLAIT_DATA_RECORD_WRITER_H_
#define PLAIT_DATA_RECORD_WRITER_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "data/record_format.h"

namespace plait::data {

class RecordWriter {
 public:
  enum class Mode { kNew, kAppend };

  // kNew empties a file that exists; kAppend goes on behind its last record.
  RecordWriter(const std::string& path, Mode mode);
  ~RecordWriter();  // closes; an error is lost, so call Close
  RecordWriter(const RecordWriter&) = delete;
  RecordWriter& operator=(const RecordWriter&) = delete;

  void Write(std::span<const char> record);

  uint64_t offset() const { return written_ + buffer_.size(); }  // of the next record
  void Flush();  // hands everything to the system
  void Close();  // Flush, and no more writes
  // Lets go of the file without writing what is buffered: in the child of a fork, where
  // that belongs to the parent.
  void Abandon();

 private:
  void WritePart(PartKind kind, std::span<const char> bytes);
  void Put(const char* bytes, size_t size);
  void Send(const char* bytes, size_t size);

  const std::string path_;
  int fd_;
  uint64_t written_ = 0;  // the file's length without the buffer
  std::vector<char> buffer_;
};

}  // namespace plait::data

#endif  // PLAIT_DATA_RECORD_WRITER_H_
