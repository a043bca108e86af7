// SampleMaker: images of files, records or arrays, through the steps of Gluon's vision
// transforms, to the rows of a batch. What Python's DataLoader does sample by sample,
// at once; the results are the same bit for bit.

#ifndef PLAIT_DATA_SAMPLE_MAKER_H_
#define PLAIT_DATA_SAMPLE_MAKER_H_

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/record_reader.h"
#include "data/sample_random.h"
#include "image/codec.h"
#include "image/resize.h"
#include "ndarray/ndarray.h"

namespace plait::data {

struct ImageView;

// One transform of the bytes of an image (height, width, channels).
struct PixelStep {
  enum class Kind : int8_t {
    kResize,
    kCrop,        // at (x, y)
    kCenterCrop,  // less, and then enlarged, where the image is smaller
    kRandomResizedCrop,
    kFlipLeftRight,  // by chance
    kFlipTopBottom,
  };
  Kind kind = Kind::kResize;
  int64_t x = 0, y = 0;
  int64_t part_width = 0, part_height = 0;  // of kCrop
  int64_t width = 0, height = 0;            // of the result; 0: that of the part
  bool keep_ratio = false;                  // width is that of the shorter edge
  int interpolation = 1;                    // 0 to 4, 9, 10
  bool antialias = false;
  double min_area = 0, max_area = 0, min_log_ratio = 0, max_log_ratio = 0;
};

struct SampleOptions {
  int flag = 1;  // of files: 0 gray, 1 colour
  std::vector<PixelStep> steps;
  // Then planes of floats within 0 and 1, less the mean, by the deviation; each one
  // value or one a channel. Without to_tensor the bytes, cast.
  bool to_tensor = false;
  bool normalises = false;
  std::vector<float> mean, std;
  DType dtype = DType::kUint8;

  void Check() const;  // throws kValue
};

// Where the random numbers of the samples of a batch come from.
struct SamplePlace {
  uint64_t seed = 0, epoch = 0, first = 0;  // first: number of the first sample
};

struct SampleLabels {
  std::vector<float> values;  // of all samples, one after the other
  int64_t width = 0;          // 0: each has one number that stands in the head
};

// Rows of an array along its first axis, copied by the calling thread. Throws kValue
// where a number is outside. Neighbours are copied together.
NDArray GatherRows(const NDArray& array, std::span<const int64_t> rows);

// Thread safety: any thread, any number of calls at once. A batch is made by the
// calling thread alone.
class SampleMaker {
 public:
  explicit SampleMaker(SampleOptions options);

  // A batch (samples, ...); an array without a body: the samples are of different
  // shapes or kinds, and somebody else must say so. Errors name the file and the
  // record.
  NDArray FromFiles(const std::vector<std::string>& paths,
                    const SamplePlace& place) const;
  NDArray FromRecords(const std::shared_ptr<const RandomFile>& file,
                      const std::vector<uint64_t>& offsets, const SamplePlace& place,
                      SampleLabels* labels) const;
  // From rows of bytes (rows, height, width, channels). REQUIRES: indices within.
  NDArray FromRows(const NDArray& rows, const std::vector<int64_t>& indices,
                   const SamplePlace& place) const;

 private:
  class Batch;
  using Load = std::function<ImageView(size_t sample, SampleRandom& random)>;

  NDArray Make(size_t count, const SamplePlace& place, const Load& load) const;
  ImageView Decode(std::span<const uint8_t> file, SampleRandom& random) const;
  void Run(SampleRandom& random, ImageView& view) const;

  const SampleOptions options_;
};

}  // namespace plait::data

#endif  // PLAIT_DATA_SAMPLE_MAKER_H_
