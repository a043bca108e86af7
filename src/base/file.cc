// Files: mapping for reading, and writing aside.

#include "base/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"

namespace plait {
namespace {

[[noreturn]] void FailIo(const char* what, const std::string& path) {
  Fail(ErrorKind::kIo, what, ": ", path, ": ", std::strerror(errno));
}

}  // namespace

MappedFile::MappedFile(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) FailIo("load", path);
  struct stat info;
  if (::fstat(fd, &info) != 0 || S_ISDIR(info.st_mode)) {
    if (S_ISDIR(info.st_mode)) errno = EISDIR;
    const int error = errno;
    ::close(fd);
    errno = error;
    FailIo("load", path);
  }
  size_ = static_cast<size_t>(info.st_size);
  if (size_ > 0) {
    void* map = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, fd, 0);
    if (map == MAP_FAILED) {
      const int error = errno;
      ::close(fd);
      errno = error;
      FailIo("load", path);
    }
    data_ = static_cast<const char*>(map);
  }
  ::close(fd);
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<char*>(data_), size_);
}

AtomicFile::AtomicFile(const std::string& path)
    : path_(path),
      aside_(path + ".part" + std::to_string(::getpid())),
      file_(std::fopen(aside_.c_str(), "wbe")) {
  if (file_ == nullptr) FailIo("save", path_);
}

AtomicFile::~AtomicFile() {
  if (file_ != nullptr) {
    std::fclose(file_);
    ::unlink(aside_.c_str());
  }
}

void AtomicFile::Write(const void* data, size_t bytes) {
  if (bytes > 0 && std::fwrite(data, 1, bytes, file_) != bytes) FailIo("save", path_);
}

void AtomicFile::Commit() {
  if (std::fflush(file_) != 0 || ::fsync(::fileno(file_)) != 0) FailIo("save", path_);
  std::FILE* file = file_;
  file_ = nullptr;
  if (std::fclose(file) != 0 || std::rename(aside_.c_str(), path_.c_str()) != 0) {
    const int error = errno;
    ::unlink(aside_.c_str());
    errno = error;
    FailIo("save", path_);
  }
}

}  // namespace plait
