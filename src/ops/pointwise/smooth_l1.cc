// smooth_l1: quadratic near zero, linear beyond: a loss that outliers do not dominate.

#include "ops/gradients.h"

namespace plait {
namespace {

struct SmoothL1Params {
  double scalar = 1;
  bool is_int = true;
};

// (sigma x)^2 / 2 where |x| < 1 / sigma^2, else |x| - 1 / (2 sigma^2).
void SmoothL1(const SmoothL1Params& p, PwCall& c) {
  const double sigma2 = p.scalar * p.scalar;
  const Pw& x = c.in(0);
  const Pw size = abs(x);
  c.Return(where(size < 1 / sigma2, square(x) * (0.5 * sigma2), size - 0.5 / sigma2));
}

Values Gradient(const SmoothL1Params& p, const GradArgs& g) {
  const double sigma2 = p.scalar * p.scalar;
  const Value& x = g.in(0);
  // The slope sigma^2 x reaches +-1 just where the linear part begins.
  return {g.dout(0) * minimum(maximum(x * sigma2, -1.0), 1.0)};
}

[[maybe_unused]] const OpDef& smooth_l1 = Register<SmoothL1Params>({
    .name = "smooth_l1",
    .aliases = {"_npx_smooth_l1"},
    .doc = "(sigma x)^2 / 2 where |x| < 1 / sigma^2, else |x| - 1 / (2 sigma^2).",
    .inputs = {{"data", Types::kFloats, "Numbers, of any shape."}},
    .params = {{"scalar", &SmoothL1Params::scalar, "sigma, above 0."},
               {"is_int", &SmoothL1Params::is_int, "Not used."}},
    .gradient = Gradient,
    .uses = {.in = 1},
    .pointwise = SmoothL1,
    .samples = {{{Numbers({6}, {-3, -0.6, -0.1, 0.2, 0.8, 2})}},
                {{Uniform({2, 3}, -2, 2)}, {.scalar = 0.8}},
                {{Normal({0})}}},
});

}  // namespace
}  // namespace plait
