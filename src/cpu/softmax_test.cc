// Softmax against a plain loop in float64.

#include "cpu/softmax.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "base/parallel.h"
#include "cpu/each_target_for_test.h"

namespace plait::cpu {
namespace {

template <typename T>
std::vector<T> Random(int64_t n, uint32_t seed, double scale) {
  std::mt19937 random(seed);
  std::normal_distribution<double> draw(0, scale);
  std::vector<T> x(n);
  for (T& v : x) v = static_cast<T>(draw(random));
  return x;
}

// Calls f(place of element 0, distance of elements) for every slice.
template <typename F>
void ForEachSlice(const SoftmaxSlices& s, F&& f) {
  for (int64_t i = 0; i < s.outer * s.inner; ++i) {
    f(i / s.inner * s.n * s.inner + i % s.inner, s.inner);
  }
}

template <typename T>
void Expect(SoftmaxSlices s, double tolerance) {
  SCOPED_TRACE(testing::Message()
               << s.outer << " x " << s.n << " x " << s.inner << (s.log ? " log" : "")
               << " temperature " << s.temperature);
  const int64_t size = s.outer * s.n * s.inner;
  const auto x = Random<T>(size, 1, 4), dy = Random<T>(size, 2, 1);
  std::vector<T> y(size, T(-9)), dx(size, T(-9));
  std::vector<double> ey(size), edx(size);
  ForEachSlice(s, [&](int64_t at, int64_t step) {
    double top = -INFINITY, total = 0, sum = 0;
    for (int64_t i = 0; i < s.n; ++i) {
      top = std::max(top, x[at + i * step] / s.temperature);
    }
    for (int64_t i = 0; i < s.n; ++i) {
      total += std::exp(x[at + i * step] / s.temperature - top);
    }
    for (int64_t i = 0; i < s.n; ++i) {
      const int64_t j = at + i * step;
      const double log = x[j] / s.temperature - top - std::log(total);
      ey[j] = s.log ? log : std::exp(log);
      sum += s.log ? dy[j] : ey[j] * dy[j];
    }
    for (int64_t i = 0; i < s.n; ++i) {
      const int64_t j = at + i * step;
      const double v = s.log ? dy[j] - std::exp(ey[j]) * sum : ey[j] * (dy[j] - sum);
      edx[j] = v / s.temperature;
    }
  });
  SoftmaxForward(s, x.data(), y.data());
  std::vector<T> in_place = x;
  SoftmaxForward(s, in_place.data(), in_place.data());
  EXPECT_EQ(y, in_place);
  SoftmaxBackward(s, y.data(), dy.data(), dx.data());
  for (int64_t i = 0; i < size; ++i) {
    ASSERT_NEAR(y[i], ey[i], tolerance * (1 + std::fabs(ey[i]))) << "y " << i;
    ASSERT_NEAR(dx[i], edx[i], tolerance * std::sqrt(s.n) * (1 + std::fabs(edx[i])))
        << "dx " << i;
  }
}

TEST(Softmax, EqualsThePlainLoop) {
  ForEachTarget([] {
    for (const int threads : {1, 3}) {
      const ScopedComputeThreads scope(threads);
      for (const bool log : {false, true}) {
        for (const double temperature : {1.0, 2.5, -1.0}) {
          for (const int64_t n : {1, 2, 10, 16, 33, 1000}) {
            for (const int64_t inner : {1, 3, 40}) {
              const int64_t outer = n < 100 ? 7 : 2;
              Expect<float>({outer, n, inner, temperature, log}, 3e-6);
              Expect<double>({outer, n, inner, temperature, log}, 1e-13);
            }
          }
        }
      }
    }
  });
}

TEST(Softmax, LargeNumbersDoNotOverflow) {
  ForEachTarget([] {
    const std::vector<float> x = {1e30f, 1e30f, -1e30f, 0};
    std::vector<float> y(4);
    SoftmaxForward<float>({1, 4, 1}, x.data(), y.data());
    EXPECT_EQ(y, (std::vector<float>{0.5f, 0.5f, 0, 0}));
    SoftmaxForward<float>({1, 2, 2}, x.data(), y.data());
    EXPECT_EQ(y, (std::vector<float>{1, 1, 0, 0}));
  });
}

TEST(Softmax, NanStaysInItsSlice) {
  ForEachTarget([] {
    for (const int64_t n : {3, 40}) {
      std::vector<float> x(2 * n, 1), y(2 * n);
      x[n - 1] = NAN;
      SoftmaxForward<float>({2, n, 1}, x.data(), y.data());
      for (int64_t i = 0; i < n; ++i) {
        EXPECT_TRUE(std::isnan(y[i]));
        EXPECT_NEAR(y[n + i], 1.0 / n, 1e-6);
      }
      SoftmaxForward<float>({1, n, 2}, x.data(), y.data());
      EXPECT_TRUE(std::isnan(y[(n - 1) % 2]));
      EXPECT_NEAR(y[n % 2], 1.0 / n, 1e-6);
    }
  });
}

TEST(Softmax, DoesNothingForNoSlices) {
  SoftmaxForward<float>({0, 3, 1}, nullptr, nullptr);
  SoftmaxBackward<float>({2, 3, 0}, nullptr, nullptr, nullptr);
}

}  // namespace
}  // namespace plait::cpu
