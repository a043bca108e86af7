// ImageLoader: threads that make batches of images from record files, some ahead.
//
// A batch depends on the options, the seed, and its place alone, never on threads. Each
// is new memory: what was delivered is not touched again. At most `prefetch` batches,
// and at most `prefetch_bytes` (but one), are in the making or ready.
//
// Passes and epochs: a pass goes over all records once, in an order of its own. An
// epoch ends with the batch that holds the last record of a pass. With round_batch that
// batch is filled from the next pass, which the next epoch goes on with; else its rows
// at the end repeat the last record. `pad` says how many rows were filled.
//
// Thread safety: one thread at a time calls it. Not usable in a forked child, where the
// threads are not; it may be destroyed there.

#ifndef PLAIT_DATA_IMAGE_LOADER_H_
#define PLAIT_DATA_IMAGE_LOADER_H_

#include <memory>
#include <optional>

#include "data/augment.h"
#include "data/detection.h"
#include "data/record_set.h"
#include "ndarray/ndarray.h"

namespace plait::data {

struct LoaderOptions {
  RecordSetOptions records;
  AugmentOptions augment;
  DType dtype = DType::kFloat32;
  int64_t batch_size = 0;
  int64_t label_width = 1;
  // Boxes instead of numbers: a row of labels is [channels, height, width, number of
  // labels, labels..., padding]; label_width is found by the loader.
  std::optional<DetectionOptions> detection;
  bool round_batch = true;
  bool shuffle = false;
  uint64_t seed = 0;          // of the order
  uint64_t augment_seed = 0;  // of everything else
  int threads = 4;
  int64_t prefetch = 4;
  int64_t prefetch_bytes = int64_t{1} << 30;
  bool skip_broken = false;  // leave records out that give no image, and count them
};

struct ImageBatch {
  NDArray data, label;
  int64_t pad = 0;
  std::vector<uint64_t> ids;  // of the images
};

// Where the next batch begins: for going on later.
struct LoaderPosition {
  uint64_t pass = 0;
  uint64_t record = 0;  // place in the order of the pass
  bool ended = false;   // the epoch is over; Reset begins the next one
};

class ImageLoader {
 public:
  // Opens the files; the first batches are begun at once. Throws kIo and kValue.
  explicit ImageLoader(const LoaderOptions& options);
  ~ImageLoader();
  ImageLoader(const ImageLoader&) = delete;
  ImageLoader& operator=(const ImageLoader&) = delete;

  // The next batch of the epoch; nothing at its end. An error names file, offset and
  // image; the batch after it follows at the next call.
  std::optional<ImageBatch> Next();
  // Begins an epoch; in the middle of one, with a new pass.
  void Reset();

  LoaderPosition position() const;
  void Seek(const LoaderPosition& position);

  size_t size() const;      // records, with broken ones
  int64_t skipped() const;  // records left out so far
  int64_t label_width() const;

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace plait::data

#endif  // PLAIT_DATA_IMAGE_LOADER_H_
