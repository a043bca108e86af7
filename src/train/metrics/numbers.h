// Elements of arrays of any dtype as doubles and integers, for the loops of metrics.

#ifndef PLAIT_TRAIN_METRICS_NUMBERS_H_
#define PLAIT_TRAIN_METRICS_NUMBERS_H_

#include <algorithm>
#include <cmath>
#include <vector>

#include "cpu/pointwise.h"
#include "graph/op.h"
#include "ndarray/ndarray.h"

namespace plait {

inline std::vector<double> NumbersOf(const View& x) {
  std::vector<double> numbers(static_cast<size_t>(x.size()));
  if (x.size() > 0)
    cpu::Convert(x.ptr, x.dtype, numbers.data(), DType::kFloat64, x.size());
  return numbers;
}

// An element by itself.
inline double NumberAt(const View& x, int64_t i) {
  return VisitDType(
      x.dtype, [&]<typename T>() { return static_cast<double>(x.data<const T>()[i]); });
}

// The type in which numbers of a dtype are computed and added up, as NumPy does: so
// that values are those that a program computes to compare with.
template <typename F>
auto VisitComputed(DType dtype, F&& f) {
  return dtype == DType::kFloat64 ? f.template operator()<double>()
                                  : f.template operator()<float>();
}

// A sum in the type T of up to kBlock numbers; more are added up block by block.
template <typename T>
class BlockSum {
 public:
  void Add(T x) {
    block_ += x;
    if (++count_ % kBlock == 0) Flush();
  }
  double Total() {
    Flush();
    return static_cast<double>(static_cast<T>(total_));
  }

 private:
  static constexpr int64_t kBlock = 64;
  void Flush() {
    total_ += static_cast<double>(block_);
    block_ = 0;
  }

  T block_ = 0;
  double total_ = 0;
  int64_t count_ = 0;
};

// Labels are cut to integers; what no integer holds is a class that nobody predicts.
inline int64_t ClassOf(double number) {
  return std::abs(number) < 9e15 ? static_cast<int64_t>(number) : int64_t{-1} << 60;
}
inline std::vector<int64_t> ClassesOf(const View& x) {
  std::vector<int64_t> classes;
  classes.reserve(static_cast<size_t>(x.size()));
  for (double number : NumbersOf(x)) classes.push_back(ClassOf(number));
  return classes;
}

// The sizes before, along and behind an axis.
struct AxisSizes {
  int64_t outer = 1, along = 1, inner = 1;
};
inline AxisSizes SizesAround(const Shape& shape, int64_t axis) {
  const int rank = shape.rank();
  const int64_t a = axis < 0 ? axis + rank : axis;
  return {shape.size(0, static_cast<int>(a)), shape[static_cast<int>(a)],
          shape.size(static_cast<int>(a) + 1, rank)};
}
inline bool IsAxisOf(int64_t axis, const Shape& shape) {
  return axis >= -shape.rank() && axis < shape.rank();
}

// The place of the largest element along an axis, the first of equal ones.
inline std::vector<int64_t> LargestAlong(const View& x, int64_t axis) {
  const AxisSizes s = SizesAround(x.shape(), axis);
  std::vector<int64_t> largest(static_cast<size_t>(s.outer * s.inner));
  VisitDType(x.dtype, [&]<typename T>() {
    for (int64_t o = 0; o < s.outer; ++o) {
      for (int64_t i = 0; i < s.inner; ++i) {
        const T* first = x.data<const T>() + o * s.along * s.inner + i;
        int64_t best = 0;
        auto value = static_cast<double>(first[0]);
        for (int64_t k = 1; k < s.along; ++k) {
          const auto other = static_cast<double>(first[k * s.inner]);
          if (other > value) {
            best = k;
            value = other;
          }
        }
        largest[static_cast<size_t>(o * s.inner + i)] = best;
      }
    }
  });
  return largest;
}

// Throws when labels and predictions do not have as many elements, or rows.
inline void CheckSizes(const std::string& metric, const NDArray& label,
                       const NDArray& pred, int64_t predictions) {
  Check(label.size() == predictions, metric, ": the shape of labels ", label.shape(),
        " does not match the shape of predictions ", pred.shape(), "; ", predictions,
        " labels were expected");
}

}  // namespace plait

#endif  // PLAIT_TRAIN_METRICS_NUMBERS_H_
