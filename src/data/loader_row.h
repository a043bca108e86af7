// One row of a batch: read a record, decode and augment its image, write it and its
// labels.

#ifndef PLAIT_DATA_LOADER_ROW_H_
#define PLAIT_DATA_LOADER_ROW_H_

#include <vector>

#include "data/image_loader.h"

namespace plait::data {

struct RowSource {
  uint32_t record;  // in the set
  uint64_t pass;
};

// Gives a batch its arrays, filled with zeros where no row will be.
void MakeArrays(const LoaderOptions& options, ImageBatch* batch);

// What one worker needs. Thread safety: none.
class RowMaker {
 public:
  RowMaker(const LoaderOptions& options, const RecordSet& records);

  // Throws what is wrong with the record, with its place.
  void Make(const RowSource& source, size_t row, ImageBatch* batch);

 private:
  std::span<const float> LabelsOf(const ImageRecord& record);
  void WriteLabels(const ImageRecord& record, float* to);
  Picture MakeBoxes(const ImageRecord& record, SampleRandom& random, float* labels);

  const LoaderOptions& options_;
  const RecordSet& records_;
  std::vector<RecordReader> readers_;
  std::vector<float> labels_;
};

}  // namespace plait::data

#endif  // PLAIT_DATA_LOADER_ROW_H_
