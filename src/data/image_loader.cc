// ImageLoader: a queue of batches whose rows the workers fill one by one.

#include "data/image_loader.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

#include "base/error.h"
#include "data/loader_row.h"
#include "engine/engine.h"

namespace plait::data {
namespace {

// A batch in the making.
struct Work {
  LoaderPosition begin, after;
  std::vector<RowSource> rows;
  ImageBatch batch;
  size_t taken = 0, done = 0;  // rows
  std::vector<uint32_t> broken;
  std::exception_ptr error;  // of the first row, in the order of rows, that has one
  size_t error_row = 0;
};

// Shows the profiler what a thread does while this lives.
class Reported {
 public:
  explicit Reported(const char* name) : name_(name) {}
  ~Reported() {
    Engine& engine = Engine::Get();
    if (engine.observed()) engine.ReportInline(name_, "", Lane::kIo, start_, Now());
  }
  Reported(const Reported&) = delete;
  Reported& operator=(const Reported&) = delete;

 private:
  static int64_t Now() {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(
               std::chrono::steady_clock::now().time_since_epoch())
        .count();
  }
  const char* const name_;
  const int64_t start_ = Now();
};

}  // namespace

class ImageLoader::State {
 public:
  explicit State(const LoaderOptions& options)
      : options_(options), records_(options.records), owner_(::getpid()) {
    if (options_.detection) ChooseLabelWidth();
    CheckOptions();
    StartPass(0);
    for (int i = 0; i < options_.threads; ++i) threads_.emplace_back([this] { Run(); });
  }
  ~State() {
    {
      const std::lock_guard guard(mutex_);
      stops_ = true;
    }
    can_work_.notify_all();
    for (std::thread& t : threads_) t.join();
  }

  std::optional<ImageBatch> Next();
  void Reset();
  void Seek(const LoaderPosition& position);

  LoaderPosition position() const { return position_; }
  const RecordSet& records() const { return records_; }
  int64_t label_width() const { return options_.label_width; }
  int64_t skipped() const {
    return records_.skipped() + static_cast<int64_t>(broken_.size());
  }
  bool forked() const { return owner_ != ::getpid(); }

 private:
  void ChooseLabelWidth();
  void CheckOptions();
  void Run();
  std::shared_ptr<Work> Take(size_t* first, size_t* last);
  void Finish(const std::shared_ptr<Work>& work, size_t rows, std::exception_ptr error,
              size_t error_row, std::vector<uint32_t> broken);
  std::shared_ptr<Work> Plan();
  void StartPass(uint64_t pass);
  void Drop(LoaderPosition from);
  bool LeaveOut(std::unique_lock<std::mutex>& lock);
  void CheckOwner() const {
    Check(!forked(), ErrorKind::kRuntime,
          "ImageRecordIter: was made before a fork; make a new one in the child");
  }

  LoaderOptions options_;  // constant once the threads run
  const RecordSet records_;
  const pid_t owner_;
  size_t most_works_ = 1;

  // The caller's.
  LoaderPosition position_;  // of the next batch
  bool begun_ = false;       // the epoch has given a batch

  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable can_work_, can_deliver_;
  std::deque<std::shared_ptr<Work>> works_;  // in the order of delivery
  LoaderPosition planned_;                   // where the next Work begins
  std::vector<uint32_t> order_;              // of pass order_pass_
  uint64_t order_pass_ = 0;
  std::set<uint32_t> broken_;  // records that are left out
  std::exception_ptr plan_error_;
  bool stops_ = false;
  std::vector<std::thread> threads_;
};

void ImageLoader::State::ChooseLabelWidth() {
  options_.detection->Check();
  const int64_t most = records_.MostLabels();
  int64_t& width = options_.detection->label_pad_width;
  Check(width <= 0 || width >= most, "ImageDetRecordIter: label_pad_width is ", width,
        "; an image has ", most, " labels");
  width = std::max(width, most);
  options_.label_width = DetectionOptions::kHead + width;
}

void ImageLoader::State::CheckOptions() {
  const LoaderOptions& o = options_;
  Check(o.batch_size > 0 && o.batch_size < (1 << 24), "ImageRecordIter: batch_size is ",
        o.batch_size, "; at least 1 was expected");
  Check(o.label_width > 0, "ImageRecordIter: label_width is ", o.label_width,
        "; at least 1 was expected");
  Check(o.threads > 0 && o.threads <= 1024, "ImageRecordIter: preprocess_threads is ",
        o.threads, "; at least 1 was expected");
  Check(o.prefetch > 0, "ImageRecordIter: prefetch_buffer is ", o.prefetch,
        "; at least 1 was expected");
  o.augment.Check();
  const int64_t bytes = o.batch_size * o.augment.channels * o.augment.height *
                        o.augment.width * static_cast<int64_t>(SizeOf(o.dtype));
  const int64_t fit =
      std::max<int64_t>(o.prefetch_bytes / std::max<int64_t>(bytes, 1), 1);
  most_works_ = static_cast<size_t>(std::min(o.prefetch, fit));
}

void ImageLoader::State::StartPass(uint64_t pass) {
  if (order_.empty() || order_pass_ != pass)
    order_ = records_.Order(options_.shuffle, options_.seed, pass);
  order_pass_ = pass;
}

// The next batch of the stream; its memory is made by the worker that takes it first.
std::shared_ptr<Work> ImageLoader::State::Plan() {
  auto work = std::make_shared<Work>();
  const auto size = static_cast<size_t>(options_.batch_size);
  work->begin = planned_;
  LoaderPosition at = planned_;
  at.ended = false;
  while (work->rows.size() < size) {
    StartPass(at.pass);
    while (at.record < order_.size() && broken_.contains(order_[at.record]))
      ++at.record;
    if (at.record == order_.size()) {
      Check(broken_.size() < order_.size(), ErrorKind::kIo,
            "ImageRecordIter: none of the ", order_.size(), " records has an image");
      at = {at.pass + 1, 0, true};
      work->after = at;
      // No rows at all say that the epoch ends here: what was left of it is broken.
      if (work->rows.empty() || !options_.round_batch) break;
      // Filled from the next pass, and from the one after that where a pass is short.
      const size_t real = work->rows.size();
      work->batch.pad = static_cast<int64_t>(size - real);
      while (work->rows.size() < size) {
        StartPass(at.pass);
        while (at.record < order_.size() && broken_.contains(order_[at.record]))
          ++at.record;
        if (at.record == order_.size()) {
          at = {at.pass + 1, 0, true};
          continue;
        }
        work->rows.push_back({order_[at.record++], at.pass});
      }
      work->after = at;
      return work;
    }
    work->rows.push_back({order_[at.record++], at.pass});
    // The last record of a pass may also be the last of a batch.
    size_t left = at.record;
    while (left < order_.size() && broken_.contains(order_[left])) ++left;
    work->after = at;
    if (left == order_.size() && work->rows.size() == size)
      work->after = {at.pass + 1, 0, true};
  }
  work->batch.pad = static_cast<int64_t>(size - work->rows.size());
  return work;
}

// Rows of a batch for a worker: the oldest that are not taken. Null: stop.
std::shared_ptr<Work> ImageLoader::State::Take(size_t* first, size_t* last) {
  std::unique_lock lock(mutex_);
  while (!stops_) {
    for (const std::shared_ptr<Work>& work : works_) {
      if (work->taken == work->rows.size()) continue;
      // Few at once, so that the last ones of a batch are shared.
      const size_t share =
          work->rows.size() / (8 * static_cast<size_t>(options_.threads));
      *first = work->taken;
      *last = std::min(work->rows.size(), *first + std::clamp<size_t>(share, 1, 16));
      work->taken = *last;
      return work;
    }
    if (works_.size() < most_works_ && plan_error_ == nullptr) {
      try {
        std::shared_ptr<Work> work = Plan();
        if (!work->rows.empty()) MakeArrays(options_, &work->batch);
        planned_ = work->after;
        works_.push_back(std::move(work));
        can_work_.notify_all();
        if (works_.back()->rows.empty()) can_deliver_.notify_all();
      } catch (...) {
        plan_error_ = std::current_exception();
        can_deliver_.notify_all();
      }
      continue;
    }
    can_work_.wait(lock);
  }
  return nullptr;
}

void ImageLoader::State::Finish(const std::shared_ptr<Work>& work, size_t rows,
                                std::exception_ptr error, size_t error_row,
                                std::vector<uint32_t> broken) {
  const std::lock_guard guard(mutex_);
  work->done += rows;
  if (error != nullptr && (work->error == nullptr || error_row < work->error_row)) {
    work->error = std::move(error);
    work->error_row = error_row;
  }
  work->broken.insert(work->broken.end(), broken.begin(), broken.end());
  if (work->done == work->rows.size()) can_deliver_.notify_all();
}

void ImageLoader::State::Run() {
  RowMaker maker(options_, records_);
  size_t first = 0, last = 0;
  while (const std::shared_ptr<Work> work = Take(&first, &last)) {
    std::exception_ptr error;
    size_t error_row = 0;
    std::vector<uint32_t> broken;
    {
      const Reported rows("ImageLoader.rows");
      for (size_t i = first; i < last; ++i) {
        try {
          maker.Make(work->rows[i], i, &work->batch);
        } catch (...) {
          broken.push_back(work->rows[i].record);
          if (error == nullptr) {
            error = std::current_exception();
            error_row = i;
          }
        }
      }
    }
    Finish(work, last - first, std::move(error), error_row, std::move(broken));
  }
}

// Forgets what is planned, and plans from a position on.
void ImageLoader::State::Drop(LoaderPosition from) {
  works_.clear();  // workers keep the one that they are in
  planned_ = from;
  plan_error_ = nullptr;
  can_work_.notify_all();
}

// The first batch has broken records: they are left out, and all that was planned with
// them is planned anew. False: nothing is broken.
bool ImageLoader::State::LeaveOut(std::unique_lock<std::mutex>& lock) {
  if (!options_.skip_broken || works_.front()->broken.empty()) return false;
  // The others may have some too; then it is done once.
  can_deliver_.wait(lock, [&] {
    return std::all_of(works_.begin(), works_.end(),
                       [](const auto& w) { return w->done == w->taken; });
  });
  for (const auto& work : works_) {
    broken_.insert(work->broken.begin(), work->broken.end());
  }
  Drop(works_.front()->begin);
  return true;
}

std::optional<ImageBatch> ImageLoader::State::Next() {
  CheckOwner();
  const Reported wait("ImageLoader.wait");
  std::unique_lock lock(mutex_);
  while (true) {
    if (position_.ended) return std::nullopt;
    can_deliver_.wait(lock, [&] {
      return works_.empty() ? plan_error_ != nullptr
                            : works_.front()->done == works_.front()->rows.size();
    });
    if (works_.empty()) {
      can_work_.notify_all();
      std::rethrow_exception(std::exchange(plan_error_, nullptr));
    }
    if (!LeaveOut(lock)) break;
  }
  const std::shared_ptr<Work> work = std::move(works_.front());
  works_.pop_front();
  position_ = work->after;
  begun_ = true;
  can_work_.notify_all();
  if (work->rows.empty()) return std::nullopt;
  if (work->error != nullptr) std::rethrow_exception(work->error);
  return std::move(work->batch);
}

void ImageLoader::State::Reset() {
  CheckOwner();
  if (!std::exchange(begun_, false)) return;
  if (position_.ended) {
    position_.ended = false;  // what is planned goes on from here
    return;
  }
  const std::lock_guard guard(mutex_);
  position_ = {position_.pass + 1, 0, false};
  Drop(position_);
}

void ImageLoader::State::Seek(const LoaderPosition& position) {
  CheckOwner();
  Check(position.record <= records_.size(), "ImageRecordIter: a position at record ",
        position.record, " of ", records_.size());
  const std::lock_guard guard(mutex_);
  position_ = position;
  begun_ = position.ended || position.record > 0;
  Drop(position);
}

ImageLoader::ImageLoader(const LoaderOptions& options)
    : state_(std::make_unique<State>(options)) {}
ImageLoader::~ImageLoader() {
  if (state_->forked()) (void)state_.release();  // its threads cannot be joined here
}
std::optional<ImageBatch> ImageLoader::Next() {
  return state_->Next();
}
void ImageLoader::Reset() {
  state_->Reset();
}
LoaderPosition ImageLoader::position() const {
  return state_->position();
}
void ImageLoader::Seek(const LoaderPosition& position) {
  state_->Seek(position);
}
size_t ImageLoader::size() const {
  return state_->records().size();
}
int64_t ImageLoader::label_width() const {
  return state_->label_width();
}
int64_t ImageLoader::skipped() const {
  return state_->skipped();
}

}  // namespace plait::data
