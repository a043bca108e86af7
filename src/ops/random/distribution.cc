// The distributions, and filling arrays with draws of them.

#include "ops/random/distribution.h"

#include <algorithm>

#include "base/parallel.h"
#include "cpu/pointwise.h"

namespace plait {
namespace {

constexpr Distribution kDistributions[] = {
    {"uniform",
     2,
     {"low", "high"},
     {"low", "high"},
     {0, 1},
     "Numbers of the uniform distribution on [low, high).",
     [](double a, double b) -> const char* {
       return a <= b ? nullptr : "low <= high was expected";
     },
     nullptr,
     Distribution::kUniform},
    {"normal",
     2,
     {"loc", "scale"},
     {"mu", "sigma"},
     {0, 1},
     "Numbers of the normal distribution with a mean and a standard deviation.",
     [](double a, double b) -> const char* {
       return a == a && b >= 0 ? nullptr : "scale >= 0 was expected";
     },
     nullptr,
     Distribution::kNormal},
    {"gamma",
     2,
     {"alpha", "beta"},
     {"alpha", "beta"},
     {1, 1},
     "Numbers of the gamma distribution with shape alpha and scale beta.",
     [](double a, double b) -> const char* {
       return a > 0 && b > 0 ? nullptr : "alpha > 0 and beta > 0 were expected";
     },
     [](cpu::ElementRandom& r, double a, double b) { return cpu::NextGamma(r, a, b); }},
    {"exponential",
     1,
     {"lam", nullptr},
     {"lam", nullptr},
     {1, 0},
     "Numbers of the exponential distribution with rate lam.",
     [](double a, double) -> const char* {
       return a > 0 ? nullptr : "lam > 0 was expected";
     },
     [](cpu::ElementRandom& r, double a, double) {
       return cpu::NextExponential(r, a);
     }},
    {"poisson",
     1,
     {"lam", nullptr},
     {"lam", nullptr},
     {1, 0},
     "Numbers of the Poisson distribution with mean lam.",
     [](double a, double) -> const char* {
       return a >= 0 ? nullptr : "lam >= 0 was expected";
     },
     [](cpu::ElementRandom& r, double a, double) { return cpu::NextPoisson(r, a); }},
    {"negative_binomial",
     2,
     {"k", "p"},
     {"k", "p"},
     {1, 1},
     "Numbers of failures before success k, each try with chance p of success.",
     [](double a, double b) -> const char* {
       return a > 0 && b > 0 && b <= 1 ? nullptr : "k > 0 and 0 < p <= 1 were expected";
     },
     [](cpu::ElementRandom& r, double a, double b) {
       return cpu::NextNegativeBinomial(r, a, b);
     }},
    {"generalized_negative_binomial",
     2,
     {"mu", "alpha"},
     {"mu", "alpha"},
     {1, 1},
     "Numbers of the negative binomial distribution by mean mu and dispersion alpha.",
     [](double a, double b) -> const char* {
       return a >= 0 && b >= 0 ? nullptr : "mu >= 0 and alpha >= 0 were expected";
     },
     [](cpu::ElementRandom& r, double a, double b) {
       return cpu::NextGeneralizedNegativeBinomial(r, a, b);
     }},
};

// A stretch of numbers of the base distribution, moved and scaled, in the type T.
template <typename T>
void Affine(const Distribution& d, RandomStream stream, double a, double b,
            int64_t first, T* out, int64_t n) {
  if (d.base == Distribution::kUniform) {
    cpu::FillUniform(stream, first, out, n);
    const T low = static_cast<T>(a), width = static_cast<T>(b - a);
    for (int64_t i = 0; i < n; ++i) out[i] = low + width * out[i];
  } else {
    cpu::FillNormal(stream, first, out, n);
    const T mean = static_cast<T>(a), scale = static_cast<T>(b);
    for (int64_t i = 0; i < n; ++i) out[i] = mean + scale * out[i];
  }
}

template <typename T>
void FillRange(const Distribution& d, RandomStream stream, double a, double b,
               int64_t first, int64_t last, const View& y) {
  char* bytes = static_cast<char*>(y.ptr);
  const size_t width = SizeOf(y.dtype);
  if (d.base != Distribution::kNone && y.dtype == kDTypeOf<T>) {
    Affine(d, stream, a, b, first, reinterpret_cast<T*>(bytes) + first, last - first);
    return;
  }
  constexpr int64_t kTile = 512;
  T tile[kTile];
  for (int64_t i = first; i < last; i += kTile) {
    const int64_t n = std::min(kTile, last - i);
    if (d.base != Distribution::kNone) {
      Affine(d, stream, a, b, i, tile, n);
    } else {
      for (int64_t k = 0; k < n; ++k) {
        cpu::ElementRandom random(stream, i + k);
        tile[k] = static_cast<T>(d.draw(random, a, b));
      }
    }
    cpu::Convert(tile, kDTypeOf<T>, bytes + i * width, y.dtype, n);
  }
}

}  // namespace

std::span<const Distribution> Distributions() {
  return kDistributions;
}

void CheckParams(const Distribution& d, double a, double b) {
  const char* reason = d.rejects(a, b);
  if (reason == nullptr) return;
  if (d.num_params == 1) {
    Fail(ErrorKind::kValue, "_random_", d.name, ": ", d.params[0], " is ", a, "; ",
         reason);
  }
  Fail(ErrorKind::kValue, "_random_", d.name, ": ", d.params[0], " is ", a, " and ",
       d.params[1], " is ", b, "; ", reason);
}

void FillSamples(const Distribution& d, RandomStream stream, double a, double b,
                 int64_t first, int64_t count, const View& y) {
  const int64_t grain = d.base != Distribution::kNone ? 1 << 14 : 1 << 9;
  ParallelFor(count, grain, [&](int64_t begin, int64_t end) {
    if (y.dtype == DType::kFloat64) {
      FillRange<double>(d, stream, a, b, first + begin, first + end, y);
    } else {
      FillRange<float>(d, stream, a, b, first + begin, first + end, y);
    }
  });
}

}  // namespace plait
