// Files: reading a whole file, and writing one so that a failure leaves the old one.

#ifndef PLAIT_BASE_FILE_H_
#define PLAIT_BASE_FILE_H_

#include <cstdio>
#include <span>
#include <string>
#include <vector>

namespace plait {

// A file mapped into memory for reading; throws kIo. Pages are read when touched.
class MappedFile {
 public:
  explicit MappedFile(const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const char> bytes() const { return {data_, size_}; }

 private:
  const char* data_ = nullptr;
  size_t size_ = 0;
};

// Writes beside `path` and renames in Commit, so that readers see the old file or the
// whole new one. Without Commit the new one is removed. Throws kIo.
class AtomicFile {
 public:
  explicit AtomicFile(const std::string& path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void Write(const void* data, size_t bytes);
  void Commit();

 private:
  const std::string path_, aside_;
  std::FILE* file_;
};

}  // namespace plait

#endif  // PLAIT_BASE_FILE_H_
