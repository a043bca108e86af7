// The plain loop of convolution in float64, and comparisons with it.

#ifndef PLAIT_CPU_CONV_CASES_FOR_TEST_H_
#define PLAIT_CPU_CONV_CASES_FOR_TEST_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "base/dtype.h"
#include "base/parallel.h"
#include "cpu/conv.h"

namespace plait::cpu {

using Doubles = std::vector<double>;

inline int64_t WeightSize(const ConvProblem& p) {
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

inline ConvProblem Plain(int64_t n, int64_t ic, int64_t h, int64_t w, int64_t oc,
                         int64_t k, int64_t stride = 1, int64_t pad = 0,
                         int64_t dilation = 1, int64_t groups = 1) {
  const int64_t x[] = {n, ic, h, w};
  const int64_t kernel[] = {k, k}, strides[] = {stride, stride};
  const int64_t dilations[] = {dilation, dilation}, pads[] = {pad, pad};
  return MakeConvProblem(x, oc, groups, kernel, strides, dilations, pads);
}

}  // namespace plait::cpu

#endif  // PLAIT_CPU_CONV_CASES_FOR_TEST_H_
