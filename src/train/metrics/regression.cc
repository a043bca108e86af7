// Metrics of numbers: errors, correlation, and the mean of a loss.

#include "train/metric.h"
#include "train/metrics/numbers.h"

namespace plait {
namespace {

// A vector counts as a column.
Shape ColumnShape(const Shape& shape) {
  return shape.rank() == 1 ? Shape{shape[0], 1} : shape;
}

// The size of an axis of x, counted from the end, in the space of both.
int64_t SizeFromEnd(const Shape& x, int i) {
  return i < x.rank() ? x[x.rank() - 1 - i] : 1;
}

// The element of x at a place of the space that x is broadcast to.
int64_t PlaceIn(const Shape& x, const Shape& space, int64_t place) {
  int64_t at = 0, step = 1;
  for (int i = 0; i < space.rank(); ++i) {
    const int64_t size = SizeFromEnd(x, i), all = space[space.rank() - 1 - i];
    if (size > 1) at += place % all * step;
    step *= size;
    place /= all;
  }
  return at;
}

// An error of each pair of arrays, averaged over the pairs.
class ErrorMeasure : public Measure {
 public:
  void Add(std::span<const View> labels, std::span<const View> preds,
           std::span<double> sums) const override {
    for (size_t k = 0; k < preds.size(); ++k) {
      const std::vector<double> y = NumbersOf(labels[k]), p = NumbersOf(preds[k]);
      const Shape a = ColumnShape(labels[k].shape()), b = ColumnShape(preds[k].shape());
      const Shape space = SpaceOf(a, b);
      const int64_t n = space.size();
      double total = 0;
      for (int64_t i = 0; i < n; ++i) {
        const bool plain = a == b;
        const auto at_y = static_cast<size_t>(plain ? i : PlaceIn(a, space, i));
        const auto at_p = static_cast<size_t>(plain ? i : PlaceIn(b, space, i));
        total += ErrorOf(y[at_y] - p[at_p]);
      }
      sums[0] += Result(total / static_cast<double>(n));
      sums[1] += 1;
    }
  }

 protected:
  virtual double ErrorOf(double difference) const = 0;
  virtual double Result(double mean) const { return mean; }
  void CheckPair(const NDArray& label, const NDArray& pred) const override {
    const Shape a = ColumnShape(label.shape()), b = ColumnShape(pred.shape());
    for (int i = 0; i < std::max(a.rank(), b.rank()); ++i) {
      const int64_t x = SizeFromEnd(a, i), y = SizeFromEnd(b, i);
      Check(x == y || x == 1 || y == 1, kind().name, ": the shape of labels ",
            label.shape(), " does not match the shape of predictions ", pred.shape(),
            "; shapes that broadcast were expected");
    }
  }

 private:
  static Shape SpaceOf(const Shape& a, const Shape& b) {
    Shape space = a.rank() >= b.rank() ? a : b;
    for (int i = 0; i < space.rank(); ++i) {
      const int64_t x = SizeFromEnd(a, i), y = SizeFromEnd(b, i);
      space[space.rank() - 1 - i] = x == 1 ? y : x;
    }
    return space;
  }
};

class Mae final : public ErrorMeasure {
 protected:
  double ErrorOf(double difference) const override { return std::abs(difference); }
};
[[maybe_unused]] const Kind& mae =
    AddKind<Measure, Mae>({.name = "mae", .doc = "Mean absolute error."});

class Mse : public ErrorMeasure {
 protected:
  double ErrorOf(double difference) const override { return difference * difference; }
};
[[maybe_unused]] const Kind& mse =
    AddKind<Measure, Mse>({.name = "mse", .doc = "Mean squared error."});

class Rmse final : public Mse {
 protected:
  double Result(double mean) const override { return std::sqrt(mean); }
};
[[maybe_unused]] const Kind& rmse = AddKind<Measure, Rmse>(
    {.name = "rmse", .doc = "Root of the mean squared error of each batch."});

// Number, means and products of two series, and the number of pairs of arrays.
struct Moments {
  double n = 0, mean_y = 0, mean_p = 0, yy = 0, yp = 0, pp = 0;

  static Moments Of(const std::vector<double>& y, const std::vector<double>& p) {
    Moments m;
    m.n = static_cast<double>(y.size());
    for (size_t i = 0; i < y.size(); ++i) {
      m.mean_y += y[i] / m.n;
      m.mean_p += p[i] / m.n;
    }
    for (size_t i = 0; i < y.size(); ++i) {
      const double dy = y[i] - m.mean_y, dp = p[i] - m.mean_p;
      m.yy += dy * dy;
      m.yp += dy * dp;
      m.pp += dp * dp;
    }
    return m;
  }
  // Chan's formula for joining two sets.
  void Join(const Moments& o) {
    const double total = n + o.n;
    if (o.n == 0) return;
    const double dy = o.mean_y - mean_y, dp = o.mean_p - mean_p, f = n * o.n / total;
    yy += o.yy + dy * dy * f;
    yp += o.yp + dy * dp * f;
    pp += o.pp + dp * dp * f;
    mean_y += dy * o.n / total;
    mean_p += dp * o.n / total;
    n = total;
  }
  double Correlation() const { return yp / std::sqrt(yy * pp); }
};

// Pearson's correlation: the mean over pairs of arrays (macro), or of all values.
class Pearson final : public Measure {
 public:
  std::string average = "macro";

  void Add(std::span<const View> labels, std::span<const View> preds,
           std::span<double> sums) const override {
    Moments all;
    for (size_t k = 0; k < preds.size(); ++k) {
      const Moments m = Moments::Of(NumbersOf(labels[k]), NumbersOf(preds[k]));
      if (average == "macro") sums[0] += m.Correlation();
      all.Join(m);
    }
    sums[1] = static_cast<double>(preds.size());
    if (average != "macro") Store(all, sums);
  }
  void Join(std::span<const double> batch, std::span<double> sums) const override {
    if (average == "macro") return Measure::Join(batch, sums);
    Moments all = Load(sums);
    all.Join(Load(batch));
    Store(all, sums);
    sums[1] += batch[1];
  }
  double ValueOf(std::span<const double> sums) const override {
    if (average == "macro" || sums[1] == 0) return Measure::ValueOf(sums);
    return Load(sums).Correlation();
  }

 protected:
  int64_t NumSums() const override { return average == "macro" ? 2 : 8; }
  void CheckPair(const NDArray& label, const NDArray& pred) const override {
    Check(label.shape() == pred.shape(), "pearsonr: the shape of labels ",
          label.shape(), " does not match the shape of predictions ", pred.shape(),
          "; equal shapes were expected");
  }

 private:
  static Moments Load(std::span<const double> s) {
    return {s[2], s[3], s[4], s[5], s[6], s[7]};
  }
  static void Store(const Moments& m, std::span<double> s) {
    const double values[] = {m.n, m.mean_y, m.mean_p, m.yy, m.yp, m.pp};
    std::copy(std::begin(values), std::end(values), s.begin() + 2);
  }
};
[[maybe_unused]] const Kind& pearson = AddKind<Measure, Pearson>({
    .name = "pearsonr",
    .aliases = {"pearsoncorrelation"},
    .doc = "Pearson's correlation.",
    .attributes = {{"average", &Pearson::average, "macro or micro."}},
});

class Loss final : public Measure {
 public:
  void Add(std::span<const View>, std::span<const View> preds,
           std::span<double> sums) const override {
    for (const View& pred : preds) {
      for (double x : NumbersOf(pred)) sums[0] += x;
      sums[1] += static_cast<double>(pred.size());
    }
  }

 protected:
  bool UsesLabels() const override { return false; }
  void CheckPair(const NDArray&, const NDArray&) const override {}
};
[[maybe_unused]] const Kind& loss = AddKind<Measure, Loss>({
    .name = "loss",
    .aliases = {"torch", "caffe"},
    .doc = "The mean of all outputs; labels are ignored.",
});

}  // namespace
}  // namespace plait
