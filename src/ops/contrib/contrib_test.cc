// Attention against its definition, transforms of every length, points on a line.

#include <cmath>
#include <complex>
#include <numbers>

#include "ops/call_for_test.h"

namespace plait::testing {
namespace {

using Vector = std::vector<double>;

// x (length, batch, heads, parts, size) at one place.
double At(const Vector& x, const Shape& s, int64_t l, int64_t b, int64_t h, int64_t p,
          int64_t i) {
  return x[(((l * s[1] + b) * s[2] + h) * s[3] + p) * s[4] + i];
}

TEST(Attention, IsQueriesTimesKeysAndWeightsTimesValues) {
  const int64_t length = 3, batch = 2, heads = 2, size = 4;
  const Shape s{length, batch, heads, 3, size};
  const NDArray x = Ramp({length, batch, heads * 3 * size}, 0.01, -0.5);
  const NDArray w = Ramp({batch * heads, length, length}, 0.1, -1);
  const Attrs attrs = {{"heads", "2"}};
  const Vector v = Numbers(x), weights = Numbers(w);
  const Vector scores =
      Numbers(Call1("_contrib_interleaved_matmul_selfatt_qk", {x}, attrs));
  const Vector mixed =
      Numbers(Call1("_contrib_interleaved_matmul_selfatt_valatt", {x, w}, attrs));
  for (int64_t b = 0; b < batch; ++b) {
    for (int64_t h = 0; h < heads; ++h) {
      const int64_t matrix = b * heads + h;
      for (int64_t q = 0; q < length; ++q) {
        for (int64_t k = 0; k < length; ++k) {
          double sum = 0;
          for (int64_t i = 0; i < size; ++i)
            sum += At(v, s, q, b, h, 0, i) * At(v, s, k, b, h, 1, i);
          EXPECT_NEAR(scores[(matrix * length + q) * length + k], sum / 2, 1e-5);
        }
        for (int64_t i = 0; i < size; ++i) {
          double sum = 0;
          for (int64_t k = 0; k < length; ++k)
            sum +=
                weights[(matrix * length + q) * length + k] * At(v, s, k, b, h, 2, i);
          EXPECT_NEAR(mixed[((q * batch + b) * heads + h) * size + i], sum, 1e-5);
        }
      }
    }
  }
}

TEST(Attention, NamesShapesThatDoNotFit) {
  ExpectError(
      [] {
        Call("_contrib_interleaved_matmul_selfatt_qk", {Ramp({2, 2, 10})},
             {{"heads", "2"}});
      },
      ErrorKind::kValue, {"selfatt_qk", "(2, 2, 10)", "2 heads"});
  ExpectError(
      [] {
        Call("_contrib_interleaved_matmul_encdec_valatt",
             {Ramp({2, 2, 8}), Ramp({4, 3, 3})}, {{"heads", "2"}});
      },
      ErrorKind::kValue, {"encdec_valatt", "(4, 3, 3)"});
  ExpectError(
      [] {
        Call("_contrib_interleaved_matmul_encdec_qk",
             {Ramp({2, 2, 8}), Ramp({2, 2, 8})}, {{"heads", "0"}});
      },
      ErrorKind::kValue, {"encdec_qk", "heads is 0"});
}

TEST(Fourier, IsTheDefinitionAtEveryLength) {
  for (int64_t n : {1, 2, 3, 4, 5, 7, 8, 12, 31, 64, 100, 257}) {
    const NDArray x = NDArray::Empty({n}, DType::kFloat64);
    for (int64_t j = 0; j < n; ++j) x.data<double>()[j] = std::sin(1.7 * j * j + 0.3);
    const Vector in = Numbers(x), out = Numbers(Call1("_contrib_fft", {x}));
    for (int64_t k = 0; k < n; ++k) {
      std::complex<double> sum = 0;
      for (int64_t j = 0; j < n; ++j)
        sum += in[j] * std::polar(1.0, -2 * std::numbers::pi * (j * k % n) / n);
      EXPECT_NEAR(out[2 * k], sum.real(), 1e-10 * n);
      EXPECT_NEAR(out[2 * k + 1], sum.imag(), 1e-10 * n);
    }
    Vector back = in;
    for (double& v : back) v *= static_cast<double>(n);
    ExpectNear(Call1("_contrib_ifft", {Call1("_contrib_fft", {x})}), back, 1e-10 * n);
  }
  ExpectError(
      [] {
        Call("_contrib_ifft", {Ramp({2, 3})});
      },
      ErrorKind::kValue, {"_contrib_ifft", "(2, 3)", "even"});
}

TEST(CountSketch, AddsColumnsWithSigns) {
  const NDArray h = Array({1, 4}, {0, 2, 0, 1}), s = Array({1, 4}, {1, -1, -1, 1});
  ExpectNear(
      Call1("_contrib_count_sketch", {Ramp({2, 4}, 1, 1), h, s}, {{"out_dim", "3"}}),
      {-2, 4, -2, -2, 8, -6});
  ExpectError(
      [&] {
        Call1("_contrib_count_sketch", {Ramp({2, 4}), h, s}, {{"out_dim", "2"}})
            .WaitToRead();
      },
      ErrorKind::kIndex, {"_contrib_count_sketch", "index 2"});
}

TEST(Hawkes, LikelihoodOfOnePointWithoutExcitementIsPoissons) {
  const NDArray one = Array({1, 1}, {2}), zero = Array({1}, {0}),
                rate = Array({1}, {1});
  const Arrays y =
      Call("_contrib_hawkesll",
           {one, zero, rate, Array({1, 1}, {0}), Array({1, 2}, {0.5, 9}),
            Array({1, 2}, {0}, DType::kInt32), Array({1}, {1}), Array({1}, {3})});
  ExpectNear(y[0], {std::log(2.0) - 2 * 3});
  ExpectNear(y[1], {std::exp(-2.5)});
}

TEST(Hawkes, MarksOutOfRangeAreErrors) {
  const NDArray k = Array({1}, {0.5}), nk = Array({1, 1}, {1});
  ExpectError(
      [&] {
        Call1("_contrib_hawkesll",
              {nk, k, k, nk, Array({1, 1}, {1}), Array({1, 1}, {1}, DType::kInt32),
               Array({1}, {1}), Array({1}, {3})})
            .WaitToRead();
      },
      ErrorKind::kIndex, {"_contrib_hawkesll", "index 1"});
}

}  // namespace
}  // namespace plait::testing
