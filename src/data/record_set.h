// RecordSet: the records of one or more files, or of a part of them, and their order.

#ifndef PLAIT_DATA_RECORD_SET_H_
#define PLAIT_DATA_RECORD_SET_H_

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "data/record_reader.h"

namespace plait::data {

struct RecordSetOptions {
  std::string records;  // a file, a folder of files, or several with ';' between them
  std::string index;    // of a single file; without one its records are looked for
  std::string list;     // labels by the number of an image; empty: those of the records
  int64_t num_parts = 1, part_index = 0;
  bool skip_damage = false;  // leave damaged records out instead of throwing
};

// Thread safety: const functions from any thread.
class RecordSet {
 public:
  // Opens the files and finds the records. Throws kIo; kValue for wrong options.
  explicit RecordSet(const RecordSetOptions& options);

  size_t size() const { return places_.size(); }
  struct Place {
    uint32_t file;
    uint64_t offset;
  };
  const Place& place(size_t i) const { return places_[i]; }
  const std::vector<std::shared_ptr<const RandomFile>>& files() const { return files_; }
  int64_t skipped() const { return skipped_; }

  bool has_list() const { return has_list_; }
  // The labels of an image in the list, or null.
  const std::vector<float>* Labels(uint64_t image) const;
  // The most labels that an image of the list, or else a record, has. Reads the heads
  // of all records; damage among them is left to those who read on.
  int64_t MostLabels() const;

  // The order of a pass over all records: as they stand, or shuffled by (seed, pass).
  std::vector<uint32_t> Order(bool shuffled, uint64_t seed, uint64_t pass) const;

 private:
  void ReadIndex(const std::string& path);
  void ReadList(const std::string& path);

  std::vector<std::shared_ptr<const RandomFile>> files_;
  std::vector<Place> places_;
  std::unordered_map<uint64_t, std::vector<float>> labels_;
  bool has_list_ = false;
  int64_t skipped_ = 0;
};

// An image record taken apart; the spans point into it.
struct ImageRecord {
  uint64_t id = 0;
  float label = 0;                    // where there are no labels
  std::span<const char> labels = {};  // unaligned float32
  std::span<const uint8_t> image = {};
};
// Throws kValue where the record is too short for what it says.
ImageRecord ParseImageRecord(std::span<const char> record);

}  // namespace plait::data

#endif  // PLAIT_DATA_RECORD_SET_H_
