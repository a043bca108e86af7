// Special functions that the C library lacks or keeps global state for.

#include "cpu/plain_words.h"

#include <math.h>  // lgamma_r

namespace plait::cpu::plain {

double Gammaln(double x) {
  int sign;
  return ::lgamma_r(x, &sign);
}

// Reflection for negative arguments, the recurrence psi(x) = psi(x + 1) - 1 / x up to
// 10, then the asymptotic series. Poles give infinity.
double Digamma(double x) {
  if (!(x > -std::numeric_limits<double>::infinity())) return x - x;
  if (x <= 0) {
    const double nearest = std::round(x);
    if (x == nearest) return std::numeric_limits<double>::infinity();
    constexpr double kPi = 3.14159265358979323846;
    return Digamma(1 - x) - kPi / std::tan(kPi * (x - nearest));
  }
  // The one positive zero: the sum below would lose every digit there.
  constexpr double kZero = 1.4616321449683622, kZeroLow = 9.5499954299656977e-17;
  if (std::fabs(x - kZero) < 0.02) {
    // Taylor's series: derivatives of psi at the zero, divided by factorials.
    constexpr double kTaylor[] = {0.96767224544762117,  -0.44276316898359211,
                                  0.25849976095565101,  -0.16394270544240653,
                                  0.10782405069126237,  -0.072199561256454711,
                                  0.048804288164143107, -0.033161126474847359,
                                  0.022597648232218105, -0.015424765904948959};
    const double t = (x - kZero) - kZeroLow;
    double sum = 0;
    for (int i = 9; i >= 0; --i) sum = (sum + kTaylor[i]) * t;
    return sum;
  }
  double shift = 0;
  for (; x < 10; ++x) shift += 1 / x;
  const double z = 1 / (x * x);
  // Bernoulli numbers B(2k) / 2k.
  const double series =
      z *
      (1.0 / 12 -
       z * (1.0 / 120 -
            z * (1.0 / 252 -
                 z * (1.0 / 240 - z * (1.0 / 132 - z * (691.0 / 32760 - z / 12))))));
  return std::log(x) - 0.5 / x - series - shift;
}

// A first guess good to 2e-3, then three of Halley's steps, each of which makes the
// number of right digits three times as large. In the tail 1 - x is exact.
double Erfinv(double x) {
  const double a = std::fabs(x);
  if (!(a <= 1)) return std::numeric_limits<double>::quiet_NaN();
  if (a == 1) return std::copysign(std::numeric_limits<double>::infinity(), x);
  constexpr double kHalfSqrtPi = 0.88622692545275801365;
  if (a < 1e-9) return x * kHalfSqrtPi;
  const double log = std::log1p(-a * a);
  constexpr double kA = 0.147, kTwoOverPiA = 4.330746750799873;  // 2 / (pi a)
  const double half = kTwoOverPiA + log / 2;
  double y = std::sqrt(std::sqrt(half * half - log / kA) - half);
  for (int i = 0; i < 3; ++i) {
    const double error = a < 0.5 ? std::erf(y) - a : (1 - a) - std::erfc(y);
    const double step = error * kHalfSqrtPi * std::exp(y * y);
    y -= step / (1 + y * step);
  }
  return std::copysign(y, x);
}

}  // namespace plait::cpu::plain
