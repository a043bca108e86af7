// Metrics of class predictions: accuracy, likelihood.

#include <numeric>

#include "train/metric.h"
#include "train/metrics/numbers.h"

namespace plait {
namespace {

class Accuracy final : public Measure {
 public:
  int64_t axis = 1;

  void Add(std::span<const View> labels, std::span<const View> preds,
           std::span<double> sums) const override {
    for (size_t k = 0; k < preds.size(); ++k) {
      const std::vector<int64_t> wanted = ClassesOf(labels[k]);
      const std::vector<int64_t> got = preds[k].shape() == labels[k].shape()
                                           ? ClassesOf(preds[k])
                                           : LargestAlong(preds[k], axis);
      for (size_t i = 0; i < wanted.size(); ++i) sums[0] += wanted[i] == got[i];
      sums[1] += static_cast<double>(wanted.size());
    }
  }

 protected:
  void CheckPair(const NDArray& label, const NDArray& pred) const override {
    if (label.shape() == pred.shape()) return;
    Check(IsAxisOf(axis, pred.shape()), ErrorKind::kIndex, "accuracy: axis ", axis,
          " is out of range for predictions of shape ", pred.shape());
    const AxisSizes s = SizesAround(pred.shape(), axis);
    CheckSizes("accuracy", label, pred, s.outer * s.inner);
    Check(s.along > 0, "accuracy: predictions of shape ", pred.shape(),
          " have no classes");
  }
};
[[maybe_unused]] const Kind& accuracy = AddKind<Measure, Accuracy>({
    .name = "accuracy",
    .aliases = {"acc"},
    .doc = "Share of right predictions; scores are reduced by argmax over an axis.",
    .attributes = {{"axis", &Accuracy::axis, "The axis of the classes."}},
});

// How many scores stand behind this one in ascending order; equal ones by place.
int64_t RankFromTop(const View& pred, int64_t row, int64_t classes, int64_t label) {
  int64_t ahead = 0;
  VisitDType(pred.dtype, [&]<typename T>() {
    const T* scores = pred.data<const T>() + row * classes;
    const auto own = static_cast<double>(scores[label]);
    for (int64_t j = 0; j < classes; ++j) {
      const auto other = static_cast<double>(scores[j]);
      ahead += other > own || (other == own && j > label);
    }
  });
  return ahead;
}

class TopK final : public Measure {
 public:
  int64_t top_k = 2;

  void Complete() override {
    Check(top_k > 1, "top_k_accuracy: top_k is ", top_k,
          "; more than 1 was expected: use accuracy for the best alone");
  }

  void Add(std::span<const View> labels, std::span<const View> preds,
           std::span<double> sums) const override {
    for (size_t k = 0; k < preds.size(); ++k) {
      const std::vector<int64_t> wanted = ClassesOf(labels[k]);
      sums[1] += static_cast<double>(preds[k].shape()[0]);
      if (preds[k].shape().rank() == 1) {
        AddOrder(preds[k], wanted, sums);
        continue;
      }
      const int64_t classes = preds[k].shape()[1];
      for (size_t i = 0; i < wanted.size(); ++i) {
        if (wanted[i] < 0 || wanted[i] >= classes) continue;
        sums[0] +=
            RankFromTop(preds[k], static_cast<int64_t>(i), classes, wanted[i]) < top_k;
      }
    }
  }

 protected:
  void CheckPair(const NDArray& label, const NDArray& pred) const override {
    const int rank = pred.shape().rank();
    Check(rank == 1 || rank == 2, "top_k_accuracy: predictions have shape ",
          pred.shape(), "; predictions should be no more than 2 dims");
    CheckSizes("top_k_accuracy", label, pred, pred.shape()[0]);
  }

 private:
  // Of a vector, as in MXNet: the order of its elements against the labels.
  static void AddOrder(const View& pred, const std::vector<int64_t>& wanted,
                       std::span<double> sums) {
    const std::vector<double> scores = NumbersOf(pred);
    std::vector<int64_t> order(scores.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
      return scores[static_cast<size_t>(a)] < scores[static_cast<size_t>(b)];
    });
    for (size_t i = 0; i < order.size(); ++i) sums[0] += order[i] == wanted[i];
  }
};
[[maybe_unused]] const Kind& top_k = AddKind<Measure, TopK>({
    .name = "top_k_accuracy",
    .aliases = {"top_k_acc"},
    .doc = "Share of labels among the highest scores.",
    .attributes = {{"top_k", &TopK::top_k, "How many."}},
});

class Perplexity final : public Measure {
 public:
  std::optional<double> ignore_label;
  int64_t axis = -1;

  void Add(std::span<const View> labels, std::span<const View> preds,
           std::span<double> sums) const override {
    for (size_t k = 0; k < preds.size(); ++k) {
      VisitComputed(preds[k].dtype,
                    [&]<typename T>() { AddPair<T>(labels[k], preds[k], sums); });
    }
  }
  double ValueOf(std::span<const double> sums) const override {
    return std::exp(Measure::ValueOf(sums));
  }

 protected:
  void CheckPair(const NDArray& label, const NDArray& pred) const override {
    Check(IsAxisOf(axis, pred.shape()), ErrorKind::kIndex, "perplexity: axis ", axis,
          " is out of range for predictions of shape ", pred.shape());
    const AxisSizes s = SizesAround(pred.shape(), axis);
    Check(label.size() == s.outer * s.inner, "perplexity: shape mismatch: labels ",
          label.shape(), " vs. predictions ", pred.shape(), "; ", s.outer * s.inner,
          " labels were expected");
  }

 private:
  template <typename T>
  void AddPair(const View& labels, const View& pred, std::span<double> sums) const {
    const std::vector<double> wanted = NumbersOf(labels);
    const AxisSizes s = SizesAround(pred.shape(), axis);
    const int64_t last = std::max<int64_t>(s.along, 1) - 1;
    BlockSum<T> sum;
    for (size_t i = 0; i < wanted.size(); ++i) {
      if (ignore_label && wanted[i] == *ignore_label) continue;
      const int64_t label = std::clamp<int64_t>(ClassOf(wanted[i]), 0, last);
      const auto place = static_cast<int64_t>(i);
      const auto p = static_cast<T>(NumberAt(
          pred, (place / s.inner * s.along + label) * s.inner + place % s.inner));
      const auto least = static_cast<T>(1e-10);
      sum.Add(-std::log(p < least ? least : p));
      sums[1] += 1;
    }
    sums[0] += sum.Total();
  }
};
[[maybe_unused]] const Kind& perplexity = AddKind<Measure, Perplexity>({
    .name = "perplexity",
    .doc = "exp of the mean of -log p[label].",
    .attributes = {{"ignore_label", &Perplexity::ignore_label,
                    "A label that does not count."},
                   {"axis", &Perplexity::axis, "The axis of the classes."}},
});

// -log(p[label] + eps), for each row.
class Likelihood final : public Measure {
 public:
  double eps = 1e-12;

  void Add(std::span<const View> labels, std::span<const View> preds,
           std::span<double> sums) const override {
    for (size_t k = 0; k < preds.size(); ++k) {
      VisitComputed(preds[k].dtype,
                    [&]<typename T>() { AddPair<T>(labels[k], preds[k], sums); });
    }
  }

 protected:
  void CheckPair(const NDArray& label, const NDArray& pred) const override {
    Check(pred.shape().rank() == 2, kind().name, ": predictions have shape ",
          pred.shape(), "; two axes were expected");
    CheckSizes(kind().name, label, pred, pred.shape()[0]);
  }

 private:
  template <typename T>
  void AddPair(const View& labels, const View& pred, std::span<double> sums) const {
    const int64_t classes = pred.shape()[1];
    const std::vector<int64_t> wanted = ClassesOf(labels);
    BlockSum<T> sum;
    for (size_t i = 0; i < wanted.size(); ++i) {
      const int64_t label = wanted[i] < 0 ? wanted[i] + classes : wanted[i];
      Check(label >= 0 && label < classes, ErrorKind::kIndex, kind().name, ": label ",
            wanted[i], " is out of range for ", classes, " classes");
      const auto p =
          static_cast<T>(NumberAt(pred, static_cast<int64_t>(i) * classes + label));
      sum.Add(-std::log(p + static_cast<T>(eps)));
    }
    sums[0] += sum.Total();
    sums[1] += static_cast<double>(wanted.size());
  }
};
[[maybe_unused]] const Kind& cross_entropy = AddKind<Measure, Likelihood>({
    .name = "cross-entropy",
    .aliases = {"ce", "crossentropy", "nll-loss", "nll_loss", "negativeloglikelihood"},
    .doc = "Mean of -log(p[label] + eps).",
    .attributes = {{"eps", &Likelihood::eps, "Keeps the logarithm finite."}},
});

}  // namespace
}  // namespace plait
