// Metrics of a table of counts: F1 and correlations of classes.

#include <limits>

#include "graph/math.h"
#include "train/metric.h"
#include "train/metrics/numbers.h"

namespace plait {
namespace {

// Counts of two classes: true and false positives and negatives.
struct Counts {
  double tn = 0, fp = 0, fn = 0, tp = 0;

  double total() const { return tn + fp + fn + tp; }
  // 2 tp / (2 tp + fp + fn); 0 without any right positive.
  double F1() const { return tp > 0 ? 2 * tp / (2 * tp + fp + fn) : 0; }
  // Matthews' correlation; sums that are 0 are left out of the denominator.
  double Mcc() const {
    if (total() == 0) return 0;
    double denominator = 1;
    for (double sum : {tp + fp, tp + fn, tn + fp, tn + fn}) {
      if (sum != 0) denominator *= sum;
    }
    return (tp * tn - fp * fn) / std::sqrt(denominator);
  }
};

// A score of the counts: the mean over batches (macro), or of all counts (micro).
class BinaryScore : public Measure {
 public:
  std::string average = "macro";

  void Add(std::span<const View> labels, std::span<const View> preds,
           std::span<double> sums) const override {
    Counts counts;
    for (size_t k = 0; k < preds.size(); ++k) AddPair(labels[k], preds[k], counts);
    if (macro()) {
      sums[0] = Score(counts);
      sums[1] = 1;
    } else {
      const double all[] = {counts.tn, counts.fp, counts.fn, counts.tp};
      std::copy(std::begin(all), std::end(all), sums.begin());
    }
  }
  Total TotalOf(std::span<const double> sums) const override {
    if (macro()) return {sums[0], sums[1]};
    const Counts counts{sums[0], sums[1], sums[2], sums[3]};
    return {Score(counts) * counts.total(), counts.total()};
  }

 protected:
  virtual double Score(const Counts& counts) const = 0;
  bool macro() const { return average == "macro"; }
  int64_t NumSums() const override { return macro() ? 2 : 4; }
  void CheckPair(const NDArray& label, const NDArray& pred) const override {
    Check(pred.shape().rank() == 2 && pred.shape()[1] > 0, kind().name,
          ": predictions have shape ", pred.shape(),
          "; scores of both classes were expected");
    CheckSizes(kind().name, label, pred, pred.shape()[0]);
  }

 private:
  void AddPair(const View& label, const View& pred, Counts& counts) const {
    const std::vector<int64_t> wanted = ClassesOf(label), got = LargestAlong(pred, 1);
    std::vector<int64_t> seen;
    for (size_t i = 0; i < wanted.size(); ++i) {
      if (std::find(seen.begin(), seen.end(), wanted[i]) == seen.end())
        seen.push_back(wanted[i]);
      Check(seen.size() <= 2, kind().name, ": found the labels ", seen[0], ", ",
            seen.size() > 1 ? seen[1] : 0, " and ", wanted[i],
            "; it currently only supports binary classification");
      double& count = wanted[i] == 1 ? (got[i] == 1 ? counts.tp : counts.fn)
                                     : (got[i] == 1 ? counts.fp : counts.tn);
      count += 1;
    }
  }
};

class F1 final : public BinaryScore {
 protected:
  double Score(const Counts& counts) const override { return counts.F1(); }
};
[[maybe_unused]] const Kind& f1 = AddKind<Measure, F1>({
    .name = "f1",
    .doc = "Harmonic mean of precision and recall, of two classes.",
    .attributes = {Inherited<F1>("average", &BinaryScore::average, "macro or micro.")},
});

class Mcc final : public BinaryScore {
 protected:
  double Score(const Counts& counts) const override { return counts.Mcc(); }
};
[[maybe_unused]] const Kind& mcc = AddKind<Measure, Mcc>({
    .name = "mcc",
    .doc = "Matthews' correlation coefficient, of two classes.",
    .attributes = {Inherited<Mcc>("average", &BinaryScore::average, "macro or micro.")},
});

// The sums are the number of batches, then counts[prediction][label] of k classes.
class Pcc final : public Measure {
 public:
  void Add(std::span<const View> labels, std::span<const View> preds,
           std::span<double> sums) const override {
    const int64_t classes = ClassesIn(sums.size());
    for (size_t i = 0; i < preds.size(); ++i) {
      const std::vector<int64_t> wanted = ClassesOf(labels[i]);
      const std::vector<int64_t> got = Predicted(labels[i], preds[i]);
      for (size_t j = 0; j < wanted.size(); ++j) {
        Check(wanted[j] >= 0 && got[j] >= 0, "pcc: got the class ",
              std::min(wanted[j], got[j]), "; 0 or more was expected");
        sums[static_cast<size_t>(1 + got[j] * classes + wanted[j])] += 1;
      }
    }
    sums[0] = 1;
  }
  Total TotalOf(std::span<const double> sums) const override {
    return {Correlation(sums) * sums[0], sums[0]};
  }

  // Looks at the values, and so waits for them.
  NDArray Grown(std::span<const NDArray> labels, std::span<const NDArray> preds,
                const NDArray& sums) const override {
    int64_t needed = 2;
    for (size_t i = 0; i < preds.size(); ++i) {
      if (preds[i].shape() == labels[i].shape()) {
        needed = std::max(needed, Largest(preds[i]) + 1);
      } else {
        needed = std::max(needed, preds[i].shape()[1]);
      }
      needed = std::max(needed, Largest(labels[i]) + 1);
    }
    Check(needed <= kMaxClasses, "pcc: got the class ", needed - 1, "; at most ",
          kMaxClasses - 1, " was expected");
    const int64_t classes = ClassesIn(static_cast<size_t>(sums.size()));
    if (needed <= classes) return sums;
    const std::vector<double> old = ReadSums(sums);
    std::vector<double> grown(static_cast<size_t>(1 + needed * needed));
    grown[0] = old[0];
    for (int64_t i = 0; i < classes; ++i) {
      for (int64_t j = 0; j < classes; ++j) {
        grown[static_cast<size_t>(1 + i * needed + j)] =
            old[static_cast<size_t>(1 + i * classes + j)];
      }
    }
    return NDArray::FromHost(grown.data(), {static_cast<int64_t>(grown.size())},
                             DType::kFloat64);
  }

 protected:
  int64_t NumSums() const override { return 5; }
  void CheckPair(const NDArray& label, const NDArray& pred) const override {
    if (label.shape() == pred.shape()) return;
    Check(pred.shape().rank() >= 2, "pcc: predictions have shape ", pred.shape(),
          " and labels ", label.shape(), "; two axes, or equal shapes, were expected");
    const AxisSizes s = SizesAround(pred.shape(), 1);
    CheckSizes("pcc", label, pred, s.outer * s.inner);
  }

 private:
  static constexpr int64_t kMaxClasses = 1 << 14;

  static int64_t ClassesIn(size_t sums) {
    return static_cast<int64_t>(std::lround(std::sqrt(static_cast<double>(sums - 1))));
  }
  static View ViewOf(const NDArray& x) { return {x.data(), &x.shape(), x.dtype()}; }
  static int64_t Largest(const NDArray& x) {
    x.WaitToRead();
    int64_t largest = -1;
    for (int64_t c : ClassesOf(ViewOf(x))) largest = std::max(largest, c);
    return largest;
  }
  static std::vector<int64_t> Predicted(const View& label, const View& pred) {
    return pred.shape() == label.shape() ? ClassesOf(pred) : LargestAlong(pred, 1);
  }

  static double Correlation(std::span<const double> sums) {
    const auto k = static_cast<size_t>(ClassesIn(sums.size()));
    std::vector<double> x(k), y(k);
    double n = 0, diagonal = 0;
    for (size_t i = 0; i < k; ++i) {
      for (size_t j = 0; j < k; ++j) {
        const double count = sums[1 + i * k + j];
        x[i] += count;
        y[j] += count;
        n += count;
        if (i == j) diagonal += count;
      }
    }
    double spread_x = 0, spread_y = 0, both = 0;
    for (size_t i = 0; i < k; ++i) {
      spread_x += x[i] * (n - x[i]);
      spread_y += y[i] * (n - y[i]);
      both += x[i] * y[i];
    }
    if (spread_x == 0 || spread_y == 0) return std::numeric_limits<double>::quiet_NaN();
    return (diagonal * n - both) / std::sqrt(spread_x * spread_y);
  }
};
[[maybe_unused]] const Kind& pcc = AddKind<Measure, Pcc>({
    .name = "pcc",
    .doc = "Matthews' correlation for any number of classes.",
});

}  // namespace
}  // namespace plait
