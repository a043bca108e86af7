// Numbers made of random bits: uniform and normal, each a pure function of its bits.
//
// Only operations that IEEE 754 rounds exactly are used, and none is contracted, so
// every machine and every vector length gives the same numbers. The functions have no
// branches, and loops over them become vector code.

#ifndef PLAIT_CPU_RANDOM_VALUES_H_
#define PLAIT_CPU_RANDOM_VALUES_H_

#include <bit>
#include <cmath>
#include <cstdint>

namespace plait::cpu {

// In [0, 1), a multiple of 2^-24.
inline float UniformOf(uint32_t bits) {
  return static_cast<float>(static_cast<int32_t>(bits >> 8)) * 0x1p-24f;
}

// In [0, 1), a multiple of 2^-53. The first 52 bits become the fraction of a number in
// [1, 2); the last adds its half unit, or 0, by a mask.
inline double UniformOf(uint64_t bits) {
  const double first = std::bit_cast<double>(bits >> 12 | 0x3FF0000000000000) - 1.0;
  const uint64_t last = -(bits >> 11 & 1) & std::bit_cast<uint64_t>(0x1p-53);
  return first + std::bit_cast<double>(last);
}

// How a float type is made of bits, for Log.
struct FloatBits {
  using Bits = uint32_t;
  static constexpr int kFraction = 23;
  static constexpr Bits kOne = 0x3F800000, kRootHalf = 0x3F3504F3;
  static float ToFloat(Bits n) { return static_cast<float>(static_cast<int32_t>(n)); }
};
struct DoubleBits {
  using Bits = uint64_t;
  static constexpr int kFraction = 52;
  static constexpr Bits kOne = 0x3FF0000000000000, kRootHalf = 0x3FE6A09E667F3BCD;
  // Exact for n < 2^52; AVX2 has no conversion of 64-bit integers.
  static double ToFloat(Bits n) {
    return std::bit_cast<double>(n | 0x4330000000000000) - 0x1p52;
  }
};

// c[0] + c[1] x + c[2] x^2 + ...
template <typename T, int n>
inline T Polynomial(const T (&c)[n], T x) {
  T sum = c[n - 1];
  for (int i = n - 2; i >= 0; --i) sum = sum * x + c[i];
  return sum;
}

// The natural logarithm of a normal x > 0, to a few units in the last place: with
// x = 2^e m and m in [sqrt(1/2), sqrt(2)), log m = 2 artanh((m - 1) / (m + 1)).
template <typename B, typename T>
inline T LogOf(T x, const auto& inverse_odds) {
  using Bits = typename B::Bits;
  const Bits bits = std::bit_cast<Bits>(x);
  const Bits biased = (bits - B::kRootHalf + B::kOne) >> B::kFraction;
  const Bits one = B::kOne >> B::kFraction;
  const T m = std::bit_cast<T>(bits - ((biased - one) << B::kFraction));
  const T e = B::ToFloat(biased) - static_cast<T>(one);
  const T s = (m - 1) / (m + 1);
  return e * static_cast<T>(0.693147180559945309) +
         2 * s * Polynomial(inverse_odds, s * s);
}
inline float Log(float x) {
  static constexpr float kInverseOdds[] = {1, 1.f / 3, 1.f / 5, 1.f / 7, 1.f / 9};
  return LogOf<FloatBits>(x, kInverseOdds);
}
inline double Log(double x) {
  static constexpr double kInverseOdds[] = {1,       1. / 3,  1. / 5,  1. / 7,
                                            1. / 9,  1. / 11, 1. / 13, 1. / 15,
                                            1. / 17, 1. / 19, 1. / 21};
  return LogOf<DoubleBits>(x, kInverseOdds);
}

// The normal distribution's quantile: algorithm AS 241 (Wichura, Applied Statistics 37,
// 1988), PPND7 for float and PPND16 for double. The middle is a rational function of
// q = 1/2 - p, the tail one of r = sqrt(-log p). Here p <= 1/2 always, and the sign
// comes from one more bit.
inline constexpr double kMiddle = 0.425, kMiddleSquare = 0.180625;

// Negative where the first bit is 1; |result| <= 6.4.
inline float NormalOf(uint32_t bits) {
  static constexpr float kA[] = {3.3871327179f, 50.434271938f, 159.29113202f,
                                 59.109374720f};
  static constexpr float kB[] = {1, 17.895169469f, 78.757757664f, 67.187563600f};
  static constexpr float kC[] = {1.4234372777f, 2.7568153900f, 1.3067284816f,
                                 0.17023821103f};
  static constexpr float kD[] = {1, 0.73700164250f, 0.12021132975f};
  const int32_t rest = static_cast<int32_t>(bits & 0x7FFFFFFF);
  // (rest + 1/2) / 2^32, and 1/2 less that; both exact but for one rounding.
  const float p = (static_cast<float>(rest) + 0.5f) * 0x1p-32f;
  const float q = (static_cast<float>(0x7FFFFFFF - rest) + 0.5f) * 0x1p-32f;
  const float s = static_cast<float>(kMiddleSquare) - q * q;
  const float middle = q * Polynomial(kA, s) / Polynomial(kB, s);
  const float r = std::sqrt(-Log(p)) - 1.6f;
  const float tail = Polynomial(kC, r) / Polynomial(kD, r);
  const float size = q <= static_cast<float>(kMiddle) ? middle : tail;
  return std::bit_cast<float>(std::bit_cast<uint32_t>(size) | (bits & 0x80000000));
}

// Above r = 5 (p < 1.4e-11); too rare to compute for each number.
inline double FarTail(double r) {
  static constexpr double kE[] = {6.65790464350110377720,    5.46378491116411436990,
                                  1.78482653991729133580,    2.96560571828504891230e-1,
                                  2.65321895265761230930e-2, 1.24266094738807843860e-3,
                                  2.71155556874348757815e-5, 2.01033439929228813265e-7};
  static constexpr double kF[] = {1,
                                  5.99832206555887937690e-1,
                                  1.36929880922735805310e-1,
                                  1.48753612908506148525e-2,
                                  7.86869131145613259100e-4,
                                  1.84631831751005468180e-5,
                                  1.42151175831644588870e-7,
                                  2.04426310338993978564e-15};
  return Polynomial(kE, r - 5) / Polynomial(kF, r - 5);
}

// p of NormalOf, in steps of 2^-53: bits 11 to 62 of `bits`.
inline double TailOf(uint64_t bits) {
  const uint64_t rest = bits >> 11 & 0x000FFFFFFFFFFFFF;
  return (std::bit_cast<double>(rest | 0x3FF0000000000000) - 1.0 + 0x1p-53) * 0.5;
}
// Must NormalOf be corrected by FarNormalOf?
inline bool IsFarTail(uint64_t bits) {
  return (bits >> 11 & 0x000FFFFFFFFFFFFF) < 125091;
}

// As for float; |result| <= 8.3, after FarNormalOf where IsFarTail.
inline double NormalOf(uint64_t bits) {
  static constexpr double kA[] = {3.3871328727963666080,   1.3314166789178437745e2,
                                  1.9715909503065514427e3, 1.3731693765509461125e4,
                                  4.5921953931549871457e4, 6.7265770927008700853e4,
                                  3.3430575583588128105e4, 2.5090809287301226727e3};
  static constexpr double kB[] = {1,
                                  4.2313330701600911252e1,
                                  6.8718700749205790830e2,
                                  5.3941960214247511077e3,
                                  2.1213794301586595867e4,
                                  3.9307895800092710610e4,
                                  2.8729085735721942674e4,
                                  5.2264952788528545610e3};
  static constexpr double kC[] = {1.42343711074968357734,    4.63033784615654529590,
                                  5.76949722146069140550,    3.64784832476320460504,
                                  1.27045825245236838258,    2.41780725177450611770e-1,
                                  2.27238449892691845833e-2, 7.74545014278341407640e-4};
  static constexpr double kD[] = {1,
                                  2.05319162663775882187,
                                  1.67638483018380384940,
                                  6.89767334985100004550e-1,
                                  1.48103976427480074590e-1,
                                  1.51986665636164571966e-2,
                                  5.47593808499534494600e-4,
                                  1.05075007164441684324e-9};
  const double p = TailOf(bits), q = 0.5 - p;
  const double s = kMiddleSquare - q * q;
  const double middle = q * Polynomial(kA, s) / Polynomial(kB, s);
  const double r = std::sqrt(-Log(p)) - 1.6;
  const double tail = Polynomial(kC, r) / Polynomial(kD, r);
  const double size = q <= kMiddle ? middle : tail;
  return std::bit_cast<double>(std::bit_cast<uint64_t>(size) | (bits & 1ull << 63));
}
inline double FarNormalOf(uint64_t bits) {
  return std::copysign(FarTail(std::sqrt(-Log(TailOf(bits)))),
                       (bits >> 63) ? -1.0 : 1.0);
}

}  // namespace plait::cpu

#endif  // PLAIT_CPU_RANDOM_VALUES_H_
