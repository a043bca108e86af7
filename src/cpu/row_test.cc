// Row words against plain loops, at lengths around those of vectors.

#include "cpu/row.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
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

INSTANTIATE_TEST_SUITE_P(Targets, Rows, testing::ValuesIn(internal::TargetsForTest()));

}  // namespace
}  // namespace plait::cpu
