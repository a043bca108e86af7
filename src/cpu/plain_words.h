// Plain words: every scalar function for one element, in the most obvious code.
//
// They are the meaning of the functions: the oracle that tests compare the vector words
// with, the fallback on processors without vector words, and the rare functions' own
// kernels. Float32 words are computed in double and rounded once.

#ifndef PLAIT_CPU_PLAIN_WORDS_H_
#define PLAIT_CPU_PLAIN_WORDS_H_

#include <bit>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "graph/pointwise.h"

namespace plait::cpu::plain {

double Digamma(double x);
double Erfinv(double x);

// std::lgamma writes a global variable; this one does not.
double Gammaln(double x);

// From float to integer: toward zero, to the nearest bound outside the range, and NaN
// to 0. Negative numbers become unsigned by wrapping, as the small dtypes do. The rest
// are C++'s own conversions, which wrap integers.
template <typename To, typename From>
constexpr To CastValue(From x) {
  if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    constexpr From kEnd =
        static_cast<From>(To{1} << (std::numeric_limits<To>::digits - 1)) *
        2;  // one above the largest
    if (x != x) return 0;
    if (x >= kEnd) return std::numeric_limits<To>::max();
    if constexpr (std::is_unsigned_v<To>) {
      if (x < 0) return static_cast<To>(CastValue<std::make_signed_t<To>>(x));
    } else {
      if (x < -kEnd) return std::numeric_limits<To>::min();
    }
    return static_cast<To>(x);
  } else {
    return static_cast<To>(x);
  }
}

// A double that is about to be rounded to a half type on the way through float: an
// inexact value gets an odd last bit, so that the second rounding sees what the first
// one lost.
inline float RoundToOdd(double x) {
  const float f = static_cast<float>(x);
  const uint32_t bits = std::bit_cast<uint32_t>(f);
  if (x != x || static_cast<double>(f) == x || (bits & 1)) return f;
  const bool too_large = std::fabs(static_cast<double>(f)) > std::fabs(x);
  return std::bit_cast<float>(too_large ? bits - 1 : bits + 1);
}

// The end of a step whose dtype is narrower than its compute type.
template <typename T>
T Narrow(DType dtype, T x) {
  if constexpr (std::is_same_v<T, float>) {
    if (dtype == DType::kFloat16) return Float16(x);
    if (dtype == DType::kBfloat16) return Bfloat16(x);
    return x;
  } else if constexpr (std::is_same_v<T, double>) {
    return x;
  } else {
    switch (dtype) {
      case DType::kBool:
        return x != 0;
      case DType::kInt8:
        return static_cast<T>(static_cast<int8_t>(x));
      case DType::kInt16:
        return static_cast<T>(static_cast<int16_t>(x));
      case DType::kInt32:
        return static_cast<T>(static_cast<int32_t>(x));
      case DType::kUint8:
        return static_cast<T>(static_cast<uint8_t>(x));
      case DType::kUint16:
        return static_cast<T>(static_cast<uint16_t>(x));
      case DType::kUint32:
        return static_cast<T>(static_cast<uint32_t>(x));
      default:
        return x;
    }
  }
}

// A kCast step: from one compute type to another, ending in `dtype`.
template <typename To, typename From>
To Cast(DType dtype, From x) {
  if (dtype == DType::kBool) return x != 0;
  if constexpr (std::is_same_v<To, float> && std::is_same_v<From, double>) {
    if (IsHalf(dtype)) return Narrow(dtype, RoundToOdd(x));
  }
  return Narrow(dtype, CastValue<To>(x));
}

// Wrapping arithmetic of integers.
template <std::integral T>
constexpr T Wrap(std::make_unsigned_t<T> value) {
  return static_cast<T>(value);
}

template <std::integral T>
constexpr T Div(T a, T b) {
  if (b == 0) return 0;
  if constexpr (std::is_signed_v<T>) {
    if (b == -1) return Wrap<T>(0 - static_cast<std::make_unsigned_t<T>>(a));
  }
  return a / b;
}

// The remainder with the sign of the divisor.
template <std::integral T>
constexpr T Mod(T a, T b) {
  if (b == 0) return 0;
  if constexpr (std::is_signed_v<T>) {
    if (b == -1) return 0;
    const T r = a % b;
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
  } else {
    return a % b;
  }
}

template <std::floating_point T>
T Mod(T a, T b) {
  if (b == 0) return 0;
  const T r = std::fmod(a, b);
  if (r == 0) return std::copysign(T{0}, b);
  return (r < 0) != (b < 0) ? r + b : r;
}

template <std::integral T>
constexpr T Power(T base, T exponent) {
  using U = std::make_unsigned_t<T>;
  if constexpr (std::is_signed_v<T>) {
    if (exponent < 0) {
      if (base == 1) return 1;
      if (base == -1) return exponent & 1 ? -1 : 1;
      return 0;
    }
  }
  U result = 1, square = static_cast<U>(base);
  for (U e = static_cast<U>(exponent); e != 0; e >>= 1) {
    if (e & 1) result *= square;
    square *= square;
  }
  return Wrap<T>(result);
}

// Ties go to the lower integer.
template <std::floating_point T>
T Rint(T x) {
  const T floor = std::floor(x), ceil = std::ceil(x);
  return x - floor <= ceil - x ? floor : ceil;
}

// Doubles: the functions that exist for floats only.
inline double FloatOnly(Fn fn, double x, double y) {
  switch (fn) {
    case Fn::kSqrt:
      return std::sqrt(x);
    case Fn::kRsqrt:
      return 1 / std::sqrt(x);
    case Fn::kCbrt:
      return std::cbrt(x);
    case Fn::kRcbrt:
      return 1 / std::cbrt(x);
    case Fn::kReciprocal:
      return 1 / x;
    case Fn::kExp:
      return std::exp(x);
    case Fn::kExp2:
      return std::exp2(x);
    case Fn::kExpm1:
      return std::expm1(x);
    case Fn::kLog:
      return std::log(x);
    case Fn::kLog2:
      return std::log2(x);
    case Fn::kLog10:
      return std::log10(x);
    case Fn::kLog1p:
      return std::log1p(x);
    case Fn::kSin:
      return std::sin(x);
    case Fn::kCos:
      return std::cos(x);
    case Fn::kTan:
      return std::tan(x);
    case Fn::kArcsin:
      return std::asin(x);
    case Fn::kArccos:
      return std::acos(x);
    case Fn::kArctan:
      return std::atan(x);
    case Fn::kSinh:
      return std::sinh(x);
    case Fn::kCosh:
      return std::cosh(x);
    case Fn::kTanh:
      return std::tanh(x);
    case Fn::kArcsinh:
      return std::asinh(x);
    case Fn::kArccosh:
      return std::acosh(x);
    case Fn::kArctanh:
      return std::atanh(x);
    case Fn::kErf:
      return std::erf(x);
    case Fn::kErfinv:
      return Erfinv(x);
    case Fn::kGamma:
      return std::tgamma(x);
    case Fn::kGammaln:
      return Gammaln(x);
    case Fn::kDigamma:
      return Digamma(x);
    case Fn::kSigmoid: {
      const double e = std::exp(-std::fabs(x));
      return x < 0 ? e / (1 + e) : 1 / (1 + e);
    }
    case Fn::kLogSigmoid:
      return (x < 0 ? x : 0) - std::log1p(std::exp(-std::fabs(x)));
    case Fn::kSoftrelu:
      return x > 20 ? x : std::log1p(std::exp(x));
    case Fn::kPower:
      return std::pow(x, y);
    case Fn::kHypot:
      return std::hypot(x, y);
    case Fn::kArctan2:
      return std::atan2(x, y);
    case Fn::kCopysign:
      return std::copysign(x, y);
    case Fn::kLdexp: {  // 2^y may be out of range though the product is not
      y = y > 3000 ? 3000 : y < -3000 ? -3000 : y;
      const double part = std::trunc(y * (1.0 / 3)), power = std::exp2(part);
      return x * power * power * std::exp2(y - part - part);
    }
    default:
      return 0;  // not reached: Word() has the others
  }
}

// The value of one step's function. A kCast is not a word: see Cast().
template <typename T>
T Word(Fn fn, T x, T y, T z) {
  using U = std::conditional_t<std::is_integral_v<T>, T, double>;
  constexpr bool kFloat = std::is_floating_point_v<T>;
  switch (fn) {
    case Fn::kCopy:
    case Fn::kCast:
      return x;
    case Fn::kNegative:
      if constexpr (kFloat)
        return -x;
      else
        return Wrap<T>(0 - static_cast<std::make_unsigned_t<T>>(x));
    case Fn::kAbs:
      if constexpr (kFloat)
        return std::fabs(x);
      else if (x > 0)
        return x;
      else
        return Wrap<T>(0 - static_cast<std::make_unsigned_t<T>>(x));
    case Fn::kSign:
      return static_cast<T>((x > 0) - (x < 0));
    case Fn::kRound:
      if constexpr (kFloat)
        return std::round(x);
      else
        return x;
    case Fn::kRint:
      if constexpr (kFloat)
        return Rint(x);
      else
        return x;
    case Fn::kCeil:
      if constexpr (kFloat)
        return std::ceil(x);
      else
        return x;
    case Fn::kFloor:
      if constexpr (kFloat)
        return std::floor(x);
      else
        return x;
    case Fn::kTrunc:
      if constexpr (kFloat)
        return std::trunc(x);
      else
        return x;
    case Fn::kSoftsign:
      if constexpr (kFloat)
        return x / (1 + std::fabs(x));
      else
        return x;
    case Fn::kRelu:
      return x > 0 || x != x ? x : T{0};
    case Fn::kLogicalNot:
      return x == 0;
    case Fn::kIsNan:
      return x != x;
    case Fn::kIsInf:
      if constexpr (kFloat)
        return std::isinf(x);
      else
        return 0;
    case Fn::kIsFinite:
      if constexpr (kFloat)
        return std::isfinite(x);
      else
        return 1;
    case Fn::kSquare:
      return Word<T>(Fn::kMul, x, x, T{});
    case Fn::kAdd:
      if constexpr (kFloat)
        return x + y;
      else
        return Wrap<T>(std::make_unsigned_t<T>(x) + std::make_unsigned_t<T>(y));
    case Fn::kSub:
      if constexpr (kFloat)
        return x - y;
      else
        return Wrap<T>(std::make_unsigned_t<T>(x) - std::make_unsigned_t<T>(y));
    case Fn::kMul:
      if constexpr (kFloat)
        return x * y;
      else
        return Wrap<T>(std::make_unsigned_t<T>(x) * std::make_unsigned_t<T>(y));
    case Fn::kDiv:
      if constexpr (kFloat)
        return x / y;
      else
        return Div(x, y);
    case Fn::kMod:
      return Mod(x, y);
    case Fn::kPower:
      if constexpr (kFloat)
        return static_cast<T>(std::pow(U(x), U(y)));
      else
        return Power(x, y);
    case Fn::kMaximum:
      return x > y || x != x ? x : y;
    case Fn::kMinimum:
      return x < y || x != x ? x : y;
    case Fn::kEqual:
      return x == y;
    case Fn::kNotEqual:
      return x != y;
    case Fn::kGreater:
      return x > y;
    case Fn::kGreaterEqual:
      return x >= y;
    case Fn::kLess:
      return x < y;
    case Fn::kLessEqual:
      return x <= y;
    case Fn::kLogicalAnd:
      return x != 0 && y != 0;
    case Fn::kLogicalOr:
      return x != 0 || y != 0;
    case Fn::kLogicalXor:
      return (x != 0) != (y != 0);
    case Fn::kBitwiseNot:
    case Fn::kBitwiseAnd:
    case Fn::kBitwiseOr:
    case Fn::kBitwiseXor: {
      // Floats: the bits of their integer values.
      const auto integer = [](T v) {
        if constexpr (kFloat)
          return CastValue<int64_t>(v);
        else
          return v;
      };
      const auto a = integer(x), b = integer(y);
      if (fn == Fn::kBitwiseNot) return static_cast<T>(~a);
      if (fn == Fn::kBitwiseAnd) return static_cast<T>(a & b);
      return static_cast<T>(fn == Fn::kBitwiseOr ? a | b : a ^ b);
    }
    case Fn::kWhere:
      return x != 0 ? y : z;
    default:
      return static_cast<T>(FloatOnly(fn, U(x), U(y)));
  }
}

}  // namespace plait::cpu::plain

#endif  // PLAIT_CPU_PLAIN_WORDS_H_
