// ScanRecords: walks from head to head, without reading what lies between them.

#include <algorithm>

#include "base/error.h"
#include "data/record_index.h"

namespace plait::data {
namespace {

// A window on the file that is as large as the records are near to each other.
class HeadWindow {
 public:
  explicit HeadWindow(const RandomFile& file) : file_(file) {}

  // The head at an offset; nothing where fewer than eight bytes are left.
  std::optional<PartHead> At(uint64_t offset) {
    if (offset < begin_ || offset + kHeadSize > begin_ + size_) {
      const bool near = offset - begin_ < 2 * sizeof(bytes_);
      begin_ = offset;
      size_ = file_.Read(offset, bytes_, near ? sizeof(bytes_) : kHeadSize);
      if (size_ < kHeadSize) return std::nullopt;
    }
    return ReadHead(bytes_ + (offset - begin_));
  }

 private:
  const RandomFile& file_;
  char bytes_[16384];
  uint64_t begin_ = 0;
  size_t size_ = 0;
};

bool Begins(const PartHead& head) {
  return head.sound && (head.kind == PartKind::kWhole || head.kind == PartKind::kFirst);
}

}  // namespace

std::vector<uint64_t> ScanRecords(const RandomFile& file, uint64_t first, uint64_t last,
                                  int64_t* skipped) {
  std::vector<uint64_t> found;
  const uint64_t size = file.size();
  RecordReader search(std::shared_ptr<const RandomFile>(&file, [](const auto*) {}));
  // The first head at or behind an offset; the size of the file where there is none.
  const auto next_head = [&](uint64_t offset) {
    search.Seek(offset < 4 ? 0 : Padded(offset) - 4);
    return search.Recover() ? search.offset() : size;
  };
  uint64_t at = first == 0 ? 0 : next_head(first);
  HeadWindow window(file);
  bool inside = false;  // a record whose first part was seen
  while (at < size && (at < last || inside)) {
    const std::optional<PartHead> head = window.At(at);
    const bool begins = head && Begins(*head);
    const bool sound = head && head->sound && begins != inside &&
                       head->length <= size - at - kHeadSize;
    if (!sound) {
      Check(skipped != nullptr, ErrorKind::kIo, "record file: ", file.path(),
            ": at offset ", at, " (record ", found.size(), "): ",
            "no whole record stands here; the file is damaged, cut off, or no record "
            "file");
      ++*skipped;
      if (inside) found.pop_back();
      inside = false;
      at = next_head(at + 4);
      continue;
    }
    if (begins) found.push_back(at);
    inside = head->kind == PartKind::kFirst || head->kind == PartKind::kMiddle;
    at += kHeadSize + Padded(head->length);
  }
  if (inside) {
    Check(skipped != nullptr, ErrorKind::kIo, "record file: ", file.path(),
          ": at offset ", found.back(), " (record ", found.size() - 1,
          "): the file ends inside the record");
    ++*skipped;
    found.pop_back();
  }
  return found;
}

}  // namespace plait::data
