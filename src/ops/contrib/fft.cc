// _contrib_fft, _contrib_ifft: Fourier transforms of the last axis.

#include "ops/contrib/fft.h"

#include <algorithm>
#include <bit>
#include <numbers>

#include "base/parallel.h"
#include "graph/math.h"
#include "ops/infer.h"

namespace plait {
namespace {

using Complex = FourierPlan::Complex;

Complex Root(double turns) {
  return std::polar(1.0, -2 * std::numbers::pi * turns);
}

// In place, for powers of two: bits of positions are reversed, then halves are
// combined.
void PowerOfTwo(Complex* x, int64_t n, const std::vector<Complex>& roots) {
  for (int64_t i = 1, j = 0; i < n; ++i) {
    int64_t bit = n >> 1;
    for (; j & bit; bit >>= 1) j ^= bit;
    j ^= bit;
    if (i < j) std::swap(x[i], x[j]);
  }
  for (int64_t half = 1; half < n; half *= 2) {
    const int64_t step = n / (2 * half);
    for (int64_t first = 0; first < n; first += 2 * half) {
      for (int64_t k = 0; k < half; ++k) {
        Complex &a = x[first + k], &b = x[first + k + half];
        const Complex w = roots[k * step];
        const Complex t(b.real() * w.real() - b.imag() * w.imag(),
                        b.real() * w.imag() + b.imag() * w.real());
        b = a - t;
        a += t;
      }
    }
  }
}

}  // namespace

// Other lengths by Bluestein's way: jk = (j^2 + k^2 - (k - j)^2) / 2 makes the
// transform a convolution with a chirp, which a power of two can do.
FourierPlan::FourierPlan(int64_t n) : n_(n) {
  const bool is_power = std::has_single_bit(static_cast<uint64_t>(n));
  padded_ = is_power
                ? n
                : static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(2 * n - 1)));
  roots_.resize(std::max<int64_t>(1, padded_ / 2));
  for (size_t k = 0; k < roots_.size(); ++k) {
    roots_[k] = Root(static_cast<double>(k) / static_cast<double>(padded_));
  }
  if (is_power) return;
  chirp_.resize(n);
  kernel_.assign(padded_, 0);
  for (int64_t k = 0; k < n; ++k) {
    const int64_t square = static_cast<int64_t>(static_cast<unsigned __int128>(k) * k %
                                                (2 * static_cast<uint64_t>(n)));
    chirp_[k] = Root(static_cast<double>(square) / (2 * static_cast<double>(n)));
    kernel_[k] = std::conj(chirp_[k]);
    if (k > 0) kernel_[padded_ - k] = kernel_[k];
  }
  PowerOfTwo(kernel_.data(), padded_, roots_);
}

void FourierPlan::Run(Complex* x, std::vector<Complex>& scratch) const {
  if (chirp_.empty()) return PowerOfTwo(x, n_, roots_);
  scratch.assign(padded_, 0);
  for (int64_t k = 0; k < n_; ++k) scratch[k] = x[k] * chirp_[k];
  PowerOfTwo(scratch.data(), padded_, roots_);
  // The inverse transform is the conjugate of the transform of the conjugate.
  for (int64_t k = 0; k < padded_; ++k) scratch[k] = std::conj(scratch[k] * kernel_[k]);
  PowerOfTwo(scratch.data(), padded_, roots_);
  const double scale = 1 / static_cast<double>(padded_);
  for (int64_t k = 0; k < n_; ++k) x[k] = std::conj(scratch[k]) * scale * chirp_[k];
}

namespace {

struct FftParams {
  int compute_size = 128;
};

std::vector<Param<FftParams>> ParamList() {
  return {{"compute_size", &FftParams::compute_size,
           "Rows that are transformed at once; a hint, without effect."}};
}

// Calls f(row, buffer) for each row of n numbers.
template <typename F>
void ForEachRow(int64_t rows, int64_t n, F&& f) {
  if (rows == 0 || n == 0) return;
  const FourierPlan plan(n);
  ParallelFor(rows, 1 + 4096 / n, [&](int64_t first, int64_t last) {
    std::vector<Complex> buffer(n), scratch;
    for (int64_t i = first; i < last; ++i) f(i, plan, buffer, scratch);
  });
}

template <typename T>
double Number(T x) {
  return static_cast<double>(static_cast<Accumulate<T>>(x));
}
template <typename T>
T Stored(double x) {
  return static_cast<T>(static_cast<Accumulate<T>>(x));
}

double Cost(const Shape& x) {
  return 30.0 * static_cast<double>(x.size()) *
         std::bit_width(static_cast<uint64_t>(x.rank() > 0 ? x.back() : 1));
}

[[maybe_unused]] const OpDef& fft = Register<FftParams>({
    .name = "_contrib_fft",
    .doc = "The Fourier transform of the last axis: real and imaginary parts take "
           "turns in the result.",
    .inputs = {{"data", Types::kFloats, "Real numbers, (..., n)."}},
    .outputs = {{"output", Types::kFloats, "(..., 2 n)."}},
    .params = ParamList(),
    .infer =
        [](const FftParams&, Specs& in, Specs& out) {
          Shape y = in[0].shape;
          if (!y.known()) return true;
          Check(y.rank() >= 1, "_contrib_fft: data has no axis; one was expected");
          y.back() *= 2;
          return Unify(y, out[0].shape);
        },
    // The transposed transform is the inverse one, without its factor.
    .gradient = [](const FftParams&, const GradArgs& g) -> Values {
      return {Make("_contrib_ifft", {g.dout(0)})};
    },
    .cpu = {{"plain",
             [](const FftParams&, const KernelArgs& args) {
               const View &x = args.in[0], &y = args.out[0];
               const int64_t n = x.shape().back();
               VisitFloat(x.dtype, [&]<typename T>() {
                 ForEachRow(n > 0 ? x.size() / n : 0, n,
                            [&](int64_t i, const auto& plan, auto& row, auto& scratch) {
                              const T* src = x.data<const T>() + i * n;
                              for (int64_t k = 0; k < n; ++k) row[k] = Number(src[k]);
                              plan.Run(row.data(), scratch);
                              T* dst = y.data<T>() + i * 2 * n;
                              for (int64_t k = 0; k < n; ++k) {
                                dst[2 * k] = Stored<T>(row[k].real());
                                dst[2 * k + 1] = Stored<T>(row[k].imag());
                              }
                            });
               });
             }}},
    .cost = [](const FftParams&, const Specs& in,
               const Specs&) { return Cost(in[0].shape); },
    .samples = {{{Normal({2, 4})}}, {{Normal({2, 1, 2, 3})}}, {{Normal({0, 4})}}},
});

[[maybe_unused]] const OpDef& ifft = Register<FftParams>({
    .name = "_contrib_ifft",
    .doc = "The real part of the inverse Fourier transform of the last axis, times its "
           "length: what undoes _contrib_fft up to that factor.",
    .inputs = {{"data", Types::kFloats,
                "Real and imaginary parts, which take turns: (..., 2 n)."}},
    .outputs = {{"output", Types::kFloats, "(..., n)."}},
    .params = ParamList(),
    .infer =
        [](const FftParams&, Specs& in, Specs& out) {
          Shape y = in[0].shape;
          if (!y.known()) return true;
          Check(y.rank() >= 1 && y.back() % 2 == 0, "_contrib_ifft: data has shape ", y,
                "; real and imaginary parts, an even size of the last axis, were "
                "expected");
          y.back() /= 2;
          return Unify(y, out[0].shape);
        },
    .gradient = [](const FftParams&, const GradArgs& g) -> Values {
      return {Make("_contrib_fft", {g.dout(0)})};
    },
    .cpu = {{"plain",
             [](const FftParams&, const KernelArgs& args) {
               const View &x = args.in[0], &y = args.out[0];
               const int64_t n = y.shape().back();
               VisitFloat(x.dtype, [&]<typename T>() {
                 ForEachRow(n > 0 ? y.size() / n : 0, n,
                            [&](int64_t i, const auto& plan, auto& row, auto& scratch) {
                              const T* src = x.data<const T>() + i * 2 * n;
                              for (int64_t k = 0; k < n; ++k) {
                                row[k] = Complex(Number(src[2 * k]),
                                                 -Number(src[2 * k + 1]));
                              }
                              plan.Run(row.data(), scratch);
                              T* dst = y.data<T>() + i * n;
                              for (int64_t k = 0; k < n; ++k)
                                dst[k] = Stored<T>(row[k].real());
                            });
               });
             }}},
    .cost = [](const FftParams&, const Specs& in,
               const Specs&) { return Cost(in[0].shape); },
    .samples = {{{Normal({2, 8})}}, {{Normal({2, 1, 2, 6})}}},
});

}  // namespace
}  // namespace plait
