// Tests of the counter-based generator and of the ranges it fills.

#include "cpu/random.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

#include "cpu/random_values.h"

namespace plait::cpu {
namespace {

using Block = Philox::Counter;

// The published known answers of philox4x32-10.
TEST(Philox, GivesThePublishedAnswers) {
  EXPECT_EQ(Philox::Block({0, 0, 0, 0}, {0, 0}),
            (Block{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  const uint32_t all = 0xffffffff;
  EXPECT_EQ(Philox::Block({all, all, all, all}, {all, all}),
            (Block{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(Philox::Block({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
                          {0xa4093822, 0x299f31d0}),
            (Block{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

constexpr RandomStream kStream{0x123456789abcdef0, 0xfedcba9876543210};

uint32_t WordOf(RandomStream stream, int64_t i) {
  const uint64_t w = static_cast<uint64_t>(i);
  return Philox::Block(Philox::CounterOf(w / 4, stream.offset),
                       Philox::KeyOf(stream.seed))[w % 4];
}
uint64_t PairOf(RandomStream stream, int64_t i) {
  return WordOf(stream, 2 * i) | uint64_t{WordOf(stream, 2 * i + 1)} << 32;
}

// Far starts reach the upper words of the counter.
const int64_t kStarts[] = {
    0, 1, 3, 4, 7, 1021, (int64_t{1} << 34) - 2, int64_t{1} << 60};

TEST(Random, NumbersDependOnlyOnSeedOffsetAndIndex) {
  constexpr int64_t kCount = 3000;
  std::vector<uint32_t> bits(kCount);
  std::vector<float> f(kCount);
  std::vector<double> d(kCount);
  for (int64_t first : kStarts) {
    FillUniformBits(kStream, first, bits.data(), kCount);
    for (int64_t i = 0; i < kCount; ++i) {
      ASSERT_EQ(bits[i], WordOf(kStream, first + i)) << first << " + " << i;
    }
    const uint32_t limit = 0x9000'0000;
    std::vector<uint8_t> below(kCount);
    FillBelow(kStream, first, limit, below.data(), kCount);
    for (int64_t i = 0; i < kCount; ++i) ASSERT_EQ(below[i], bits[i] < limit ? 1 : 0);
    FillUniform(kStream, first, f.data(), kCount);
    for (int64_t i = 0; i < kCount; ++i) ASSERT_EQ(f[i], UniformOf(bits[i]));
    FillNormal(kStream, first, f.data(), kCount);
    for (int64_t i = 0; i < kCount; ++i) ASSERT_EQ(f[i], NormalOf(bits[i]));
    FillUniform(kStream, first, d.data(), kCount);
    for (int64_t i = 0; i < kCount; ++i) {
      ASSERT_EQ(d[i], UniformOf(PairOf(kStream, first + i)));
    }
    FillNormal(kStream, first, d.data(), kCount);
    for (int64_t i = 0; i < kCount; ++i) {
      ASSERT_EQ(d[i], NormalOf(PairOf(kStream, first + i)));
    }
  }
}

// A seed gives these on every machine and in every version.
TEST(Random, TheNumbersOfASeedNeverChange) {
  const RandomStream s{42, 1};
  uint32_t bits[3];
  float f[3];
  double d[3];
  FillUniformBits(s, 0, bits, 3);
  EXPECT_THAT(bits, testing::ElementsAre(43202409u, 542238995u, 996716600u));
  FillUniform(s, 0, f, 3);
  EXPECT_THAT(f, testing::ElementsAre(0x1.499b8p-7f, 0x1.028f48p-3f, 0x1.db458p-3f));
  FillNormal(s, 0, f, 3);
  EXPECT_THAT(f, testing::ElementsAre(0x1.297d9ap+1f, 0x1.24f0c4p+0f, 0x1.76d07cp-1f));
  FillUniform(s, 0, d, 3);
  EXPECT_THAT(d, testing::ElementsAre(0x1.028f489814998p-3, 0x1.6c58813876d16p-1,
                                      0x1.fba43b2841ff2p-1));
  FillNormal(s, 0, d, 3);
  EXPECT_THAT(d, testing::ElementsAre(0x1.24f0c571f777cp+0, -0x1.9a076df8c4b87p-1,
                                      -0x1.5da0f7491d7a2p-6));
  ElementRandom random(s, 0);
  EXPECT_EQ(random.NextUint32(), 810232516u);
  EXPECT_EQ(random.NextNormal(), 0x1.5f4e9af3cf67ep-2);
}

template <typename T>
void ExpectAnyCutIsTheSame(void (*fill)(RandomStream, int64_t, T*, int64_t)) {
  constexpr int64_t kCount = 2500;
  std::vector<T> whole(kCount), parts(kCount);
  fill(kStream, 5, whole.data(), kCount);
  for (int64_t part : {1, 2, 3, 7, 64, 1023, 2499}) {
    for (int64_t i = 0; i < kCount; i += part) {
      fill(kStream, 5 + i, parts.data() + i, std::min(part, kCount - i));
    }
    ASSERT_EQ(whole, parts) << "parts of " << part;
  }
  fill(kStream, 5, nullptr, 0);
}

TEST(Random, AnyCutOfARangeGivesTheSameNumbers) {
  ExpectAnyCutIsTheSame<uint32_t>(FillUniformBits);
  ExpectAnyCutIsTheSame<float>(FillUniform);
  ExpectAnyCutIsTheSame<double>(FillUniform);
  ExpectAnyCutIsTheSame<float>(FillNormal);
  ExpectAnyCutIsTheSame<double>(FillNormal);
}

TEST(Random, UniformNumbersLieInTheHalfOpenRange) {
  EXPECT_EQ(UniformOf(uint32_t{0}), 0.0f);
  EXPECT_EQ(UniformOf(~uint32_t{0}), 1 - 0x1p-24f);
  EXPECT_EQ(UniformOf(uint64_t{0}), 0.0);
  EXPECT_EQ(UniformOf(~uint64_t{0}), 1 - 0x1p-53);
  EXPECT_EQ(UniformOf(uint64_t{1} << 11), 0x1p-53);
  EXPECT_EQ(UniformOf(uint64_t{1} << 63), 0.5);
}

TEST(Random, LogIsRightToAFewUnits) {
  for (double x = 1e-300; x < 1e300; x *= 1.37) {
    ASSERT_NEAR(Log(x), std::log(x), 4e-16 * std::abs(std::log(x))) << x;
  }
  for (float x = 1e-37f; x < 1e37f; x *= 1.037f) {
    ASSERT_NEAR(Log(x), std::log(x), 3e-7f * std::abs(std::log(x))) << x;
  }
}

// The quantile of p must have p below it.
TEST(Random, NormalNumbersAreQuantiles) {
  const auto below = [](long double x) { return std::erfc(-x / std::sqrt(2.0L)) / 2; };
  for (uint64_t step = 0; step < 100'000; ++step) {
    // From dense near the tail to even in the middle; positive numbers.
    const uint64_t bits =
        step < 50'000 ? step * 42'949 : (uint64_t{1} << (step % 52)) * (1 + step % 7);
    const uint32_t word = static_cast<uint32_t>(bits) & 0x7FFFFFFF;
    const long double p = (word + 0.5L) / 0x1p32L;
    ASSERT_NEAR(below(-NormalOf(word)) / p, 1, 1.2e-5) << word;
    ASSERT_EQ(NormalOf(word | 0x80000000), -NormalOf(word));
    const uint64_t pair = bits << 11 & ~(uint64_t{1} << 63);
    const double x = IsFarTail(pair) ? FarNormalOf(pair) : NormalOf(pair);
    ASSERT_NEAR(below(-x) / TailOf(pair), 1, 4e-14) << pair;
  }
  EXPECT_LT(std::abs(NormalOf(uint32_t{0})), 6.4f);
  EXPECT_LT(std::abs(FarNormalOf(0)), 8.3);
  EXPECT_GT(NormalOf(uint32_t{0x7FFFFFFF}), 0.0f);
  EXPECT_EQ(FarNormalOf(uint64_t{1} << 63), -FarNormalOf(0));
}

// The largest distance of the sample's distribution from `cdf`, times sqrt(n); above
// 1.95 with chance 0.001.
double Kolmogorov(std::vector<double> sample,
                  const std::function<double(double)>& cdf) {
  std::sort(sample.begin(), sample.end());
  const double n = static_cast<double>(sample.size());
  double distance = 0;
  for (size_t i = 0; i < sample.size(); ++i) {
    const double p = cdf(sample[i]);
    distance = std::max(
        {distance, p - static_cast<double>(i) / n, static_cast<double>(i + 1) / n - p});
  }
  return distance * std::sqrt(n);
}

template <typename T>
std::vector<double> Sample(void (*fill)(RandomStream, int64_t, T*, int64_t),
                           RandomStream stream, int64_t n) {
  std::vector<T> values(n);
  fill(stream, 0, values.data(), n);
  return {values.begin(), values.end()};
}

TEST(Random, SamplesFollowTheirDistributions) {
  constexpr int64_t kCount = 200'000;
  const auto uniform = [](double x) { return x; };
  const auto normal = [](double x) { return std::erfc(-x / std::sqrt(2.0)) / 2; };
  for (uint64_t offset : {0, 1, 2}) {
    const RandomStream s{42, offset};
    EXPECT_LT(Kolmogorov(Sample<float>(FillUniform, s, kCount), uniform), 1.95);
    EXPECT_LT(Kolmogorov(Sample<double>(FillUniform, s, kCount), uniform), 1.95);
    EXPECT_LT(Kolmogorov(Sample<float>(FillNormal, s, kCount), normal), 1.95);
    EXPECT_LT(Kolmogorov(Sample<double>(FillNormal, s, kCount), normal), 1.95);
  }
}

TEST(Random, NormalMomentsAreRight) {
  const std::vector<double> x = Sample<float>(FillNormal, {7, 0}, 1'000'000);
  double m1 = 0, m2 = 0, m3 = 0, m4 = 0;
  for (double v : x) {
    m1 += v, m2 += v * v, m3 += v * v * v, m4 += v * v * v * v;
  }
  const double n = static_cast<double>(x.size());
  // Four standard errors: sqrt of 1, 2, 15 and 96 over n.
  EXPECT_NEAR(m1 / n, 0, 4 * std::sqrt(1 / n));
  EXPECT_NEAR(m2 / n, 1, 4 * std::sqrt(2 / n));
  EXPECT_NEAR(m3 / n, 0, 4 * std::sqrt(15 / n));
  EXPECT_NEAR(m4 / n, 3, 4 * std::sqrt(96 / n));
}

TEST(Random, NeighboursAreNotCorrelated) {
  constexpr int64_t kCount = 100'000;
  const std::vector<double> x = Sample<float>(FillNormal, {1, 1}, kCount + 8);
  const auto expect_none = [&](const std::vector<double>& y, int64_t lag) {
    double sum = 0;
    for (int64_t i = 0; i < kCount; ++i) sum += x[i] * y[i + lag];
    EXPECT_LT(std::abs(sum), 4 * std::sqrt(kCount));
  };
  for (int64_t lag = 1; lag <= 8; ++lag) expect_none(x, lag);
  for (RandomStream s :
       {RandomStream{1, 2}, {2, 1}, {1, 1ull << 32}, {1ull << 32, 1}}) {
    expect_none(Sample<float>(FillNormal, s, kCount), 0);
  }
}

TEST(Random, EveryBitIsOneHalfOfTheTime) {
  constexpr int kCount = 100'000;
  std::vector<uint32_t> bits(kCount);
  FillUniformBits({0, 0}, 0, bits.data(), kCount);
  for (int bit = 0; bit < 32; ++bit) {
    int ones = 0;
    for (uint32_t word : bits) ones += static_cast<int>(word >> bit & 1);
    EXPECT_NEAR(ones, kCount / 2, 4 * std::sqrt(kCount / 4.0)) << bit;
  }
}

}  // namespace
}  // namespace plait::cpu
