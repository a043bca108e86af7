// RecordIndex: the text file beside a record file that says where each key's record is.
//
// A line is `KEY<tab>OFFSET`. Keys are whole numbers here; other keys are the business
// of the host language, which reads the file by itself.
// Thread safety: const functions from any thread.

#ifndef PLAIT_DATA_RECORD_INDEX_H_
#define PLAIT_DATA_RECORD_INDEX_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "data/record_reader.h"

namespace plait::data {

class RecordIndex {
 public:
  // Reads the file; throws kIo with the file and the line that is wrong.
  explicit RecordIndex(const std::string& path);

  // The offset of a key's record; where a key stands twice, the later one.
  std::optional<uint64_t> Find(int64_t key) const;

  // In the order of the file.
  const std::vector<int64_t>& keys() const { return keys_; }
  const std::vector<uint64_t>& offsets() const { return offsets_; }

 private:
  std::vector<int64_t> keys_;
  std::vector<uint64_t> offsets_;
  std::vector<size_t> order_;  // places in ascending order of keys; empty: as they are
};

// The offsets of all records that begin in [first, last) of a file, found by walking
// from head to head; `first` may be anywhere, the next head counts. Damage: a kIo
// error, or with `skipped` it is passed over and counted there.
std::vector<uint64_t> ScanRecords(const RandomFile& file, uint64_t first, uint64_t last,
                                  int64_t* skipped = nullptr);

}  // namespace plait::data

#endif  // PLAIT_DATA_RECORD_INDEX_H_
