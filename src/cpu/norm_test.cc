// Normalisation against plain loops in float64.

#include "cpu/norm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "base/parallel.h"
#include "cpu/each_target_for_test.h"

namespace plait::cpu {
namespace {

using Doubles = std::vector<double>;

template <typename T>
std::vector<T> Random(int64_t n, uint32_t seed, double mean = 0) {
  std::mt19937 random(seed);
  std::normal_distribution<double> draw(mean, 1);
  std::vector<T> x(n);
  for (T& v : x) v = static_cast<T>(draw(random));
  return x;
}

template <typename T>
void ExpectNear(const std::vector<T>& got, const Doubles& expected, double tolerance,
                const char* what) {
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_NEAR(static_cast<double>(got[i]), expected[i],
                tolerance * (1 + std::fabs(expected[i])))
        << what << ", element " << i;
  }
}

// The passes in float64, for any map from elements to groups and to gamma.
template <typename T, typename Group, typename Gamma>
struct Oracle {
  Oracle(int64_t groups, int64_t affine, double eps, const std::vector<T>& x,
         const std::vector<T>& gamma, const std::vector<T>& beta,
         const std::vector<T>& dy, Group group, Gamma which)
      : mean(groups),
        var(groups),
        inverse(groups),
        y(x.size()),
        dx(x.size()),
        dgamma(affine),
        dbeta(affine) {
    const int64_t size = static_cast<int64_t>(x.size());
    const double n = static_cast<double>(size / groups);
    for (int64_t i = 0; i < size; ++i) mean[group(i)] += x[i] / n;
    for (int64_t i = 0; i < size; ++i) {
      var[group(i)] += (x[i] - mean[group(i)]) * (x[i] - mean[group(i)]) / n;
    }
    for (int64_t g = 0; g < groups; ++g) inverse[g] = 1 / std::sqrt(var[g] + eps);
    Doubles total(groups), product(groups);
    const auto hat = [&](int64_t i) {
      return (x[i] - mean[group(i)]) * inverse[group(i)];
    };
    for (int64_t i = 0; i < size; ++i) {
      const int64_t j = which(i);
      y[i] = hat(i) * gamma[j] + beta[j];
      dgamma[j] += dy[i] * hat(i);
      dbeta[j] += dy[i];
      total[group(i)] += dy[i] * static_cast<double>(gamma[j]);
      product[group(i)] += dy[i] * static_cast<double>(gamma[j]) * hat(i);
    }
    for (int64_t i = 0; i < size; ++i) {
      const int64_t g = group(i);
      dx[i] = inverse[g] * (dy[i] * static_cast<double>(gamma[which(i)]) -
                            total[g] / n - hat(i) * product[g] / n);
    }
  }
  Doubles mean, var, inverse, y, dx, dgamma, dbeta;
};

// x (batch, channels, length), normalised by channel, or for each sample by `together`
// channels (0: by channel).
template <typename T>
void ExpectGroups(int64_t batch, int64_t channels, int64_t length, int64_t together,
                  double tolerance, double mean_of_x = 0) {
  SCOPED_TRACE(testing::Message() << batch << " x " << channels << " x " << length
                                  << " by " << together << " channels");
  const int64_t size = batch * channels * length;
  const double eps = 1e-3;
  const auto x = Random<T>(size, 1, mean_of_x), dy = Random<T>(size, 2);
  const auto gamma = Random<T>(channels, 3), beta = Random<T>(channels, 4);
  const NormGroups n =
      together > 0 ? NormGroups{batch * channels / together, 1,        0,
                                length * together,           channels, together}
                   : NormGroups{channels, batch, channels * length, length, channels};
  const auto channel = [&](int64_t i) { return i / length % channels; };
  const auto group = [&](int64_t i) {
    return together > 0 ? i / length / together : channel(i);
  };
  const Oracle<T, decltype(group), decltype(channel)> e(
      n.groups, channels, eps, x, gamma, beta, dy, group, channel);
  std::vector<T> mean(n.groups), var(n.groups), inverse(n.groups), y(size), dx(size),
      dgamma(channels), dbeta(channels);
  NormForward(n, eps, x.data(), gamma.data(), beta.data(), mean.data(), var.data(),
              y.data());
  ExpectNear(mean, e.mean, tolerance, "mean");
  ExpectNear(var, e.var, tolerance, "var");
  ExpectNear(y, e.y, tolerance * (1 + std::fabs(mean_of_x)), "y");
  for (int64_t g = 0; g < n.groups; ++g) inverse[g] = static_cast<T>(e.inverse[g]);
  std::fill(y.begin(), y.end(), T(NAN));
  NormApply(n, x.data(), gamma.data(), beta.data(), mean.data(), inverse.data(),
            y.data());
  ExpectNear(y, e.y, tolerance * (1 + std::fabs(mean_of_x)), "y by given statistics");
  NormBackward(n, dy.data(), x.data(), gamma.data(), mean.data(), inverse.data(),
               dx.data(), dgamma.data(), dbeta.data());
  const double wide = tolerance * 10 * (1 + std::fabs(mean_of_x));
  ExpectNear(dx, e.dx, wide, "dx");
  ExpectNear(dgamma, e.dgamma, wide * std::sqrt(size / channels), "dgamma");
  ExpectNear(dbeta, e.dbeta, wide * std::sqrt(size / channels), "dbeta");
}

template <typename T>
void ExpectRows(int64_t rows, int64_t n, double tolerance) {
  SCOPED_TRACE(testing::Message() << rows << " rows of " << n);
  const double eps = 1e-5;
  const auto x = Random<T>(rows * n, 1), dy = Random<T>(rows * n, 2);
  const auto gamma = Random<T>(n, 3), beta = Random<T>(n, 4);
  const auto group = [&](int64_t i) { return i / n; };
  const auto which = [&](int64_t i) { return i % n; };
  const Oracle<T, decltype(group), decltype(which)> e(rows, n, eps, x, gamma, beta, dy,
                                                      group, which);
  std::vector<T> mean(rows), inverse(rows), y(rows * n), dx(rows * n), dgamma(n),
      dbeta(n);
  LayerNormForward(rows, n, eps, x.data(), gamma.data(), beta.data(), mean.data(),
                   inverse.data(), y.data());
  ExpectNear(mean, e.mean, tolerance, "mean");
  if (n > 1) {
    ExpectNear(inverse, e.inverse, tolerance * 10, "inverse");
    ExpectNear(y, e.y, tolerance * 10, "y");
    LayerNormBackward(rows, n, dy.data(), x.data(), gamma.data(), mean.data(),
                      inverse.data(), dx.data(), dgamma.data(), dbeta.data());
    ExpectNear(dx, e.dx, tolerance * 100, "dx");
    ExpectNear(dgamma, e.dgamma, tolerance * 100, "dgamma");
    ExpectNear(dbeta, e.dbeta, tolerance * 100, "dbeta");
  }
}

TEST(Norm, GroupsEqualThePlainLoop) {
  ForEachTarget([] {
    for (const int threads : {1, 3}) {
      const ScopedComputeThreads scope(threads);
      for (const int64_t together : {0, 1, 3}) {
        for (const int64_t length : {1, 2, 7, 16, 49, 100, 3000, 9001}) {
          if (together > 0 && length == 1) continue;
          const int64_t batch = length > 1000 ? 2 : 5;
          ExpectGroups<float>(batch, 6, length, together, 1e-5);
          ExpectGroups<double>(batch, 6, length, together, 1e-12);
        }
      }
      ExpectGroups<float>(3000, 37, 1, 0, 1e-5);
      ExpectGroups<double>(7, 21, 1, 0, 1e-12);
      ExpectGroups<float>(400, 2, 30, 0, 1e-5);
    }
  });
}

TEST(Norm, LayerNormEqualsThePlainLoop) {
  ForEachTarget([] {
    for (const int threads : {1, 3}) {
      const ScopedComputeThreads scope(threads);
      for (const int64_t n : {1, 2, 5, 16, 33, 768, 5000}) {
        ExpectRows<float>(n > 100 ? 40 : 7, n, 1e-5);
        ExpectRows<double>(5, n, 1e-12);
      }
    }
  });
}

// The variance of numbers far from zero comes from differences, not from squares.
TEST(Norm, LargeMeanDoesNoHarm) {
  ForEachTarget([] {
    ExpectGroups<float>(40, 2, 50, 0, 2e-4, 1000);
    ExpectGroups<float>(3000, 20, 1, 0, 2e-4, 1000);
  });
}

TEST(Norm, WithoutGammaAndBetaTheyCountAsOneAndZero) {
  const std::vector<float> x = {1, 3, 5, 9};
  std::vector<float> mean(2), var(2), y(4);
  NormForward<float>({2, 1, 0, 2, 2}, 0, x.data(), nullptr, nullptr, mean.data(),
                     var.data(), y.data());
  EXPECT_EQ(y, (std::vector<float>{-1, 1, -1, 1}));
  EXPECT_EQ(mean, (std::vector<float>{2, 7}));
  EXPECT_EQ(var, (std::vector<float>{1, 4}));
}

TEST(Norm, GivesTheSameBitsForAnyNumberOfThreads) {
  const int64_t rows = 300, n = 500;
  const auto x = Random<float>(rows * n, 1), dy = Random<float>(rows * n, 2);
  const std::vector<float> mean(rows, 0.1f), inverse(rows, 0.9f);
  std::vector<float> dx(rows * n), dgamma(n), dbeta(n), dgamma2(n), dbeta2(n);
  LayerNormBackward<float>(rows, n, dy.data(), x.data(), nullptr, mean.data(),
                           inverse.data(), dx.data(), dgamma.data(), dbeta.data());
  for (const int threads : {2, 5}) {
    const ScopedComputeThreads scope(threads);
    LayerNormBackward<float>(rows, n, dy.data(), x.data(), nullptr, mean.data(),
                             inverse.data(), dx.data(), dgamma2.data(), dbeta2.data());
    EXPECT_EQ(dgamma, dgamma2);
    EXPECT_EQ(dbeta, dbeta2);
  }
}

TEST(Norm, NanStaysInItsGroup) {
  std::vector<float> x(64, 1);
  x[3] = NAN;
  std::vector<float> mean(2), var(2), y(64);
  NormForward<float>({2, 1, 0, 32, 2}, 1e-3, x.data(), nullptr, nullptr, mean.data(),
                     var.data(), y.data());
  EXPECT_TRUE(std::isnan(y[0]));
  EXPECT_EQ(y[32], 0);
}

}  // namespace
}  // namespace plait::cpu
