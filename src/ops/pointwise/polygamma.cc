// _polygamma: derivatives of the digamma function, for gradients of gamma and gammaln.

#include <cmath>
#include <limits>

#include "base/parallel.h"
#include "ops/gradients.h"
#include "ops/infer.h"

namespace plait {
namespace {

struct PolygammaParams {
  int n = 1;
};

// (-1)^(n+1) times the n-th derivative of digamma, from the recurrence up to a large
// argument and the asymptotic series there.
double AbsPolygamma(int n, double x) {
  constexpr double kBernoulli[] = {1.0 / 6,  -1.0 / 30,      1.0 / 42, -1.0 / 30,
                                   5.0 / 66, -691.0 / 2730., 7.0 / 6};
  constexpr double kTooFar = -1e6;  // poles lie closer than float64 resolves anything
  if (!(x > kTooFar)) return std::numeric_limits<double>::quiet_NaN();
  const double factorial = std::tgamma(n + 1.0);
  double sum = 0;
  for (; x < 15 + n; x += 1) sum += factorial / std::pow(x, n + 1);
  const double inverse = 1 / x, power = std::pow(inverse, n);
  sum += factorial / n * power + factorial / 2 * power * inverse;
  double term = factorial / n * power;  // (2k + n - 1)! / (2k)! / x^(2k + n)
  for (int k = 1; k <= 7; ++k) {
    const double m = 2 * k;
    term *= (m + n - 2) * (m + n - 1) / ((m - 1) * m) * inverse * inverse;
    sum += kBernoulli[k - 1] * term;
  }
  return sum;
}

void Run(const PolygammaParams& p, const KernelArgs& args) {
  const double sign = p.n % 2 == 1 ? 1 : -1;
  VisitFloat(args.out[0].dtype, [&]<typename T>() {
    const T* x = args.in[0].data<T>();
    T* y = args.out[0].data<T>();
    ParallelFor(args.out[0].size(), 1024, [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) {
        y[i] = T(sign * AbsPolygamma(p.n, static_cast<double>(x[i])));
      }
    });
  });
}

Values Gradient(const PolygammaParams& p, const GradArgs& g) {
  return {g.dout(0) * Make("_polygamma", {g.in(0)}, {{"n", Attr(p.n + 1)}})};
}

[[maybe_unused]] const OpDef& polygamma = Register<PolygammaParams>({
    .name = "_polygamma",
    .doc = "The n-th derivative of the digamma function.",
    .inputs = {{"data", Types::kFloats, "Numbers, of any shape."}},
    .params = {{"n", &PolygammaParams::n, "Which derivative, at least 1."}},
    .infer =
        [](const PolygammaParams& p, Specs& in, Specs& out) {
          Check(p.n >= 1, "_polygamma: n is ", p.n, "; at least 1 was expected");
          return Unify(in[0].shape, out[0].shape);
        },
    .gradient = Gradient,
    .uses = {.in = 1},
    .cpu = {{"plain", Run}},
    .in_place = {{0, 0}},
    .samples = {{{Uniform({2, 3}, 0.5, 5)}},
                {{Uniform({4}, 0.5, 3)}, {.n = 2}},
                {{Uniform({0, 2}, 0.5, 3)}}},
});

}  // namespace
}  // namespace plait
