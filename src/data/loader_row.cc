// RowMaker: the work of a thread of an ImageLoader.

#include "data/loader_row.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"

namespace plait::data {

void MakeArrays(const LoaderOptions& o, ImageBatch* batch) {
  const AugmentOptions& a = o.augment;
  batch->data = NDArray::Empty({o.batch_size, a.channels, a.height, a.width}, o.dtype);
  const bool flat = o.label_width == 1 && !o.detection;
  batch->label =
      NDArray::Empty(flat ? Shape{o.batch_size} : Shape{o.batch_size, o.label_width});
  batch->ids.assign(static_cast<size_t>(o.batch_size), 0);
  if (batch->pad == 0 || o.round_batch) return;
  for (const NDArray& array : {batch->data, batch->label}) {
    const int64_t row = array.nbytes() / o.batch_size;
    std::memset(static_cast<char*>(array.data()) + (o.batch_size - batch->pad) * row, 0,
                static_cast<size_t>(batch->pad * row));
  }
}

RowMaker::RowMaker(const LoaderOptions& options, const RecordSet& records)
    : options_(options), records_(records) {
  for (const auto& file : records.files()) readers_.emplace_back(file);
}

// The labels of the list, or those of the record; none where it has but one number.
std::span<const float> RowMaker::LabelsOf(const ImageRecord& record) {
  if (records_.has_list()) {
    const std::vector<float>* labels = records_.Labels(record.id);
    Check(labels != nullptr, "the list has no entry for it");
    return *labels;
  }
  labels_.resize(record.labels.size() / sizeof(float));
  if (!labels_.empty())
    std::memcpy(labels_.data(), record.labels.data(), record.labels.size());
  return labels_;
}

void RowMaker::WriteLabels(const ImageRecord& record, float* to) {
  const auto width = static_cast<size_t>(options_.label_width);
  const std::span<const float> labels = LabelsOf(record);
  if (records_.has_list()) {
    Check(labels.size() >= width, "the list has ", labels.size(),
          " labels for it; label_width is ", width);
  } else if (labels.empty()) {
    Check(width == 1, "it has 1 label; label_width is ", width);
    *to = record.label;
    return;
  } else {
    Check(labels.size() == width, "it has ", labels.size(), " labels; label_width is ",
          width);
  }
  std::memcpy(to, labels.data(), width * sizeof(float));
}

Picture RowMaker::MakeBoxes(const ImageRecord& record, SampleRandom& random,
                            float* to) {
  const DetectionOptions& d = *options_.detection;
  const std::span<const float> labels = LabelsOf(record);
  Check(d.label_width == -1 || static_cast<int64_t>(labels.size()) == d.label_width,
        "it has ", labels.size(), " labels; label_width is ", d.label_width);
  BoxLabels boxes(labels);
  Picture picture = AugmentDetection(record.image, options_.augment, d, random, &boxes);
  const std::vector<float> kept = boxes.ToArray();
  std::fill(to, to + options_.label_width, d.label_pad_value);
  to[0] = static_cast<float>(picture.channels);
  to[1] = static_cast<float>(picture.height);
  to[2] = static_cast<float>(picture.width);
  to[3] = static_cast<float>(kept.size());
  std::copy(kept.begin(), kept.end(), to + DetectionOptions::kHead);
  return picture;
}

void RowMaker::Make(const RowSource& source, size_t row, ImageBatch* batch) {
  const RecordSet::Place& place = records_.place(source.record);
  RecordReader& reader = readers_[place.file];
  reader.Seek(place.offset);
  const std::optional<std::span<const char>> bytes = reader.Next();
  Check(bytes.has_value(), ErrorKind::kIo, "record file: ", reader.file().path(),
        ": nothing stands at offset ", place.offset,
        "; the file is cut off, or the index is another file's");
  ImageRecord record;
  try {
    record = ParseImageRecord(*bytes);
    const auto i = static_cast<int64_t>(row);
    SampleRandom random(options_.augment_seed, source.pass, source.record);
    float* labels = batch->label.data<float>() + i * options_.label_width;
    Picture picture;
    if (options_.detection) {
      picture = MakeBoxes(record, random, labels);
    } else {
      picture = Augment(record.image, options_.augment, random);
      WriteLabels(record, labels);
    }
    const int64_t size = batch->data.nbytes() / options_.batch_size;
    WriteSample(picture, options_.augment, options_.dtype, random,
                static_cast<char*>(batch->data.data()) + i * size);
    batch->ids[row] = record.id;
  } catch (const Error& e) {
    Fail(e.kind(), "record file: ", reader.file().path(), ": at offset ", place.offset,
         ", image ", record.id, ": ", e.what());
  }
}

}  // namespace plait::data
