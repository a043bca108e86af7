// Metric: running values of how good predictions are.
//
// A Measure is the formula: what a batch adds to an array of sums, and the value that
// follows from the sums. Adding is one operation of the engine, so that nobody waits
// until a value is wanted. A Metric is a measure with its sums.

#ifndef PLAIT_TRAIN_METRIC_H_
#define PLAIT_TRAIN_METRIC_H_

#include <memory>
#include <span>
#include <vector>

#include "graph/op.h"
#include "ndarray/ndarray.h"
#include "train/named.h"

namespace plait {

// Kinds: accuracy, top_k_accuracy, f1, mcc, pcc, perplexity, cross-entropy, nll-loss,
// mae, mse, rmse, pearsonr, loss.
//
// Thread safety: const functions may be called from any thread.
class Measure : public Named {
 public:
  static KindTable& Kinds();

  // Zeros, float64.
  NDArray NewSums() const;
  // Throws kValue for arrays that do not fit together, before anything has changed.
  void CheckBatch(std::span<const NDArray> labels,
                  std::span<const NDArray> preds) const;
  // What a batch adds; runs inside the engine. May throw kIndex or kValue for values
  // that make no sense. `sums` has the size of NewSums, or of Grown, and holds zeros.
  virtual void Add(std::span<const View> labels, std::span<const View> preds,
                   std::span<double> sums) const = 0;
  // Joins what a batch added to the sums.
  virtual void Join(std::span<const double> batch, std::span<double> sums) const;

  // MXNet's view of the sums: the value is the first by the second.
  struct Total {
    double sum = 0;
    double count = 0;
  };
  virtual Total TotalOf(std::span<const double> sums) const {
    return {sums[0], sums[1]};
  }
  // NaN while there is nothing.
  virtual double ValueOf(std::span<const double> sums) const;

  // The sums, or larger ones with the same content where the batch needs them.
  virtual NDArray Grown(std::span<const NDArray>, std::span<const NDArray>,
                        const NDArray& sums) const {
    return sums;
  }

 protected:
  virtual int64_t NumSums() const { return 2; }
  virtual void CheckPair(const NDArray& label, const NDArray& pred) const = 0;
  virtual bool UsesLabels() const { return true; }
};

// Adds a batch to each of `sums`, which may be replaced by larger arrays; asynchronous,
// but for measures that grow. Bad values poison the sums.
void UpdateSums(const std::shared_ptr<const Measure>& measure,
                std::span<const NDArray> labels, std::span<const NDArray> preds,
                std::span<NDArray> sums);

class Metric {
 public:
  // By name, as CreateNamed.
  explicit Metric(std::string_view name, std::span<const NamedAttr> attrs = {});

  // Labels and predictions of one batch, as many of each.
  void Update(std::span<const NDArray> labels, std::span<const NDArray> preds);
  // Wait, and throw what an update has found.
  double Value() const;        // since the last Reset or ResetLocal
  double GlobalValue() const;  // since the last Reset
  void Reset();
  void ResetLocal();

 private:
  std::shared_ptr<const Measure> measure_;
  NDArray local_, global_;
};

// The sums as numbers; waits.
std::vector<double> ReadSums(const NDArray& sums);

}  // namespace plait

#endif  // PLAIT_TRAIN_METRIC_H_
