// LeakyReLU: rectifiers with a negative side, under one name.

#include "cpu/random.h"
#include "graph/math.h"
#include "ops/expression.h"
#include "ops/infer.h"

namespace plait {
namespace {

enum class Act { kElu, kGelu, kLeaky, kPrelu, kRrelu, kSelu };

struct LeakyReluParams {
  Act act_type = Act::kLeaky;
  float slope = 0.25f;
  float lower_bound = 0.125f, upper_bound = 0.334f;
};
using P = LeakyReluParams;

// selu's fixed point: mean 0 and variance 1 (Klambauer et al., 2017).
constexpr double kAlpha = 1.6732632423543772, kLambda = 1.0507009873554805;
constexpr double kRootHalf = 0.70710678118654752, kRootTwoPi = 2.5066282746310002;

double MeanSlope(const P& p) {
  return (static_cast<double>(p.lower_bound) + p.upper_bound) / 2;
}

// All but prelu, whose gamma runs along axis 1, and rrelu, which draws its slopes.
bool IsPointwise(const P& p) {
  return p.act_type != Act::kPrelu && p.act_type != Act::kRrelu;
}

// Half types are rounded once, at the end.
Value Wide(const Value& x) {
  return IsHalf(x.dtype()) ? cast(x, DType::kFloat32) : x;
}

void Expression(const P& p, PwCall& c) {
  const Pw& x = c.in(0);
  Pw below = x;  // what a negative x becomes
  switch (p.act_type) {
    case Act::kLeaky:
      below = x * p.slope;
      break;
    case Act::kElu:
      below = expm1(x) * p.slope;
      break;
    case Act::kSelu:
      return c.Return(kLambda * where(x > 0, x, expm1(x) * kAlpha));
    case Act::kGelu: {
      const Pw wide = IsHalf(x.dtype()) ? Cast(x, DType::kFloat32) : x;
      return c.Return(Cast(wide * ((erf(wide * kRootHalf) + 1) * 0.5), x.dtype()));
    }
    case Act::kRrelu:
      below = x * MeanSlope(p);
      break;
    case Act::kPrelu:
      below = x * c.in(1);
      break;
  }
  c.Return(where(x > 0, x, below));
}

bool HasMask(const P& p) {
  return p.act_type == Act::kRrelu;
}

// A gamma with one axis runs along axis 1 of x, one with more along the first axes.
Shape GammaFor(const Shape& gamma, const Shape& x) {
  if (gamma.rank() == 0 || gamma.rank() > x.rank() || x.rank() <= 1) return gamma;
  Shape s = Shape::Filled(x.rank(), 1);
  if (gamma.rank() == 1) s[1] = gamma[0];
  for (int i = 0; gamma.rank() > 1 && i < gamma.rank(); ++i) s[i] = gamma[i];
  return s;
}

bool Infer(const P& p, Specs& in, Specs& out) {
  for (Spec& s : out) {
    if (!Unify(in[0].shape, s.shape)) return false;
  }
  const Shape& x = in[0].shape;
  if (p.act_type != Act::kPrelu || !x.rank_known()) return true;
  Shape& gamma = in[1].shape;
  if (!gamma.rank_known()) gamma = {x.rank() > 1 ? x[1] : 1};
  if (!gamma.known() || !x.known()) return true;
  const Shape wide = GammaFor(gamma, x);
  bool fits = wide.rank() <= x.rank();
  for (int i = 1; i <= wide.rank() && fits; ++i) {
    const int64_t size = wide[wide.rank() - i];
    fits = size == 1 || size == x[x.rank() - i];
  }
  Check(fits, "LeakyReLU: gamma ", gamma, " does not fit x ", x,
        "; one number, one for each channel, or the first axes of x were expected");
  return true;
}

void Forward(const P& p, const KernelArgs& args) {
  const View &x = args.in[0], &y = args.out[0];
  if (p.act_type == Act::kPrelu) {
    const Shape gamma = GammaFor(args.in[1].shape(), x.shape());
    const View in[] = {x, {args.in[1].ptr, &gamma, args.in[1].dtype}};
    RunExpression(in, {&y, 1}, x.shape(), [&](PwCall& c) { Expression(p, c); });
  } else if (p.act_type != Act::kRrelu || !args.training) {
    RunExpression({&x, 1}, {&y, 1}, x.shape(), [&](PwCall& c) { Expression(p, c); });
  } else {
    const View& mask = args.out[1];
    const int64_t n = x.size();
    std::vector<float> u(static_cast<size_t>(n));
    cpu::FillUniform(args.random, 0, u.data(), n);
    const View draws{u.data(), x.sizes, DType::kFloat32};
    RunExpression({&draws, 1}, {&mask, 1}, x.shape(), [&](PwCall& c) {
      c.Return(
          Cast(c.in(0) * (p.upper_bound - p.lower_bound) + p.lower_bound, mask.dtype));
    });
    const View in[] = {x, mask};
    RunExpression(in, {&y, 1}, x.shape(), [&](PwCall& c) {
      c.Return(where(c.in(0) > 0, c.in(0), c.in(0) * c.in(1)));
    });
  }
}

// exp() sees no positive x, so that the branch not taken is finite.
Values Gradient(const P& p, const GradArgs& g) {
  const Value &x = g.in(0), &dy = g.dout(0);
  const auto negative = [&] { return minimum(x, 0.0); };
  switch (p.act_type) {
    case Act::kLeaky:
      return {where(x > 0.0, dy, dy * p.slope)};
    case Act::kElu:
      return {where(x > 0.0, dy, dy * (exp(negative()) * p.slope))};
    case Act::kSelu:
      return {where(x > 0.0, dy, dy * (exp(negative()) * kAlpha)) * kLambda};
    case Act::kGelu: {  // Phi(x) + x phi(x)
      const Value w = Wide(x);
      const Value cdf = (Make("erf", {w * kRootHalf}) + 1.0) * 0.5;
      const Value slope = cdf + w * exp(square(w) * -0.5) / kRootTwoPi;
      return {cast(Wide(dy) * slope, x.dtype())};
    }
    case Act::kRrelu:
      return {where(x > 0.0, dy, g.training ? dy * g.out(1) : dy * MeanSlope(p))};
    case Act::kPrelu:
      break;
  }
  const Shape wide = GammaFor(g.in_spec(1).shape, x.shape());
  const Value gamma = reshape(g.in(1), wide);
  Values result(2);
  result[0] = where(x > 0.0, dy, dy * gamma);
  if (g.wants(1)) {
    const Value d = sum_to(where(x > 0.0, zeros_like(dy), dy * x), wide);
    result[1] = reshape(d, g.in_spec(1).shape);
  }
  return result;
}

const OpDef& leaky_relu = Register<P>({
    .name = "LeakyReLU",
    .aliases = {"_npx_leaky_relu"},
    .doc = "x where it is positive; else slope x (leaky), slope (exp(x) - 1) (elu), "
           "gamma x (prelu), x times a random slope (rrelu); also selu and gelu.",
    .inputs = {{"data", Types::kFloats, "x of shape (batch, channels, ...)."},
               {"gamma", Types::kFloats, "The slope of prelu, one for each channel."}},
    .outputs = {{"output", Types::kFloats, "Of the shape of x."},
                {"mask", Types::kFloats, "The slopes of rrelu."}},
    .params = {{"act_type",
                &P::act_type,
                {"elu", "gelu", "leaky", "prelu", "rrelu", "selu"},
                "Which function."},
               {"slope", &P::slope, "Of leaky and elu."},
               {"lower_bound", &P::lower_bound, "The least slope of rrelu."},
               {"upper_bound", &P::upper_bound, "The largest slope of rrelu."}},
    .optional_inputs = [](const P& p) -> std::vector<bool> {
      return {true, p.act_type == Act::kPrelu};
    },
    .num_outputs = [](const P& p) { return HasMask(p) ? 2 : 1; },
    .visible_outputs = [](const P&) { return 1; },
    .infer = Infer,
    .gradient = Gradient,
    .uses_for = [](const P& p) -> Uses {
      if (p.act_type == Act::kPrelu) return {.in = 0b11};
      return {.in = 0b1, .out = HasMask(p) ? 0b10u : 0u};
    },
    .pointwise = Expression,
    .pointwise_if = IsPointwise,
    .cpu = {{"plain", Forward}},
    .random = true,
    .draws = [](const P& p, bool training) { return HasMask(p) && training; },
    .uses_training = true,
    .in_place = {{0, 0}},
    .samples = {{{Normal({3, 4})}},
                {{Normal({3, 4})}, {.act_type = Act::kElu, .slope = 0.7f}},
                {{Normal({3, 4})}, {.act_type = Act::kSelu}},
                {{Normal({3, 4})}, {.act_type = Act::kGelu}},
                {{Normal({2, 3, 4}), Uniform({3}, 0.1, 0.5)},
                 {.act_type = Act::kPrelu}},
                {{Normal({2, 3}), Uniform({1}, 0.1, 0.5)}, {.act_type = Act::kPrelu}},
                {{Normal({3, 4})}, {.act_type = Act::kRrelu}},
                {{Normal({3, 4})}, {.act_type = Act::kRrelu}, true}},
});

}  // namespace
}  // namespace plait
