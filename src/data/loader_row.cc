// RowMaker: the work of a thread of an ImageLoader.

#include "data/loader_row.h"

#include <cstring>

#include "base/error.h"

namespace plait::data {

void MakeArrays(const LoaderOptions& o, ImageBatch* batch) {
  const AugmentOptions& a = o.augment;
  batch->data = NDArray::Empty({o.batch_size, a.channels, a.height, a.width}, o.dtype);
  batch->label = NDArray::Empty(
      o.label_width == 1 ? Shape{o.batch_size} : Shape{o.batch_size, o.label_width});
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

void RowMaker::WriteLabels(const ImageRecord& record, float* to) const {
  const auto width = static_cast<size_t>(options_.label_width);
  if (records_.has_list()) {
    const std::vector<float>* labels = records_.Labels(record.id);
    Check(labels != nullptr, "the list has no entry for it");
    Check(labels->size() >= width, "the list has ", labels->size(),
          " labels for it; label_width is ", width);
    std::memcpy(to, labels->data(), width * sizeof(float));
  } else if (!record.labels.empty()) {
    Check(record.labels.size() == width * sizeof(float), "it has ",
          record.labels.size() / sizeof(float), " labels; label_width is ", width);
    std::memcpy(to, record.labels.data(), record.labels.size());
  } else {
    Check(width == 1, "it has 1 label; label_width is ", width);
    *to = record.label;
  }
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
    const Picture picture = Augment(record.image, options_.augment, random);
    const int64_t size = batch->data.nbytes() / options_.batch_size;
    WriteSample(picture, options_.augment, options_.dtype, random,
                static_cast<char*>(batch->data.data()) + i * size);
    WriteLabels(record, batch->label.data<float>() + i * options_.label_width);
    batch->ids[row] = record.id;
  } catch (const Error& e) {
    Fail(e.kind(), "record file: ", reader.file().path(), ": at offset ", place.offset,
         ", image ", record.id, ": ", e.what());
  }
}

}  // namespace plait::data
