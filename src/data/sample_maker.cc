// SampleMaker: decode what is needed, cut, resize, flip, write.

#include "data/sample_maker.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "data/pixel_steps.h"
#include "data/record_set.h"

namespace plait::data {

namespace {

using Kind = PixelStep::Kind;

bool IsFlip(const PixelStep& step) {
  return step.kind == Kind::kFlipLeftRight || step.kind == Kind::kFlipTopBottom;
}

// The first two steps are a resizing and a crop of its middle, and `resize` gives the
// crop alone.
std::optional<image::PartialResize> MiddleOf(const std::vector<PixelStep>& steps,
                                             const image::Layout& stored, int channels,
                                             SampleRandom& random) {
  if (steps.size() < 2 || steps[0].kind != Kind::kResize || steps[0].antialias ||
      steps[1].kind != Kind::kCenterCrop)
    return std::nullopt;
  SampleRandom ahead = random;
  const Cut whole = CutOf(steps[0], stored.width, stored.height, ahead);
  const Cut middle = CutOf(steps[1], whole.width, whole.height, ahead);
  const bool shrinks = whole.width <= stored.width && whole.height <= stored.height;
  const bool few_taps = whole.method != 0 && (whole.method != 3 || !shrinks);
  if (!whole.Resizes() || middle.method >= 0 || !few_taps) return std::nullopt;
  random = ahead;
  return image::PartialResize{.height = stored.height,
                              .width = stored.width,
                              .channels = channels,
                              .y_height = whole.height,
                              .y_width = whole.width,
                              .how = static_cast<image::Interpolation>(whole.method),
                              .part = middle.part};
}

template <typename T>
void WritePlanes(const uint8_t* data, int64_t stride, int64_t height, int64_t width,
                 int channels, const std::vector<float>& table, T* y) {
  for (int k = 0; k < channels; ++k) {
    T values[256];
    for (int v = 0; v < 256; ++v) values[v] = static_cast<T>(table[256 * k + v]);
    for (int64_t i = 0; i < height; ++i) {
      const uint8_t* x = data + i * stride + k;
      for (int64_t j = 0; j < width; ++j) y[j] = values[x[j * channels]];
      y += width;
    }
  }
}

template <typename T>
void WriteCast(const uint8_t* data, int64_t stride, int64_t height, int64_t row, T* y) {
  for (int64_t i = 0; i < height; ++i, data += stride, y += row) {
    for (int64_t j = 0; j < row; ++j) y[j] = static_cast<T>(data[j]);
  }
}

// Each byte's value by channel: what ToTensor and Normalize give, one after the other.
std::vector<float> TableOf(const SampleOptions& o, int channels) {
  std::vector<float> table(static_cast<size_t>(256 * channels));
  for (int k = 0; k < channels; ++k) {
    for (int v = 0; v < 256; ++v) {
      float value = static_cast<float>(v) / 255.0f;
      if (o.normalises) {
        value -= o.mean[o.mean.size() == 1 ? 0 : static_cast<size_t>(k)];
        value /= o.std[o.std.size() == 1 ? 0 : static_cast<size_t>(k)];
      }
      table[static_cast<size_t>(256 * k + v)] = value;
    }
  }
  return table;
}

}  // namespace

// The batch in the making; the first sample decides on its shape.
class SampleMaker::Batch {
 public:
  Batch(const SampleOptions& options, size_t count)
      : options_(options), count_(static_cast<int64_t>(count)) {}

  bool Write(size_t i, const ImageView& v) {
    if (!array_) {
      const auto fits = [&](const std::vector<float>& values) {
        return values.size() == 1 || values.size() == static_cast<size_t>(v.channels);
      };
      if (options_.normalises && ((v.channels != 1 && v.channels != 3) ||
                                  !fits(options_.mean) || !fits(options_.std)))
        return false;
      first_ = {v.height, v.width, v.channels};
      const Shape shape = options_.to_tensor
                              ? Shape{count_, v.channels, v.height, v.width}
                              : Shape{count_, v.height, v.width, v.channels};
      array_ = NDArray::Empty(shape, options_.dtype);
      if (options_.to_tensor) table_ = TableOf(options_, v.channels);
    }
    if (first_ != Shape{v.height, v.width, v.channels}) return false;
    const int64_t row = array_.nbytes() / count_;
    WriteTo(v, static_cast<char*>(array_.data()) + static_cast<int64_t>(i) * row);
    return true;
  }
  NDArray array() const { return array_; }

 private:
  void WriteTo(const ImageView& v, void* to) const {
    switch (options_.dtype) {
      case DType::kFloat32:
        return WriteAs<float>(v, to);
      case DType::kFloat64:
        return WriteAs<double>(v, to);
      case DType::kFloat16:
        return WriteAs<Float16>(v, to);
      case DType::kUint8:
        return WriteAs<uint8_t>(v, to);
      default:
        return WriteAs<int32_t>(v, to);
    }
  }
  template <typename T>
  void WriteAs(const ImageView& v, void* to) const {
    auto* y = static_cast<T*>(to);
    if constexpr (!std::is_integral_v<T>) {
      if (options_.to_tensor)
        return WritePlanes<T>(v.data, v.stride, v.height, v.width, v.channels, table_,
                              y);
    }
    WriteCast<T>(v.data, v.stride, v.height, v.width * v.channels, y);
  }

  const SampleOptions& options_;
  const int64_t count_;
  NDArray array_;
  Shape first_;
  std::vector<float> table_;
};

void SampleOptions::Check() const {
  using plait::Check;
  Check(flag == 0 || flag == 1, "SampleMaker: flag ", flag, "; 0 or 1 was expected");
  const bool real =
      dtype == DType::kFloat32 || dtype == DType::kFloat64 || dtype == DType::kFloat16;
  Check(real || (!to_tensor && (dtype == DType::kUint8 || dtype == DType::kInt32)),
        ErrorKind::kType, "SampleMaker: dtype ", Name(dtype), " cannot be written");
  Check(!normalises || (to_tensor && !mean.empty() && !std.empty()),
        "SampleMaker: mean and std go with ToTensor, and have values");
}

SampleMaker::SampleMaker(SampleOptions options) : options_(std::move(options)) {
  options_.Check();
}

void SampleMaker::Run(SampleRandom& random, ImageView& v) const {
  for (size_t s = v.done; s < options_.steps.size(); ++s) {
    const PixelStep& step = options_.steps[s];
    if (!IsFlip(step)) {
      v.Apply(CutOf(step, v.width, v.height, random));
    } else if (random.Unit() < 0.5) {
      v.Flip(step.kind == Kind::kFlipLeftRight);
    }
  }
}

ImageView SampleMaker::Decode(std::span<const uint8_t> file,
                              SampleRandom& random) const {
  image::DecodeOptions how;
  how.channels = static_cast<image::Channels>(options_.flag);
  const int channels = options_.flag == 0 ? 1 : 3;
  ImageView v;
  std::vector<uint8_t> pixels;
  const auto decode = [&] {
    image::Decode(file, how, [&](const image::Layout& l) {
      v.channels = l.channels;
      v.height = l.height;
      v.width = l.width;
      pixels.resize(static_cast<size_t>(l.bytes()));
      return pixels.data();
    });
    v.Own(v.height, v.width, std::move(pixels));
  };
  const auto& steps = options_.steps;
  if (steps.empty() || IsFlip(steps[0])) {
    decode();
    return v;
  }
  const image::Layout stored = image::ReadLayout(file);
  if (stored.orientation == 1 && steps[0].kind != Kind::kResize) {
    Cut cut = CutOf(steps[0], stored.width, stored.height, random);
    how.region = {cut.part.x, cut.part.y, cut.part.width, cut.part.height};
    decode();
    cut.part.x = cut.part.y = 0;
    v.Apply(cut);
    v.done = 1;
  } else if (const auto middle = stored.orientation == 1
                                     ? MiddleOf(steps, stored, channels, random)
                                     : std::nullopt) {
    const image::Window source = middle->Source();
    how.region = {source.x, source.y, source.width, source.height};
    decode();
    std::vector<uint8_t> y(
        static_cast<size_t>(middle->part.height * middle->part.width * channels));
    middle->Run(v.data, v.stride, y.data());
    v.Own(middle->part.height, middle->part.width, std::move(y));
    v.done = 2;
  } else {
    decode();
  }
  return v;
}

NDArray SampleMaker::Make(size_t count, const SamplePlace& place,
                          const Load& load) const {
  Batch batch(options_, count);
  for (size_t i = 0; i < count; ++i) {
    SampleRandom random(place.seed, place.epoch, place.first + i);
    ImageView view = load(i, random);
    if (view.data == nullptr) return NDArray();
    Run(random, view);
    if (!batch.Write(i, view)) return NDArray();
  }
  return batch.array();
}

NDArray SampleMaker::FromFiles(const std::vector<std::string>& paths,
                               const SamplePlace& place) const {
  std::vector<char> bytes;
  return Make(paths.size(), place, [&](size_t i, SampleRandom& random) {
    const RandomFile file(paths[i]);
    bytes.resize(file.size());
    bytes.resize(file.Read(0, bytes.data(), bytes.size()));
    try {
      return Decode({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()},
                    random);
    } catch (const Error& e) {
      Fail(e.kind(), "imread: ", paths[i], ": ", e.what());
    }
  });
}

NDArray SampleMaker::FromRecords(const std::shared_ptr<const RandomFile>& file,
                                 const std::vector<uint64_t>& offsets,
                                 const SamplePlace& place, SampleLabels* labels) const {
  RecordReader reader(file);
  bool alike = true;
  NDArray batch = Make(offsets.size(), place, [&](size_t i, SampleRandom& random) {
    reader.Seek(offsets[i]);
    const std::optional<std::span<const char>> bytes = reader.Next();
    Check(bytes.has_value(), ErrorKind::kIo, "record file: ", file->path(),
          ": nothing stands at offset ", offsets[i],
          "; the file is cut off, or the index is another file's");
    std::string image;  // its number, once that is known
    try {
      const ImageRecord record = ParseImageRecord(*bytes);
      image = ", image " + std::to_string(record.id);
      const auto width = static_cast<int64_t>(record.labels.size() / sizeof(float));
      if (i == 0) labels->width = width;
      alike = alike && width == labels->width;
      const size_t had = labels->values.size();
      labels->values.resize(had + static_cast<size_t>(std::max<int64_t>(width, 1)));
      if (width == 0) {
        labels->values[had] = record.label;
      } else {
        std::memcpy(&labels->values[had], record.labels.data(), record.labels.size());
      }
      return alike ? Decode(record.image, random) : ImageView();
    } catch (const Error& e) {
      Fail(e.kind(), "record file: ", file->path(), ": at offset ", offsets[i], image,
           ": ", e.what());
    }
  });
  return alike ? batch : NDArray();
}

NDArray SampleMaker::FromRows(const NDArray& rows, const std::vector<int64_t>& indices,
                              const SamplePlace& place) const {
  Check(rows.shape().rank() == 4 && rows.dtype() == DType::kUint8,
        "SampleMaker: rows of shape ", rows.shape(), " and ", Name(rows.dtype()),
        "; (rows, height, width, channels) of uint8 were expected");
  rows.WaitToRead();
  ImageView row;
  row.height = rows.shape()[1];
  row.width = rows.shape()[2];
  row.channels = static_cast<int>(rows.shape()[3]);
  row.stride = row.width * row.channels;
  const int64_t size = row.height * row.stride;
  Check(size > 0, "SampleMaker: the images have no pixels");
  return Make(indices.size(), place, [&](size_t i, SampleRandom&) {
    ImageView view = row;
    view.data = rows.data<uint8_t>() + indices[i] * size;
    return view;
  });
}

}  // namespace plait::data
