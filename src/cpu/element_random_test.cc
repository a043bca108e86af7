// Tests of the samplers that draw a varying count of numbers for an element.

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <set>
#include <vector>

#include "cpu/random.h"

namespace plait::cpu {
namespace {

using Sampler = std::function<double(ElementRandom&)>;

std::vector<double> Sample(const Sampler& sampler, int64_t n) {
  std::vector<double> values(n);
  for (int64_t i = 0; i < n; ++i) {
    ElementRandom random({2024, 3}, i);
    values[i] = sampler(random);
  }
  return values;
}

// Mean and variance within five standard errors; `kurtosis` is the excess.
void ExpectMoments(const Sampler& sampler, double mean, double variance,
                   double kurtosis) {
  const double n = 100'000;
  const std::vector<double> x = Sample(sampler, static_cast<int64_t>(n));
  double sum = 0, squares = 0;
  for (double v : x) sum += v - mean;
  for (double v : x) squares += (v - mean) * (v - mean);
  EXPECT_NEAR(sum / n, 0, 5 * std::sqrt(variance / n));
  EXPECT_NEAR(squares / n / variance, 1, 5 * std::sqrt((kurtosis + 2) / n));
}

// Chi-square of counts against chances, as standard deviations from its mean.
double ChiSquare(const Sampler& sampler, const std::vector<double>& chances) {
  const int64_t n = 200'000;
  std::vector<double> counts(chances.size());
  for (double v : Sample(sampler, n)) {
    const size_t cell = static_cast<size_t>(v);
    if (v >= 0 && cell < counts.size()) ++counts[cell];
  }
  double sum = 0, cells = 0;
  for (size_t i = 0; i < chances.size(); ++i) {
    const double expected = static_cast<double>(n) * chances[i];
    if (expected < 10) continue;
    sum += (counts[i] - expected) * (counts[i] - expected) / expected;
    ++cells;
  }
  return (sum - cells) / std::sqrt(2 * cells);
}

TEST(ElementRandom, ElementsAndFillsShareNoBits) {
  std::set<uint64_t> seen;
  size_t drawn = 0;
  for (int64_t index : {int64_t{0}, int64_t{1}, int64_t{2}, int64_t{1} << 31,
                        int64_t{1} << 32, (int64_t{1} << 47) - 1}) {
    ElementRandom random({0, 0}, index);
    for (int i = 0; i < 300; ++i, ++drawn) seen.insert(random.NextUint64());
  }
  std::vector<uint32_t> bits(20'000);
  FillUniformBits({0, 0}, 0, bits.data(), static_cast<int64_t>(bits.size()));
  for (size_t i = 0; i < bits.size(); i += 2, ++drawn) {
    seen.insert(bits[i] | uint64_t{bits[i + 1]} << 32);
  }
  EXPECT_EQ(seen.size(), drawn);
}

TEST(ElementRandom, TheSameElementDrawsTheSameNumbers) {
  ElementRandom a({5, 6}, 7), b({5, 6}, 7), other({5, 7}, 7);
  int equal = 0;
  for (int i = 0; i < 1000; ++i) {
    const uint32_t word = a.NextUint32();
    ASSERT_EQ(word, b.NextUint32());
    equal += word == other.NextUint32();
  }
  EXPECT_LE(equal, 1);
}

TEST(ElementRandom, UniformAndNormalNumbersHaveTheirMoments) {
  ExpectMoments([](ElementRandom& r) { return r.NextUniform(); }, 0.5, 1. / 12, -1.2);
  ExpectMoments([](ElementRandom& r) { return r.NextUniformPositive(); }, 0.5, 1. / 12,
                -1.2);
  ExpectMoments([](ElementRandom& r) { return r.NextNormal(); }, 0, 1, 0);
}

TEST(ElementRandom, ExponentialAndGammaHaveTheirMoments) {
  ExpectMoments([](ElementRandom& r) { return NextExponential(r, 4); }, 0.25, 1. / 16,
                6);
  for (double shape : {0.05, 0.5, 1.0, 2.5, 1000.0}) {
    ExpectMoments([shape](ElementRandom& r) { return NextGamma(r, shape, 3); },
                  shape * 3, shape * 9, 6 / shape);
  }
}

TEST(ElementRandom, GammaFollowsItsDistribution) {
  // Of shape 1/2: half the square of a normal number; of shape 2: 1 - (1 + x) exp(-x).
  const double half = ChiSquare(
      [](ElementRandom& r) {
        return std::floor(100 * std::erf(std::sqrt(NextGamma(r, 0.5, 1))));
      },
      std::vector<double>(100, 0.01));
  const double two = ChiSquare(
      [](ElementRandom& r) {
        const double x = NextGamma(r, 2, 1);
        return std::floor(100 * (1 - (1 + x) * std::exp(-x)));
      },
      std::vector<double>(100, 0.01));
  EXPECT_LT(std::abs(half), 4);
  EXPECT_LT(std::abs(two), 4);
}

TEST(ElementRandom, PoissonFollowsItsDistribution) {
  for (double mean : {0.1, 1.0, 9.5, 10.0, 35.0, 400.0}) {
    std::vector<double> chances;
    for (int k = 0; k < 600; ++k) {
      chances.push_back(std::exp(k * std::log(mean) - mean - std::lgamma(k + 1.0)));
    }
    const auto sampler = [mean](ElementRandom& r) { return NextPoisson(r, mean); };
    EXPECT_LT(std::abs(ChiSquare(sampler, chances)), 4) << mean;
  }
  for (double mean : {3.0, 1e6, 1e12}) {
    ExpectMoments([mean](ElementRandom& r) { return NextPoisson(r, mean); }, mean, mean,
                  1 / mean);
  }
}

TEST(ElementRandom, NegativeBinomialsHaveTheirMoments) {
  // The excess kurtosis is 6 / k + p^2 / (k (1 - p)).
  ExpectMoments([](ElementRandom& r) { return NextNegativeBinomial(r, 3, 0.4); },
                3 * 0.6 / 0.4, 3 * 0.6 / 0.16, 2 + 0.16 / 1.8);
  ExpectMoments(
      [](ElementRandom& r) { return NextGeneralizedNegativeBinomial(r, 2, 0.3); }, 2,
      2 + 0.3 * 4, 6 * 0.3 + 1 / 3.2);
  ElementRandom random({1, 1}, 1);
  EXPECT_EQ(NextNegativeBinomial(random, 3, 1), 0);
  EXPECT_EQ(NextGeneralizedNegativeBinomial(random, 0, 0.5), 0);
}

TEST(ElementRandom, IntegersAreUniformInEveryRange) {
  const auto die = [](ElementRandom& r) {
    return static_cast<double>(NextInteger(r, -3, 3) + 3);
  };
  EXPECT_LT(std::abs(ChiSquare(die, std::vector<double>(6, 1. / 6))), 4);
  // A width of 3 * 2^62: a biased method would prefer a third of it.
  const auto wide = [](ElementRandom& r) {
    const int64_t quarter = int64_t{1} << 61;
    const int64_t value = NextInteger(r, -3 * quarter, 3 * quarter);
    return std::floor(static_cast<double>(value) / static_cast<double>(quarter) + 3);
  };
  EXPECT_LT(std::abs(ChiSquare(wide, std::vector<double>(6, 1. / 6))), 4);
  constexpr int64_t kLow = std::numeric_limits<int64_t>::min();
  constexpr int64_t kHigh = std::numeric_limits<int64_t>::max();
  for (int64_t i = 0; i < 1000; ++i) {
    ElementRandom random({9, 9}, i);
    EXPECT_EQ(NextInteger(random, 41, 42), 41);
    EXPECT_EQ(NextInteger(random, kHigh - 1, kHigh), kHigh - 1);
    EXPECT_LT(NextInteger(random, kLow, kHigh), kHigh);
    const int64_t x = NextInteger(random, 5, 5 + (int64_t{1} << 32));
    EXPECT_TRUE(x >= 5 && x - 5 < int64_t{1} << 32);
  }
}

TEST(ElementRandom, ParametersOutOfRangeGiveNaN) {
  ElementRandom r({1, 1}, 1);
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double inf = std::numeric_limits<double>::infinity();
  for (double bad : {-1.0, nan}) {
    EXPECT_TRUE(std::isnan(NextExponential(r, bad)));
    EXPECT_TRUE(std::isnan(NextGamma(r, bad, 1)));
    EXPECT_TRUE(std::isnan(NextGamma(r, 1, bad)));
    EXPECT_TRUE(std::isnan(NextPoisson(r, bad)));
    EXPECT_TRUE(std::isnan(NextNegativeBinomial(r, bad, 0.5)));
    EXPECT_TRUE(std::isnan(NextNegativeBinomial(r, 1, bad)));
    EXPECT_TRUE(std::isnan(NextGeneralizedNegativeBinomial(r, bad, 1)));
    EXPECT_TRUE(std::isnan(NextGeneralizedNegativeBinomial(r, 1, bad)));
  }
  EXPECT_TRUE(std::isnan(NextPoisson(r, inf)));
  EXPECT_TRUE(std::isnan(NextGamma(r, inf, 1)));
  EXPECT_TRUE(std::isnan(NextNegativeBinomial(r, 1, 1.5)));
  EXPECT_EQ(NextPoisson(r, 0), 0);
  EXPECT_EQ(NextGamma(r, 1e-300, 1), 0);  // underflow, but no endless loop
}

}  // namespace
}  // namespace plait::cpu
