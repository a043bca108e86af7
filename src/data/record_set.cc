// RecordSet: files, index, list; parts; shuffling.

#include "data/record_set.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <numeric>
#include <sstream>

#include "base/error.h"
#include "data/record_index.h"
#include "data/sample_random.h"

namespace plait::data {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> FilesOf(const std::string& records) {
  std::vector<std::string> found;
  std::stringstream stream(records);
  for (std::string path; std::getline(stream, path, ';');) {
    if (path.empty()) continue;
    std::error_code error;
    if (!fs::is_directory(path, error)) {
      found.push_back(path);
      continue;
    }
    std::vector<std::string> inside;
    for (const auto& entry : fs::directory_iterator(path, error)) {
      if (entry.is_regular_file(error)) inside.push_back(entry.path().string());
    }
    std::sort(inside.begin(), inside.end());
    found.insert(found.end(), inside.begin(), inside.end());
  }
  return found;
}

// Of n, what part `index` of `parts` begins with.
uint64_t PartBegin(uint64_t n, int64_t index, int64_t parts) {
  return static_cast<uint64_t>(static_cast<unsigned __int128>(n) *
                               static_cast<uint64_t>(index) /
                               static_cast<uint64_t>(parts));
}

}  // namespace

RecordSet::RecordSet(const RecordSetOptions& o) {
  Check(o.num_parts > 0 && o.part_index >= 0 && o.part_index < o.num_parts,
        "ImageRecordIter: part_index is ", o.part_index, " of num_parts ", o.num_parts,
        "; 0 to num_parts - 1 was expected");
  const std::vector<std::string> paths = FilesOf(o.records);
  Check(!paths.empty(), ErrorKind::kIo, "ImageRecordIter: path_imgrec '", o.records,
        "' names no file");
  uint64_t total = 0;
  for (const std::string& path : paths) {
    files_.push_back(std::make_shared<const RandomFile>(path));
    total += files_.back()->size();
  }
  if (!o.list.empty()) ReadList(o.list);
  if (!o.index.empty()) {
    Check(files_.size() == 1,
          "ImageRecordIter: path_imgidx goes with one record file; ", files_.size(),
          " were given");
    ReadIndex(o.index);
    const auto first = PartBegin(places_.size(), o.part_index, o.num_parts),
               last = PartBegin(places_.size(), o.part_index + 1, o.num_parts);
    places_ = {places_.begin() + static_cast<int64_t>(first),
               places_.begin() + static_cast<int64_t>(last)};
  } else {
    // A part is a range of bytes of all files together.
    const uint64_t first = PartBegin(total, o.part_index, o.num_parts),
                   last = PartBegin(total, o.part_index + 1, o.num_parts);
    uint64_t begin = 0;
    for (uint32_t i = 0; i < files_.size(); ++i) {
      const uint64_t size = files_[i]->size(), end = begin + size;
      if (first < end && last > begin) {
        const uint64_t from = first > begin ? first - begin : 0,
                       to = std::min(last, end) - begin;
        for (const uint64_t at :
             ScanRecords(*files_[i], from, to, o.skip_damage ? &skipped_ : nullptr))
          places_.push_back({i, at});
      }
      begin = end;
    }
  }
  Check(!places_.empty(), ErrorKind::kIo, "ImageRecordIter: ", o.records, ": part ",
        o.part_index, " of ", o.num_parts, " has no records");
  Check(places_.size() <= UINT32_MAX, "ImageRecordIter: ", places_.size(),
        " records are too many");
}

void RecordSet::ReadIndex(const std::string& path) {
  const RecordIndex index(path);
  std::vector<uint64_t> offsets = index.offsets();
  std::sort(offsets.begin(), offsets.end());
  places_.reserve(offsets.size());
  for (const uint64_t at : offsets) places_.push_back({0, at});
}

void RecordSet::ReadList(const std::string& path) {
  has_list_ = true;
  const RandomFile file(path);
  std::string text(file.size(), '\0');
  text.resize(file.Read(0, text.data(), text.size()));
  std::stringstream lines(text);
  size_t number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (line.empty()) continue;
    // The path is last and may hold blanks; what stands before it is numbers.
    const size_t tab = line.rfind('\t');
    std::stringstream fields(line.substr(0, tab));
    uint64_t image = 0;
    std::vector<float> labels;
    fields >> image;
    bool sound = !fields.fail() && tab != std::string::npos;
    for (std::string field; sound && fields >> field;) {
      double value = 0;
      const auto [end, error] =
          std::from_chars(field.data(), field.data() + field.size(), value);
      sound = error == std::errc() && end == field.data() + field.size();
      labels.push_back(static_cast<float>(value));
      // The number of a class must not become that of another.
      Check(!sound || labels.back() == value || std::trunc(value) != value ||
                std::abs(value) >= 0x1p53,
            "image list: ", path, ": line ", number, ": label ", field,
            " is no float32 number, as which it would be read");
    }
    Check(sound && !labels.empty(), ErrorKind::kIo, "image list: ", path, ": line ",
          number,
          " is wrong; a number, labels and a path, with tabs between them, were "
          "expected");
    labels_[image] = std::move(labels);
  }
}

const std::vector<float>* RecordSet::Labels(uint64_t image) const {
  const auto it = labels_.find(image);
  return it == labels_.end() ? nullptr : &it->second;
}

int64_t RecordSet::MostLabels() const {
  size_t most = 0;
  if (has_list_) {
    for (const auto& [image, labels] : labels_) most = std::max(most, labels.size());
    return static_cast<int64_t>(most);
  }
  for (const Place& place : places_) {
    char head[kHeadSize + sizeof(uint32_t)];
    if (files_[place.file]->Read(place.offset, head, sizeof(head)) < sizeof(head))
      continue;
    const PartHead part = ReadHead(head);
    uint32_t labels;
    std::memcpy(&labels, head + kHeadSize, sizeof(labels));
    if (part.sound && size_t{4} * labels <= part.length)
      most = std::max(most, size_t{labels});
  }
  return static_cast<int64_t>(most);
}

std::vector<uint32_t> RecordSet::Order(bool shuffled, uint64_t seed,
                                       uint64_t pass) const {
  std::vector<uint32_t> order(places_.size());
  std::iota(order.begin(), order.end(), 0u);
  if (!shuffled) return order;
  SampleRandom random(seed, pass, UINT64_MAX);
  for (size_t i = order.size() - 1; i > 0; --i) {
    const auto j = static_cast<size_t>(random.Whole(0, static_cast<int64_t>(i)));
    std::swap(order[i], order[j]);
  }
  return order;
}

ImageRecord ParseImageRecord(std::span<const char> record) {
  constexpr size_t kHeader = 24;
  Check(record.size() >= kHeader, "an image record of ", record.size(),
        " bytes; at least ", kHeader, " were expected");
  uint32_t flag;
  ImageRecord parsed;
  std::memcpy(&flag, record.data(), 4);
  std::memcpy(&parsed.label, record.data() + 4, 4);
  std::memcpy(&parsed.id, record.data() + 8, 8);
  record = record.subspan(kHeader);
  const size_t labels = size_t{4} * flag;
  Check(record.size() >= labels, "an image record of ", record.size() + kHeader,
        " bytes says that it has ", flag, " labels");
  parsed.labels = record.first(labels);
  record = record.subspan(labels);
  parsed.image = {reinterpret_cast<const uint8_t*>(record.data()), record.size()};
  return parsed;
}

}  // namespace plait::data
