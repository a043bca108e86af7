// RandomFile by pread: the position belongs to the caller, so forks do not disturb it.

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "data/record_reader.h"

namespace plait::data {
namespace {

[[noreturn]] void FailIo(const std::string& path, const char* what) {
  Fail(ErrorKind::kIo, "record file: ", path, ": ", what, ": ", std::strerror(errno));
}

}  // namespace

RandomFile::RandomFile(const std::string& path)
    : path_(path), fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
  if (fd_ < 0) FailIo(path_, "cannot be opened");
  struct stat info;
  if (::fstat(fd_, &info) == 0 && S_ISREG(info.st_mode)) return;
  ::close(fd_);
  Fail(ErrorKind::kIo, "record file: ", path_, ": is not a regular file");
}

RandomFile::~RandomFile() {
  ::close(fd_);
}

size_t RandomFile::Read(uint64_t offset, char* to, size_t bytes) const {
  size_t done = 0;
  while (done < bytes) {
    if (offset + done > static_cast<uint64_t>(INT64_MAX)) break;
    const ssize_t n =
        ::pread(fd_, to + done, bytes - done, static_cast<off_t>(offset + done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) FailIo(path_, "cannot be read");
    if (n == 0) break;
    done += static_cast<size_t>(n);
  }
  return done;
}

uint64_t RandomFile::size() const {
  struct stat info;
  if (::fstat(fd_, &info) != 0) FailIo(path_, "cannot be examined");
  return static_cast<uint64_t>(info.st_size);
}

}  // namespace plait::data
