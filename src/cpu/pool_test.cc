// Pooling of planes against plain loops in float64.

#include "cpu/pool.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "base/parallel.h"
#include "cpu/each_target_for_test.h"

namespace plait::cpu {
namespace {

PoolPlanes Make(int64_t planes, int64_t h, int64_t w, int64_t kernel, int64_t stride,
                int64_t pad, bool full = false) {
  const auto out = [&](int64_t size) {
    return (size + 2 * pad - kernel + (full ? stride - 1 : 0)) / stride + 1;
  };
  return {planes, h, w, out(h), out(w), kernel, kernel, stride, stride, pad, pad};
}

std::vector<PoolPlanes> Problems() {
  std::vector<PoolPlanes> all = {Make(3, 24, 24, 2, 2, 0), Make(5, 8, 8, 2, 2, 0),
                                 Make(2, 7, 9, 2, 2, 0),   Make(2, 4, 66, 2, 2, 0),
                                 Make(1, 2, 2, 2, 2, 0),   Make(2, 7, 9, 2, 2, 0, true),
                                 Make(2, 15, 17, 3, 2, 1), Make(2, 12, 40, 3, 2, 1),
                                 Make(2, 13, 13, 3, 1, 1), Make(2, 10, 70, 3, 1, 1),
                                 Make(2, 11, 12, 3, 3, 0), Make(1, 9, 50, 2, 3, 0),
                                 Make(2, 7, 7, 7, 1, 0),   Make(2, 5, 6, 3, 2, 1, true),
                                 Make(2, 6, 6, 2, 2, 1),   Make(1, 3, 3, 3, 2, 1),
                                 Make(1, 40, 41, 5, 4, 2), Make(0, 8, 8, 2, 2, 0)};
  PoolPlanes uneven = Make(2, 9, 20, 2, 2, 0);
  uneven.kernel_h = 3;
  uneven.out_h = (9 - 3) / 2 + 1;
  all.push_back(uneven);
  return all;
}

// Few different numbers, so that windows have ties.
std::vector<float> Numbers(int64_t n, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<float> x(n);
  for (float& v : x) v = static_cast<float>(static_cast<int>(random() % 9) - 4);
  return x;
}

// Calls f(plane, window in y's plane, places in x's plane, number with padding).
template <typename F>
void ForEachWindow(const PoolPlanes& p, F&& f) {
  for (int64_t plane = 0; plane < p.planes; ++plane) {
    for (int64_t r = 0; r < p.out_h; ++r) {
      for (int64_t i = 0; i < p.out_w; ++i) {
        std::vector<int64_t> places;
        int64_t padded = 0;
        for (int64_t a = r * p.stride_h - p.pad_h, b_end = a + p.kernel_h; a < b_end;
             ++a) {
          for (int64_t k = 0; k < p.kernel_w; ++k) {
            const int64_t b = i * p.stride_w - p.pad_w + k;
            if (a < p.h + p.pad_h && b < p.w + p.pad_w) ++padded;
            if (a >= 0 && a < p.h && b >= 0 && b < p.w) places.push_back(a * p.w + b);
          }
        }
        f(plane, (plane * p.out_h + r) * p.out_w + i, places, padded);
      }
    }
  }
}

int64_t FirstLargest(const float* x, const std::vector<int64_t>& places) {
  int64_t best = -1;
  for (const int64_t at : places) {
    if (best < 0 || x[at] > x[best] || (std::isnan(x[at]) && !std::isnan(x[best]))) {
      best = at;
    }
  }
  return best;
}

void ExpectMax(const PoolPlanes& p, const std::vector<float>& x) {
  const int64_t out = p.planes * p.out_h * p.out_w;
  const std::vector<float> dy = Numbers(out, 5);
  std::vector<float> y(out, -99), dx(x.size(), -99), ey(out), edx(x.size());
  ForEachWindow(p, [&](int64_t plane, int64_t i, const auto& places, int64_t) {
    const float* from = x.data() + plane * p.h * p.w;
    const int64_t best = FirstLargest(from, places);
    ey[i] = best < 0 ? std::numeric_limits<float>::lowest() : from[best];
    if (best >= 0) edx[plane * p.h * p.w + best] += dy[i];
  });
  MaxPool(p, x.data(), y.data());
  MaxPoolBackward(p, dy.data(), x.data(), dx.data());
  for (int64_t i = 0; i < out; ++i) {
    if (std::isnan(y[i]) && std::isnan(ey[i])) continue;
    ASSERT_EQ(y[i], ey[i]) << i;
  }
  EXPECT_EQ(dx, edx);
}

void ExpectSum(const PoolPlanes& p, bool average, bool include_pad) {
  const int64_t out = p.planes * p.out_h * p.out_w;
  const std::vector<float> x = Numbers(p.planes * p.h * p.w, 1), dy = Numbers(out, 2);
  std::vector<float> y(out, -99), dx(x.size(), -99);
  std::vector<double> ey(out), edx(x.size());
  ForEachWindow(p, [&](int64_t plane, int64_t i, const auto& places, int64_t padded) {
    const auto inside = static_cast<int64_t>(places.size());
    const double n = !average ? 1 : std::max<int64_t>(1, include_pad ? padded : inside);
    for (const int64_t at : places) {
      ey[i] += x[plane * p.h * p.w + at] / n;
      edx[plane * p.h * p.w + at] += dy[i] / n;
    }
  });
  SumPool(p, average, include_pad, x.data(), y.data());
  SumPoolBackward(p, average, include_pad, dy.data(), dx.data());
  for (int64_t i = 0; i < out; ++i) ASSERT_NEAR(y[i], ey[i], 1e-5) << i;
  for (size_t i = 0; i < dx.size(); ++i) ASSERT_NEAR(dx[i], edx[i], 1e-5) << i;
}

void ForEachProblem(void (*f)(const PoolPlanes& p)) {
  ForEachTarget([&] {
    for (const PoolPlanes& p : Problems()) {
      for (const int threads : {1, 2}) {
        SCOPED_TRACE(testing::Message()
                     << p.planes << " planes of " << p.h << " x " << p.w << ", kernel "
                     << p.kernel_h << " x " << p.kernel_w << ", stride " << p.stride_w
                     << ", pad " << p.pad_w);
        const ScopedComputeThreads scope(threads);
        f(p);
      }
    }
  });
}

TEST(Pool, MaximumAndItsGradientEqualThePlainLoop) {
  ForEachProblem(
      [](const PoolPlanes& p) { ExpectMax(p, Numbers(p.planes * p.h * p.w, 3)); });
}

TEST(Pool, NanIsTheLargest) {
  ForEachProblem([](const PoolPlanes& p) {
    std::vector<float> x = Numbers(p.planes * p.h * p.w, 3);
    for (size_t i = 0; i < x.size(); i += 5) x[i] = NAN;
    ExpectMax(p, x);
  });
}

TEST(Pool, SumsAveragesAndTheirGradientsEqualThePlainLoop) {
  ForEachProblem([](const PoolPlanes& p) {
    ExpectSum(p, false, true);
    ExpectSum(p, true, true);
    ExpectSum(p, true, false);
  });
}

}  // namespace
}  // namespace plait::cpu
