// Plain numbers beside arrays in pointwise operators.

#ifndef PLAIT_OPS_POINTWISE_NUMBERS_H_
#define PLAIT_OPS_POINTWISE_NUMBERS_H_

#include <cmath>
#include <limits>

#include "graph/op.h"

namespace plait {

// x, or x as float64 where it is an integer or bool: for arithmetic with fractions.
inline Pw AsFloat(const Pw& x) {
  return IsFloat(x.dtype()) ? x : Cast(x, DType::kFloat64);
}

// x * c, computed with the fraction of c for integers too; in the dtype of x.
inline Pw Scaled(const Pw& x, double c) {
  return Cast(AsFloat(x) * c, x.dtype());
}

// The number nearest to `c`, towards zero, that the dtype can hold.
inline double Saturate(double c, DType dtype) {
  if (IsFloat(dtype)) return c;
  if (dtype == DType::kBool) return c != 0 ? 1 : 0;
  return VisitDType(dtype, [&]<typename T>() -> double {
    if constexpr (std::is_integral_v<T>) {
      using Limits = std::numeric_limits<T>;
      const double low = static_cast<double>(Limits::lowest());
      // The largest 64-bit numbers are no doubles: the next lower double is.
      double high = static_cast<double>(Limits::max());
      if (sizeof(T) == 8) high = std::nextafter(high, 0.0);
      if (std::isnan(c)) return 0;
      return std::trunc(c < low ? low : c > high ? high : c);
    } else {
      return c;
    }
  });
}

}  // namespace plait

#endif  // PLAIT_OPS_POINTWISE_NUMBERS_H_
