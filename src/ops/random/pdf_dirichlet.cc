// _random_pdf_dirichlet: the density of the Dirichlet distribution at given samples.

#include <cmath>

#include "base/parallel.h"
#include "graph/math.h"
#include "ops/infer.h"

namespace plait {
namespace {

struct DirichletParams {
  bool is_log = false;
};

// alpha has the first axes of the samples, and their last one.
bool Infer(const DirichletParams&, Specs& in, Specs& out) {
  const Shape &x = in[0].shape, &alpha = in[1].shape;
  if (!x.rank_known()) return true;
  Check(x.rank() >= 1, "_random_pdf_dirichlet: samples have no axis; vectors in the ",
        "last one were expected");
  Shape y(x.begin(), x.end() - 1);
  if (y.rank() == 0) y = {1};
  if (!Unify(y, out[0].shape)) return false;
  if (!alpha.rank_known()) return true;
  const bool fits = alpha.rank() >= 1 && alpha.rank() <= x.rank();
  Shape expected(x.begin(), x.begin() + (fits ? alpha.rank() : 0));
  if (fits) expected.back() = x.back();
  const Shape given = alpha;
  Check(fits && Unify(expected, in[1].shape), "_random_pdf_dirichlet: alpha of shape ",
        given, " does not fit samples of shape ", x,
        "; their first axes and their last one were expected");
  return true;
}

template <typename T>
double LogDensity(const T* x, const T* alpha, int64_t k) {
  double total = 0, sum = 0;
  for (int64_t j = 0; j < k; ++j) {
    const auto a = static_cast<double>(static_cast<Accumulate<T>>(alpha[j]));
    const auto s = static_cast<double>(static_cast<Accumulate<T>>(x[j]));
    total += a;
    sum += (a - 1) * std::log(s) - std::lgamma(a);
  }
  return sum + std::lgamma(total);
}

void Run(const DirichletParams& p, const KernelArgs& args) {
  const View &x = args.in[0], &alpha = args.in[1], &y = args.out[0];
  if (y.size() == 0) return;
  const int64_t k = x.shape().back();
  const int64_t sets = k > 0 ? alpha.size() / k : 1, each = y.size() / sets;
  VisitFloat(y.dtype, [&]<typename T>() {
    ParallelFor(y.size(), 1 + 256 / (1 + k), [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) {
        const double log = LogDensity(x.data<const T>() + i * k,
                                      alpha.data<const T>() + i / each * k, k);
        y.data<T>()[i] =
            static_cast<T>(static_cast<Accumulate<T>>(p.is_log ? log : std::exp(log)));
      }
    });
  });
}

// The logarithm's derivatives: log x_j + digamma(sum of alpha) - digamma(alpha_j), and
// (alpha_j - 1) / x_j.
Values Gradient(const DirichletParams& p, const GradArgs& g) {
  const Shape &x = g.in_spec(0).shape, &alpha = g.in_spec(1).shape;
  Shape beside = alpha, factor_shape = x;
  while (beside.rank() < x.rank()) beside.Insert(alpha.rank() - 1, 1);
  factor_shape.back() = 1;
  const Value factor =
      reshape(p.is_log ? g.dout(0) : g.dout(0) * g.out(0), factor_shape);
  const Value a = reshape(g.in(1), beside);
  Values dx(2);
  if (g.wants(0)) dx[0] = factor * ((a - 1) / g.in(0));
  if (g.wants(1)) {
    const Value total = sum(a, {.axes = {x.rank() - 1}, .keepdims = true});
    const Value da =
        factor * (log(g.in(0)) + Make("_digamma", {total}) - Make("_digamma", {a}));
    dx[1] = reshape(sum_to(da, beside), alpha);
  }
  return dx;
}

Sample<DirichletParams> SampleOf(const Shape& x, const Shape& alpha, bool log) {
  return {{Uniform(x, 0.1, 1), Uniform(alpha, 0.5, 3)}, {log}};
}

[[maybe_unused]] const OpDef& dirichlet = Register<DirichletParams>({
    .name = "_random_pdf_dirichlet",
    .aliases = {"random_pdf_dirichlet"},
    .doc = "The density of a distribution at samples, or its logarithm.",
    .inputs = {{"sample", Types::kFloats, "Samples: vectors in the last axis."},
               {"alpha", Types::kFloats, "Concentrations."}},
    .params = {{"is_log", &DirichletParams::is_log, "Gives the logarithm."}},
    .infer = Infer,
    .gradient = Gradient,
    .uses_for = [](const DirichletParams& p) -> Uses {
      return {0b11, p.is_log ? 0u : 1u};
    },
    .cpu = {{"plain", Run}},
    .cost =
        [](const DirichletParams&, const Specs& in, const Specs&) {
          return 100.0 * static_cast<double>(in[0].shape.size());
        },
    .samples = {SampleOf({3, 2}, {2}, false), SampleOf({2, 2, 3}, {2, 3}, true),
                SampleOf({2, 2, 3}, {2, 2, 3}, true), SampleOf({3}, {3}, true)},
});

}  // namespace
}  // namespace plait
