// Row words against plain loops, at lengths around those of vectors.

#include "cpu/row.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <type_traits>
#include <vector>

namespace plait::cpu {
namespace {

class Rows : public testing::TestWithParam<int64_t> {
 protected:
  void SetUp() override { internal::UseTargetForTest(GetParam()); }
  void TearDown() override { internal::UseTargetForTest(-1); }
};

template <typename T>
void CheckRow(int64_t n, std::mt19937& random) {
  const double near = sizeof(T) == 4 ? 1e-5 : 1e-13;
  std::vector<T> x(n), y(n), z(n + 1, T(7));
  std::normal_distribution<T> normal;
  for (T& v : x) v = std::round(normal(random) * 8) / 8;
  for (T& v : y) v = normal(random);
  double sum = 0, dot = 0, magnitude = 1, exps = 0;
  int64_t most = 0, least = 0;
  for (int64_t i = 0; i < n; ++i) {
    sum += x[i];
    dot += double{x[i]} * y[i];
    magnitude += std::fabs(double{x[i]}) * (1 + std::fabs(double{y[i]}));
    exps += std::exp(double{x[i]} - 1);
    if (x[i] > x[most]) most = i;
    if (x[i] < x[least]) least = i;
  }
  EXPECT_NEAR(row::Sum(x.data(), n), sum, near * magnitude) << n;
  EXPECT_NEAR(row::Dot(x.data(), y.data(), n), dot, near * magnitude) << n;
  EXPECT_NEAR(row::SumExpMinus(x.data(), T(1), n), exps, near * (exps + 1)) << n;
  EXPECT_NEAR(row::ExpMinus(x.data(), T(1), z.data(), n), exps, near * (exps + 1)) << n;
  for (int64_t i = 0; i < n; ++i) ASSERT_NEAR(z[i], std::exp(x[i] - 1), near * 10);
  row::Affine(x.data(), T(3), T(0.5), z.data(), n);
  for (int64_t i = 0; i < n; ++i) ASSERT_EQ(z[i], x[i] * T(3) + T(0.5));
  EXPECT_EQ(z[n], T(7)) << "behind the end";
  if (n == 0) return;
  EXPECT_EQ(row::Max(x.data(), n), x[most]);
  EXPECT_EQ(row::Min(x.data(), n), x[least]);
  EXPECT_EQ(row::ArgMax(x.data(), n), most) << n;
  EXPECT_EQ(row::ArgMin(x.data(), n), least) << n;
  const int64_t at = static_cast<int64_t>(random() % n);
  x[at] = std::numeric_limits<T>::quiet_NaN();
  if (at + 1 < n) x[n - 1] = x[at];
  EXPECT_EQ(row::ArgMax(x.data(), n), at) << "the first NaN of " << n;
  EXPECT_EQ(row::ArgMin(x.data(), n), at) << "the first NaN of " << n;
  EXPECT_TRUE(std::isnan(row::Max(x.data(), n)) && std::isnan(row::Min(x.data(), n)));
}

TEST_P(Rows, EqualPlainLoops) {
  std::mt19937 random(1);
  for (int64_t n = 0; n < 150; ++n)
    CheckRow<float>(n, random), CheckRow<double>(n, random);
  for (int64_t n : {1000, 1023, 4096, 10001}) {
    CheckRow<float>(n, random);
    CheckRow<double>(n, random);
  }
}

TEST_P(Rows, InfinitiesAreNumbers) {
  const float inf = std::numeric_limits<float>::infinity();
  const std::vector<float> low(20, -inf), high(20, inf);
  EXPECT_EQ(row::ArgMax(low.data(), 20), 0);
  EXPECT_EQ(row::ArgMin(high.data(), 20), 0);
  EXPECT_EQ(row::Max(low.data(), 20), -inf);
  EXPECT_EQ(row::Min(high.data(), 20), inf);
  std::vector<float> one = low;
  one[17] = -5;
  EXPECT_EQ(row::ArgMax(one.data(), 20), 17);
}

// Rows of any dtype with many equal elements: the first one counts, wherever the parts
// of a row that are looked at together begin.
template <typename T>
void CheckPlaces(int64_t n, std::mt19937& random) {
  using A = Accumulate<T>;
  std::vector<T> x(n);
  const auto draw = [&](int64_t values) {
    const auto v = static_cast<int>(random() % values);
    const bool negative = std::is_signed_v<A> && random() % 2 == 0;
    return static_cast<T>(static_cast<A>(negative ? -v : v));
  };
  const auto check = [&](const char* what) {
    int64_t most = 0, least = 0;
    for (int64_t i = 1; i < n; ++i) {
      const A v = static_cast<A>(x[i]), high = static_cast<A>(x[most]),
              low = static_cast<A>(x[least]);
      if (v > high || (v != v && high == high)) most = i;
      if (v < low || (v != v && low == low)) least = i;
    }
    EXPECT_EQ(row::ArgMax(x.data(), n), most) << what << " of " << n;
    EXPECT_EQ(row::ArgMin(x.data(), n), least) << what << " of " << n;
  };
  for (T& v : x) v = draw(3);
  check("equal ones");
  for (T& v : x) v = draw(100);
  check("many values");
  for (int64_t i = 0; i < n; ++i) x[i] = static_cast<T>(static_cast<A>(i / 40 % 100));
  check("ascending ones");
  if constexpr (!std::is_integral_v<A>) {
    for (T& v : x) v = static_cast<T>(static_cast<A>(random() % 2 == 0 ? 0.0 : -0.0));
    check("zeros of both signs");
    const A inf = std::numeric_limits<A>::infinity();
    for (T& v : x) v = static_cast<T>(random() % 9 == 0 ? -inf : inf);
    check("infinities");
    for (int k = 0; k < 2; ++k) {
      const A nan = std::numeric_limits<A>::quiet_NaN();
      x[random() % n] = static_cast<T>(random() % 2 == 0 ? nan : -nan);
      check("NaN");
    }
  }
}

TEST_P(Rows, PlacesOfTheBestAreThoseOfPlainLoops) {
  std::mt19937 random(2);
  for (int64_t n : {1,   2,   7,   15,  16,  17,  31,  33,   63,   64,   65,   127,
                    128, 129, 255, 257, 511, 513, 640, 1000, 2047, 2049, 4100, 20000}) {
    for (int d = 0; d < kNumDTypes; ++d) {
      VisitDType(static_cast<DType>(d), [&]<typename T>() {
        if constexpr (!std::is_same_v<T, bool>) CheckPlaces<T>(n, random);
      });
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, Rows, testing::ValuesIn(internal::TargetsForTest()));

}  // namespace
}  // namespace plait::cpu
