// _random_pdf_*: densities of distributions at given samples.

#include <array>
#include <string>
#include <utility>

#include "graph/math.h"
#include "ops/expression.h"
#include "ops/infer.h"

namespace plait {
namespace {

struct PdfParams {
  bool is_log = false;
};

// Derivatives of the logarithm by the sample and the parameters; empty: zero.
using Partials = std::array<Value, 3>;

struct Density {
  const char* name;
  const char* params[2];  // names; the second null where there is one
  const char* docs[2];
  Pw (*log)(const Pw& x, const Pw& a, const Pw& b);
  Partials (*partials)(const Value& x, const Value& a, const Value& b);
  double low[3], high[3];  // samples are drawn from here
};

Pw lgamma(const Pw& x) {
  return Call(Fn::kGammaln, x);
}
Value digamma(const Value& x) {
  return Make("_digamma", {x});
}

Pw LogNegativeBinomial(const Pw& x, const Pw& k, const Pw& p) {
  return lgamma(x + k) - lgamma(x + 1) - lgamma(k) + k * log(p) + x * log(1 - p);
}
Partials OfNegativeBinomial(const Value& x, const Value& k, const Value& p) {
  return {Value(), digamma(x + k) - digamma(k) + log(p), k / p - x / (1 - p)};
}

constexpr double kHalfLogTwoPi = 0.91893853320467274178;

const Density kDensities[] = {
    {"uniform",
     {"low", "high"},
     {"Lower bounds.", "Upper bounds."},
     [](const Pw& x, const Pw& a, const Pw& b) { return x * 0 - log(b - a); },
     [](const Value&, const Value& a, const Value& b) -> Partials {
       const Value width = b - a;
       return {Value(), reciprocal(width), -reciprocal(width)};
     },
     {0, 0, 1},
     {1, 0.5, 2}},
    {"normal",
     {"mu", "sigma"},
     {"Means.", "Standard deviations."},
     [](const Pw& x, const Pw& a, const Pw& b) {
       return square((x - a) / b) * -0.5 - log(b) - kHalfLogTwoPi;
     },
     [](const Value& x, const Value& a, const Value& b) -> Partials {
       const Value z = (x - a) / b;
       return {-z / b, z / b, (square(z) - 1) / b};
     },
     {-1, -1, 0.5},
     {1, 1, 2}},
    {"gamma",
     {"alpha", "beta"},
     {"Shapes.", "Rates."},
     [](const Pw& x, const Pw& a, const Pw& b) {
       return a * log(b) + (a - 1) * log(x) - b * x - lgamma(a);
     },
     [](const Value& x, const Value& a, const Value& b) -> Partials {
       return {(a - 1) / x - b, log(b) + log(x) - digamma(a), a / b - x};
     },
     {0.5, 1, 0.5},
     {3, 4, 2}},
    {"exponential",
     {"lam", nullptr},
     {"Rates.", nullptr},
     [](const Pw& x, const Pw& a, const Pw&) { return log(a) - a * x; },
     [](const Value& x, const Value& a, const Value&) -> Partials {
       return {x * 0 - a, reciprocal(a) - x, Value()};
     },
     {0, 0.5, 0},
     {2, 2, 0}},
    {"poisson",
     {"lam", nullptr},
     {"Rates.", nullptr},
     [](const Pw& x, const Pw& a, const Pw&) { return x * log(a) - lgamma(x + 1) - a; },
     [](const Value& x, const Value& a, const Value&) -> Partials {
       return {Value(), x / a - 1, Value()};
     },
     {0, 0.5, 0},
     {5, 3, 0}},
    {"negative_binomial",
     {"k", "p"},
     {"Numbers of failures that end it.", "Chances of failure."},
     LogNegativeBinomial,
     OfNegativeBinomial,
     {0, 0.5, 0.2},
     {5, 3, 0.8}},
    {"generalized_negative_binomial",
     {"mu", "alpha"},
     {"Means.", "Dispersions."},
     [](const Pw& x, const Pw& a, const Pw& b) {
       return LogNegativeBinomial(x, 1 / b, 1 / (a * b + 1));
     },
     [](const Value& x, const Value& a, const Value& b) -> Partials {
       const Value p = reciprocal(a * b + 1);
       const Partials d = OfNegativeBinomial(x, reciprocal(b), p);
       const Value dp = d[2] * square(p);
       return {Value(), -dp * b, -d[1] / square(b) - dp * a};
     },
     {0, 0.5, 0.5},
     {5, 3, 2}},
};
constexpr int kNumDensities = 7;

// The shape of parameters with axes of size 1 behind, so that they fit beside samples.
Shape Beside(const Shape& params, const Shape& samples) {
  Shape shape = params;
  while (shape.rank() < samples.rank()) shape.Append(1);
  return shape;
}

// Parameters have the shape of the first axes of the samples.
bool InferShapes(const char* op, Specs& in, Specs& out) {
  const Shape& x = in[0].shape;
  if (!Unify(in[0].shape, out[0].shape)) return false;
  for (size_t i = 1; i < in.size(); ++i) {
    if (i > 1 && !Unify(in[1].shape, in[i].shape)) return false;
    const Shape given = in[i].shape;
    if (!x.rank_known() || !given.rank_known()) continue;
    Shape first(x.begin(), x.begin() + std::min(given.rank(), x.rank()));
    Check(given.rank() <= x.rank() && Unify(first, in[i].shape), op,
          ": parameters of shape ", given, " do not fit samples of shape ", x,
          "; the shape of the samples, or that of their first axes, was expected");
  }
  return true;
}

// What a factor of the logarithm's derivative is: the gradient of the result, times
// the density unless the result is a logarithm.
Value Factor(const PdfParams& p, const GradArgs& g) {
  return p.is_log ? g.dout(0) : g.dout(0) * g.out(0);
}

Uses UsesOf(const PdfParams& p) {
  return {kAll, p.is_log ? 0u : 1u};
}

// A static class for each density, so that operators are plain functions.
template <int kIndex>
struct Pdf {
  static const Density& D() { return kDensities[kIndex]; }
  static int NumParams() { return D().params[1] == nullptr ? 1 : 2; }

  static void Run(const PdfParams& p, const KernelArgs& args) {
    const View& y = args.out[0];
    if (y.size() == 0) return;
    const DType wide = y.dtype == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32;
    const Shape shape = Beside(args.in[1].shape(), y.shape());
    SmallVector<View, 3> in;
    for (const View& v : args.in) in.push_back(v);
    for (size_t i = 1; i < in.size(); ++i) in[i].sizes = &shape;
    RunExpression(in, args.out, y.shape(), [&](PwCall& c) {
      const Pw x = Cast(c.in(0), wide), a = Cast(c.in(1), wide);
      const Pw b = c.num_inputs() > 2 ? Cast(c.in(2), wide) : Pw();
      const Pw value = D().log(x, a, b);
      c.Return(Cast(p.is_log ? value : exp(value), y.dtype));
    });
  }

  static Values Gradient(const PdfParams& p, const GradArgs& g) {
    const Shape &x = g.in_spec(0).shape, &params = g.in_spec(1).shape;
    const Shape shape = Beside(params, x);
    const Value a = reshape(g.in(1), shape);
    const Value b = NumParams() > 1 ? reshape(g.in(2), shape) : Value();
    const Partials partials = D().partials(g.in(0), a, b);
    const Value factor = Factor(p, g);
    Values dx(static_cast<size_t>(g.num_inputs()));
    for (int i = 0; i < g.num_inputs(); ++i) {
      if (!g.wants(i) || !partials[i]) continue;
      dx[i] = factor * partials[i];
      if (i > 0) dx[i] = reshape(sum_to(dx[i], shape), params);
    }
    return dx;
  }

  static Sample<PdfParams> SampleOf(const Shape& x, const Shape& params, bool log) {
    Sample<PdfParams> sample{.params = {log}};
    for (int i = 0; i <= NumParams(); ++i) {
      sample.inputs.push_back(Uniform(i == 0 ? x : params, D().low[i], D().high[i]));
    }
    // Not of discrete distributions, nor where nothing depends on the sample.
    sample.inputs[0].differentiable = kIndex >= 1 && kIndex <= 3;
    return sample;
  }

  static void Add() {
    static const std::string name = std::string("_random_pdf_") + D().name;
    OpSpec<PdfParams> s = {.name = name.c_str(), .aliases = {name.c_str() + 1}};
    s.doc = "The density of a distribution at samples, or its logarithm.";
    s.inputs = {{"sample", Types::kFloats, "Samples."}};
    for (int i = 0; i < NumParams(); ++i) {
      s.inputs.push_back({D().params[i], Types::kFloats, D().docs[i]});
    }
    s.params = {{"is_log", &PdfParams::is_log, "Gives the logarithm."}};
    s.infer = [](const PdfParams&, Specs& in, Specs& out) {
      return InferShapes(name.c_str(), in, out);
    };
    s.gradient = Gradient;
    s.uses_for = UsesOf;
    s.cpu = {{"pointwise", Run}};
    s.cost = [](const PdfParams&, const Specs&, const Specs& out) {
      return 50.0 * static_cast<double>(out[0].shape.size());
    };
    s.samples = {SampleOf({2, 3}, {2}, false), SampleOf({2, 3}, {2, 3}, true),
                 SampleOf({2, 2, 2}, {2}, true), SampleOf({0, 2}, {0}, false)};
    Register(std::move(s));
  }
};

template <int... kIndex>
bool AddAll(std::integer_sequence<int, kIndex...>) {
  (Pdf<kIndex>::Add(), ...);
  return true;
}
[[maybe_unused]] const bool kAdded =
    AddAll(std::make_integer_sequence<int, kNumDensities>());

}  // namespace
}  // namespace plait
