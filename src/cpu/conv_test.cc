// Convolution: each algorithm and pass against a plain loop in float64.

#include "cpu/conv.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "base/parallel.h"
#include "cpu/each_target_for_test.h"

namespace plait::cpu {
namespace {

using Doubles = std::vector<double>;

int64_t WeightSize(const ConvProblem& p) {
  return p.out_channels * (p.in_channels / p.groups) * p.KernelSize();
}

// Calls f(x index, weight index, y index, output channel) for every multiplication.
template <typename F>
void ForEachProduct(const ConvProblem& p, F&& f) {
  const int64_t ic = p.in_channels / p.groups, oc = p.out_channels / p.groups;
  const int64_t od = p.Out(0), oh = p.Out(1), ow = p.Out(2);
  for (int64_t n = 0; n < p.batch; ++n)
    for (int64_t o = 0; o < p.out_channels; ++o)
      for (int64_t i = 0; i < ic; ++i)
        for (int64_t a = 0; a < od; ++a)
          for (int64_t b = 0; b < oh; ++b)
            for (int64_t c = 0; c < ow; ++c)
              for (int64_t q = 0; q < p.KernelSize(); ++q) {
                const int64_t kz = q / p.kernel[2] / p.kernel[1];
                const int64_t ky = q / p.kernel[2] % p.kernel[1], kx = q % p.kernel[2];
                const int64_t z = a * p.stride[0] + kz * p.dilation[0] - p.pad_low[0];
                const int64_t y = b * p.stride[1] + ky * p.dilation[1] - p.pad_low[1];
                const int64_t x = c * p.stride[2] + kx * p.dilation[2] - p.pad_low[2];
                if (z < 0 || y < 0 || x < 0 || z >= p.in[0] || y >= p.in[1] ||
                    x >= p.in[2]) {
                  continue;
                }
                const int64_t channel = n * p.in_channels + o / oc * ic + i;
                f(((channel * p.in[0] + z) * p.in[1] + y) * p.in[2] + x,
                  (o * ic + i) * p.KernelSize() + q,
                  (((n * p.out_channels + o) * od + a) * oh + b) * ow + c);
              }
}

template <typename T>
struct Buffers {
  explicit Buffers(const ConvProblem& p)
      : x(Random(p.batch * p.in_channels * p.InSize())),
        weight(Random(WeightSize(p))),
        bias(Random(p.out_channels)),
        dy(Random(p.batch * p.out_channels * p.OutSize())) {}
  std::vector<T> Random(int64_t n) {
    std::uniform_real_distribution<float> draw(-1, 1);
    std::vector<T> v(n);
    for (T& value : v) value = T(draw(random));
    return v;
  }
  std::mt19937 random{11};
  std::vector<T> x, weight, bias, dy;
};

template <typename T>
void ExpectNear(const std::vector<T>& got, const Doubles& expected, double tolerance,
                const char* what) {
  ASSERT_EQ(got.size(), expected.size());
  double largest = 1;
  for (const double e : expected) largest = std::max(largest, std::fabs(e));
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_NEAR(static_cast<double>(got[i]), expected[i], tolerance * largest)
        << what << ", element " << i;
  }
}

template <typename T>
void ExpectAllPasses(const ConvProblem& p, ConvAlgorithm algorithm, double tolerance,
                     int threads = 1) {
  SCOPED_TRACE(testing::Message()
               << Name(kDTypeOf<T>) << " algorithm " << static_cast<int>(algorithm)
               << " n " << p.batch << " ic " << p.in_channels << " oc "
               << p.out_channels << " g " << p.groups << " in " << p.in[0] << "x"
               << p.in[1] << "x" << p.in[2] << " k " << p.kernel[0] << "x"
               << p.kernel[1] << "x" << p.kernel[2] << " s " << p.stride[2] << " d "
               << p.dilation[2] << " threads " << threads);
  const ScopedComputeThreads scope(threads);
  const Buffers<T> b(p);
  const T nan = T(NAN);
  std::vector<T> y(b.dy.size(), nan), dx(b.x.size(), nan), dw(b.weight.size(), nan),
      db(b.bias.size(), nan);
  Doubles ey(y.size()), edx(dx.size()), edw(dw.size()), edb(db.size());
  for (size_t i = 0; i < ey.size(); ++i) {
    const int64_t channel = static_cast<int64_t>(i) / p.OutSize() % p.out_channels;
    ey[i] = b.bias[channel];
    edb[channel] += b.dy[i];
  }
  ForEachProduct(p, [&](int64_t x, int64_t w, int64_t o) {
    ey[o] += double{b.x[x]} * b.weight[w];
    edx[x] += double{b.dy[o]} * b.weight[w];
    edw[w] += double{b.dy[o]} * b.x[x];
  });

  ConvForward(p, b.x.data(), b.weight.data(), b.bias.data(), false, y.data(),
              algorithm);
  ExpectNear(y, ey, tolerance, "y");
  ConvBackwardData(p, b.dy.data(), b.weight.data(), dx.data(), algorithm);
  ExpectNear(dx, edx, tolerance, "dx");
  ConvBackwardWeight(p, b.x.data(), b.dy.data(), dw.data(), db.data(), algorithm);
  ExpectNear(dw, edw, tolerance, "dweight");
  ExpectNear(db, edb, tolerance, "dbias");

  // Without bias, and with relu.
  for (size_t i = 0; i < ey.size(); ++i) {
    const int64_t channel = static_cast<int64_t>(i) / p.OutSize() % p.out_channels;
    ey[i] = std::max(0.0, ey[i] - b.bias[channel]);
  }
  ConvForward<T>(p, b.x.data(), b.weight.data(), nullptr, true, y.data(), algorithm);
  ExpectNear(y, ey, tolerance, "relu(y)");
  ConvBackwardWeight<T>(p, b.x.data(), b.dy.data(), dw.data(), nullptr, algorithm);
  ExpectNear(dw, edw, tolerance, "dweight without dbias");
}

ConvProblem Plain(int64_t n, int64_t ic, int64_t h, int64_t w, int64_t oc, int64_t k,
                  int64_t stride = 1, int64_t pad = 0, int64_t dilation = 1,
                  int64_t groups = 1) {
  const int64_t x[] = {n, ic, h, w};
  const int64_t kernel[] = {k, k}, strides[] = {stride, stride};
  const int64_t dilations[] = {dilation, dilation}, pads[] = {pad, pad};
  return MakeConvProblem(x, oc, groups, kernel, strides, dilations, pads);
}

std::vector<ConvProblem> Problems() {
  std::vector<ConvProblem> all = {
      Plain(2, 3, 7, 9, 5, 3),
      Plain(1, 1, 1, 1, 1, 1),
      Plain(3, 1, 12, 12, 4, 5),
      Plain(2, 20, 12, 12, 50, 5),
      Plain(2, 16, 10, 11, 17, 3, 1, 1),
      Plain(1, 6, 13, 15, 8, 3, 2, 1),
      Plain(1, 5, 20, 21, 7, 3, 3, 2, 2),
      Plain(2, 4, 11, 40, 3, 2, 1, 0, 3),
      Plain(1, 8, 9, 9, 12, 3, 1, 1, 1, 4),
      Plain(1, 6, 9, 9, 6, 3, 2, 1, 1, 6),
      Plain(2, 19, 6, 7, 23, 1),
      Plain(2, 7, 9, 7, 5, 1, 2),
      Plain(1, 3, 5, 5, 2, 7, 1, 3),
      Plain(1, 40, 5, 6, 33, 3, 1, 2),
      Plain(1, 2, 70, 70, 3, 3, 1, 1),
      Plain(1, 700, 2, 3, 600, 1),
      Plain(1, 3, 3, 900, 2, 3, 1, 1),
  };
  const auto make = [](std::vector<int64_t> x, int64_t oc, std::vector<int64_t> kernel,
                       std::vector<int64_t> stride, std::vector<int64_t> pad,
                       int64_t groups) {
    const std::vector<int64_t> dilation(kernel.size(), 1);
    return MakeConvProblem(x, oc, groups, kernel, stride, dilation, pad);
  };
  all.push_back(make({2, 3, 50}, 4, {5}, {2}, {1}, 1));
  all.push_back(make({1, 4, 3000}, 3, {9}, {1}, {4}, 1));
  all.push_back(make({2, 3, 5, 6, 7}, 4, {3, 2, 3}, {1, 2, 1}, {1, 0, 1}, 1));
  all.push_back(make({1, 4, 4, 5, 6}, 6, {1, 3, 3}, {2, 1, 2}, {0, 1, 1}, 2));
  ConvProblem uneven = Plain(2, 3, 8, 9, 4, 3);
  uneven.pad_low = {0, 1, 0};
  uneven.pad_high = {0, 2, 1};
  all.push_back(uneven);
  return all;
}

TEST(Conv, OwnKernelEqualsThePlainLoopInEveryPass) {
  ForEachTarget([] {
    for (const ConvProblem& p : Problems()) {
      for (const int threads : {1, 3}) {
        ExpectAllPasses<float>(p, ConvAlgorithm::kGemm, 2e-6, threads);
        ExpectAllPasses<double>(p, ConvAlgorithm::kGemm, 1e-14, threads);
      }
    }
  });
}

TEST(Conv, AutomaticChoiceEqualsThePlainLoop) {
  for (const ConvProblem& p : Problems()) {
    ExpectAllPasses<float>(p, ConvAlgorithm::kAuto, 2e-5, 2);
  }
}

TEST(Conv, HalvesEqualThePlainLoopWithinTheirPrecision) {
  for (const ConvProblem& p : Problems()) {
    ExpectAllPasses<Bfloat16>(p, ConvAlgorithm::kAuto, 1.0 / 200);
    ExpectAllPasses<Float16>(p, ConvAlgorithm::kAuto, 1.0 / 1500);
  }
}

TEST(Conv, EmptyBatchGivesZeroGradients) {
  const ConvProblem p = Plain(0, 3, 8, 8, 4, 3);
  std::vector<float> dw(WeightSize(p), 1), db(4, 1);
  ConvForward<float>(p, nullptr, nullptr, nullptr, false, nullptr);
  ConvBackwardData<float>(p, nullptr, nullptr, nullptr);
  ConvBackwardWeight<float>(p, nullptr, nullptr, dw.data(), db.data());
  for (const float x : dw) EXPECT_EQ(x, 0);
  for (const float x : db) EXPECT_EQ(x, 0);
}

TEST(Conv, WithoutInputChannelsGivesTheBias) {
  const ConvProblem p = Plain(2, 0, 4, 4, 2, 3);
  const std::vector<float> bias = {-1, 2}, dy(2 * 2 * 4, 1);
  std::vector<float> y(2 * 2 * 4), db(2);
  ConvForward<float>(p, nullptr, nullptr, bias.data(), true, y.data());
  EXPECT_EQ(y[0], 0);
  EXPECT_EQ(y[4], 2);
  ConvBackwardWeight<float>(p, nullptr, dy.data(), nullptr, db.data());
  EXPECT_EQ(db[1], 8);
}

TEST(Conv, OwnKernelGivesTheSameBitsForAnyNumberOfThreads) {
  const ConvProblem p = Plain(9, 20, 12, 12, 50, 5);
  const Buffers<float> b(p);
  std::vector<float> expected(b.weight.size()), got(b.weight.size()), db(50), db2(50);
  ConvBackwardWeight(p, b.x.data(), b.dy.data(), expected.data(), db.data(),
                     ConvAlgorithm::kGemm);
  for (const int threads : {2, 3, 7}) {
    const ScopedComputeThreads scope(threads);
    ConvBackwardWeight(p, b.x.data(), b.dy.data(), got.data(), db2.data(),
                       ConvAlgorithm::kGemm);
    EXPECT_EQ(expected, got);
    EXPECT_EQ(db, db2);
  }
}

TEST(Conv, PassesNanOnThroughRelu) {
  const ConvProblem p = Plain(1, 1, 3, 3, 1, 3);
  std::vector<float> x(9, 1), w(9, 1), y(1);
  x[4] = NAN;
  ConvForward<float>(p, x.data(), w.data(), nullptr, true, y.data());
  EXPECT_TRUE(std::isnan(y[0]));
}

}  // namespace
}  // namespace plait::cpu
