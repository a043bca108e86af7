// Operators whose elements are weighted sums of pixels of regions, and their
// transposes.
//
// A kind of region (a class R) says which pixels an element of the result adds up:
//   template <typename F> void Taps(int64_t roi, int64_t c, int64_t row, int64_t
//   column,
//                                   F&& f) const;    // f(element of data, weight)
// The forward pass reads them, the gradient with respect to data writes them; both are
// linear, each the transpose of the other.

#ifndef PLAIT_OPS_CONTRIB_ROI_TAPS_H_
#define PLAIT_OPS_CONTRIB_ROI_TAPS_H_

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/parallel.h"
#include "cpu/pointwise.h"
#include "graph/op.h"

namespace plait {

// The longest side of a region, in pixels of data, whose pixels are all sampled.
inline constexpr double kMostPixels = 20000;

// A float64 copy of an array of any dtype.
inline std::vector<double> Doubles(const View& x) {
  std::vector<double> values(static_cast<size_t>(x.size()));
  cpu::Convert(x.ptr, x.dtype, values.data(), DType::kFloat64, x.size());
  return values;
}

// The image of a region: its first number without the fraction. Throws kIndex where
// there is none.
inline int64_t ImageOf(double number, int64_t images, int64_t roi, const char* op) {
  Check(number > -1 && number < static_cast<double>(images), ErrorKind::kIndex, op,
        ": region ", roi, " is in image ", number, "; a number from 0 to ", images - 1,
        " was expected");
  return static_cast<int64_t>(number);
}

// Calls f(offset in a plane, weight) for the pixels around (y, x), which count as far
// as one pixel beyond the edges; nothing further away.
template <typename F>
void BilinearTaps(double y, double x, int64_t height, int64_t width, F&& f) {
  if (height == 0 || width == 0) return;
  if (!(y >= -1 && y <= static_cast<double>(height) && x >= -1 &&
        x <= static_cast<double>(width))) {
    return;
  }
  y = std::clamp(y, 0.0, static_cast<double>(height - 1));
  x = std::clamp(x, 0.0, static_cast<double>(width - 1));
  const auto top = static_cast<int64_t>(y), left = static_cast<int64_t>(x);
  const int64_t bottom = std::min(top + 1, height - 1);
  const int64_t right = std::min(left + 1, width - 1);
  const double down = y - static_cast<double>(top),
               across = x - static_cast<double>(left);
  f(top * width + left, (1 - down) * (1 - across));
  f(top * width + right, (1 - down) * across);
  f(bottom * width + left, down * (1 - across));
  f(bottom * width + right, down * across);
}

// Calls f(element of the result, roi, c, row, column) for one region.
template <typename F>
void ForEachElement(const Shape& y, int64_t roi, F&& f) {
  int64_t i = roi * y[1] * y[2] * y[3];
  for (int64_t c = 0; c < y[1]; ++c)
    for (int64_t row = 0; row < y[2]; ++row)
      for (int64_t column = 0; column < y[3]; ++column) f(i++, c, row, column);
}

// y (rois, channels, height, width) from data.
template <typename R>
void SumTaps(const R& regions, const View& x, const View& y) {
  VisitFloat(y.dtype, [&]<typename T>() {
    const T* data = x.data<const T>();
    ParallelFor(y.shape()[0], 1, [&](int64_t first, int64_t last) {
      for (int64_t roi = first; roi < last; ++roi) {
        ForEachElement(
            y.shape(), roi, [&](int64_t i, int64_t c, int64_t row, int64_t column) {
              double sum = 0;
              regions.Taps(roi, c, row, column, [&](int64_t at, double weight) {
                sum +=
                    weight * static_cast<double>(static_cast<Accumulate<T>>(data[at]));
              });
              y.data<T>()[i] = static_cast<T>(static_cast<Accumulate<T>>(sum));
            });
      }
    });
  });
}

// dx of the shape of data from dy. Regions overlap, so that one thread does it all, in
// a fixed order.
template <typename R>
void SpreadTaps(const R& regions, const View& dy, const View& dx) {
  std::vector<double> sums(static_cast<size_t>(dx.size()));
  const std::vector<double> flow = Doubles(dy);
  for (int64_t roi = 0; roi < dy.shape()[0]; ++roi) {
    ForEachElement(dy.shape(), roi,
                   [&](int64_t i, int64_t c, int64_t row, int64_t column) {
                     regions.Taps(roi, c, row, column, [&](int64_t at, double weight) {
                       sums[at] += weight * flow[i];
                     });
                   });
  }
  cpu::Convert(sums.data(), DType::kFloat64, dx.ptr, dx.dtype, dx.size());
}

}  // namespace plait

#endif  // PLAIT_OPS_CONTRIB_ROI_TAPS_H_
