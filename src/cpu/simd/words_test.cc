// The vector words against libm: errors in ULP, special values, positions.
//
// Float32 words are compared with libm in double, float64 words in long double.

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <vector>

#include "cpu/plain_words.h"
#include "cpu/simd/kernels.h"

namespace plait::cpu {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

using Real = long double;
using Reference = std::function<Real(Real, Real)>;

struct WordCase {
  Fn fn;
  double float_bound, double_bound;  // in ULP
  double low, high;                  // where arguments are dense
  Reference reference;
};

Reference One(Real (*f)(Real)) {
  return [f](Real x, Real) { return f(x); };
}

std::vector<WordCase> Cases() {
  const auto sigmoid = [](Real x, Real) {
    const Real e = std::exp(-std::fabs(x));
    return x < 0 ? e / (1 + e) : 1 / (1 + e);
  };
  const auto log_sigmoid = [](Real x, Real) {
    return (x < 0 ? x : 0) - std::log1p(std::exp(-std::fabs(x)));
  };
  const auto softrelu = [](Real x, Real) {
    return x > 20 ? x : std::log1p(std::exp(x));
  };
  const auto ldexp = [](Real x, Real y) {
    return x == 0 || std::isinf(x) ? (std::isnan(y) ? y : x) : x * std::exp2(y);
  };
  return {
      {Fn::kExp, 1.2, 1.2, -110, 100, One(std::exp)},
      {Fn::kExp2, 0.6, 1.5, -160, 140, One(std::exp2)},
      {Fn::kExpm1, 1.5, 1.5, -20, 20, One(std::expm1)},
      {Fn::kLog, 1.0, 1.0, 0, 4, One(std::log)},
      {Fn::kLog2, 0.6, 1.0, 0, 4, One(std::log2)},
      {Fn::kLog10, 0.6, 1.0, 0, 4, One(std::log10)},
      {Fn::kLog1p, 1.5, 1.5, -1, 4, One(std::log1p)},
      {Fn::kSin, 1.5, 1.0, -40, 40, One(std::sin)},
      {Fn::kCos, 1.5, 1.0, -40, 40, One(std::cos)},
      {Fn::kTan, 0.6, 2.5, -40, 40, One(std::tan)},
      {Fn::kArcsin, 0.6, 1.5, -1.01, 1.01, One(std::asin)},
      {Fn::kArccos, 0.6, 2.0, -1.01, 1.01, One(std::acos)},
      {Fn::kArctan, 0.6, 2.0, -3, 3, One(std::atan)},
      {Fn::kSinh, 0.6, 2.0, -8, 8, One(std::sinh)},
      {Fn::kCosh, 0.6, 2.0, -8, 8, One(std::cosh)},
      {Fn::kTanh, 2.0, 2.0, -10, 10, One(std::tanh)},
      {Fn::kArcsinh, 0.6, 3.0, -3, 3, One(std::asinh)},
      {Fn::kArccosh, 0.6, 3.0, 1, 4, One(std::acosh)},
      {Fn::kArctanh, 0.6, 3.0, -1, 1, One(std::atanh)},
      {Fn::kErf, 2.0, 2.0, -7, 7, One(std::erf)},
      {Fn::kSigmoid, 2.0, 2.5, -100, 100, sigmoid},
      {Fn::kLogSigmoid, 2.0, 2.5, -100, 100, log_sigmoid},
      {Fn::kSoftrelu, 2.0, 2.5, -100, 30, softrelu},
      {Fn::kRsqrt, 1.6, 1.6, 0, 4, [](Real x, Real) { return 1 / std::sqrt(x); }},
      {Fn::kPower, 0.6, 1.5, 0, 30,
       [](Real x, Real y) { return static_cast<Real>(std::pow(x, y)); }},
      {Fn::kHypot, 0.6, 1.5, -3, 3,
       [](Real x, Real y) { return static_cast<Real>(std::hypot(x, y)); }},
      {Fn::kArctan2, 0.6, 2.5, -3, 3,
       [](Real x, Real y) { return static_cast<Real>(std::atan2(x, y)); }},
      {Fn::kLdexp, 0.6, 1.5, -30, 30, ldexp},
  };
}

// |value - exact| in units of the last place of T at `exact`.
template <typename T>
double Ulps(T value, Real exact) {
  const T rounded = static_cast<T>(exact);
  if (std::isnan(value) || std::isnan(rounded))
    return std::isnan(value) == std::isnan(rounded) ? 0 : kInf;
  if (value == rounded) return 0;
  if (std::isinf(value) != std::isinf(rounded)) {
    // Just below and just above the largest number are neighbours.
    return std::fabs(std::isinf(value) ? rounded : value) ==
                   std::numeric_limits<T>::max()
               ? 1
               : kInf;
  }
  const int exponent =
      std::max(std::ilogb(exact), std::numeric_limits<T>::min_exponent - 1);
  const Real ulp = std::ldexp(Real{1}, exponent - std::numeric_limits<T>::digits + 1);
  return static_cast<double>(std::fabs(static_cast<Real>(value) - exact) / ulp);
}

template <typename T>
T AnyBits(std::mt19937_64& random) {
  if constexpr (sizeof(T) == 4) {
    return std::bit_cast<float>(static_cast<uint32_t>(random()));
  } else {
    return std::bit_cast<double>(random());
  }
}

template <typename T>
std::vector<T> Arguments(const WordCase& c, int64_t n, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> dense(c.low, c.high), unit(-1, 1);
  constexpr T kSpecial[] = {0,
                            T(-0.0),
                            1,
                            -1,
                            T(0.5),
                            -2,
                            3,
                            T(kInf),
                            T(-kInf),
                            std::numeric_limits<T>::quiet_NaN(),
                            std::numeric_limits<T>::denorm_min(),
                            -std::numeric_limits<T>::min(),
                            std::numeric_limits<T>::max(),
                            std::numeric_limits<T>::lowest()};
  std::vector<T> x;
  for (int64_t i = 0; i < n; ++i) {
    switch (random() % 8) {
      case 0:
        x.push_back(AnyBits<T>(random));
        break;
      case 1:
        x.push_back(kSpecial[random() % std::size(kSpecial)]);
        break;
      case 2:
        x.push_back(static_cast<T>(1 + unit(random) * 0.01));
        break;
      case 3:
        x.push_back(static_cast<T>(std::ldexp(unit(random), random() % 40 - 30)));
        break;
      case 4:
        x.push_back(static_cast<T>((random() % 4000000) * 1.5707963267948966));
        break;
      default:
        x.push_back(static_cast<T>(dense(random)));
    }
  }
  return x;
}

template <typename T>
constexpr int kComputeOf = static_cast<int>(std::is_same_v<T, float> ? Compute::kF32
                                                                     : Compute::kF64);

template <typename T>
void CheckWord(const WordCase& c, double bound) {
  constexpr int64_t kN = 20000;
  const std::vector<T> x = Arguments<T>(c, kN, 1), y = Arguments<T>(c, kN, 2);
  std::vector<T> out(kN);
  GetKernels().step[kComputeOf<T>][static_cast<int>(c.fn)](x.data(), y.data(), nullptr,
                                                           out.data(), kN, 0);
  double worst = 0;
  int64_t at = 0;
  for (int64_t i = 0; i < kN; ++i) {
    const double ulps = Ulps(out[i], c.reference(x[i], y[i]));
    if (ulps > worst) worst = ulps, at = i;
  }
  testing::Test::RecordProperty(
      std::string(Info(c.fn).name) + std::to_string(sizeof(T) * 8),
      std::to_string(worst));
  EXPECT_LE(worst, bound) << Info(c.fn).name << " float" << sizeof(T) * 8 << " of "
                          << x[at] << ", " << y[at] << " is " << out[at] << ", not "
                          << static_cast<double>(c.reference(x[at], y[at]));
}

class Words : public testing::TestWithParam<int64_t> {
 protected:
  void SetUp() override { internal::UseTargetForTest(GetParam()); }
  void TearDown() override { internal::UseTargetForTest(-1); }
};

TEST_P(Words, StayWithinTheirBounds) {
  // The plain words are libm's: no vectors, or Highway's emulation of them.
  const bool plain = GetParam() == 0 || GetParam() >= int64_t{1} << 61;
  for (const WordCase& c : Cases()) {
    CheckWord<float>(c, c.float_bound);
    CheckWord<double>(c, plain ? 3 : c.double_bound);
  }
}

// The sign of zero, which ULPs do not see.
TEST_P(Words, KeepTheSignOfZero) {
  for (Fn fn : {Fn::kExpm1, Fn::kLog1p, Fn::kSin, Fn::kTan, Fn::kArcsin, Fn::kArctan,
                Fn::kSinh, Fn::kTanh, Fn::kArcsinh, Fn::kArctanh, Fn::kErf}) {
    for (double zero : {0.0, -0.0}) {
      double y = 1;
      GetKernels().step[kComputeOf<double>][static_cast<int>(fn)](&zero, &zero, &zero,
                                                                  &y, 1, 0);
      EXPECT_TRUE(y == 0 && std::signbit(y) == std::signbit(zero)) << Info(fn).name;
      const float zero32 = static_cast<float>(zero);
      float y32 = 1;
      GetKernels().step[kComputeOf<float>][static_cast<int>(fn)](&zero32, &zero32,
                                                                 &zero32, &y32, 1, 0);
      EXPECT_TRUE(y32 == 0 && std::signbit(y32) == std::signbit(zero32))
          << Info(fn).name;
    }
  }
}

// Every length and every offset gives the same bits.
template <typename T>
void CheckPositions(Fn fn) {
  WordCase c{.fn = fn, .low = -3, .high = 3};
  constexpr int64_t kN = 200;
  const std::vector<T> x = Arguments<T>(c, kN, 3), y = Arguments<T>(c, kN, 4);
  const Loop loop = GetKernels().step[kComputeOf<T>][static_cast<int>(fn)];
  std::vector<T> whole(kN), part(kN);
  loop(x.data(), y.data(), x.data(), whole.data(), kN, 0);
  for (int64_t first = 0; first < kN;) {
    const int64_t n = std::min<int64_t>(1 + first % 37, kN - first);
    part.assign(kN, T(7));
    loop(&x[first], &y[first], &x[first], part.data(), n, 0);
    for (int64_t i = 0; i < n; ++i) {
      const T a = part[i], b = whole[first + i];
      ASSERT_TRUE(a == b || (a != a && b != b))
          << Info(fn).name << " of " << x[first + i];
    }
    if (n < kN) {
      ASSERT_EQ(part[n], T(7)) << Info(fn).name << " wrote behind its end";
    }
    first += n;
  }
}

TEST_P(Words, DoNotDependOnThePosition) {
  for (int f = 0; f < kNumFns; ++f) {
    CheckPositions<float>(static_cast<Fn>(f));
    CheckPositions<double>(static_cast<Fn>(f));
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, Words, testing::ValuesIn(internal::TargetsForTest()));

}  // namespace
}  // namespace plait::cpu
