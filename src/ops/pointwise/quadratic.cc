// _contrib_quadratic: a x^2 + b x + c.

#include "ops/gradients.h"

namespace plait {
namespace {

struct QuadraticParams {
  double a = 0, b = 0, c = 0;
};

Values Gradient(const QuadraticParams& p, const GradArgs& g) {
  return {g.dout(0) * (g.in(0) * (2 * p.a) + p.b)};
}

[[maybe_unused]] const OpDef& quadratic = Register<QuadraticParams>({
    .name = "_contrib_quadratic",
    .doc = "a x^2 + b x + c.",
    .inputs = {{"data", Types::kAny, "Numbers, of any shape."}},
    .params = {{"a", &QuadraticParams::a, "Factor of x^2."},
               {"b", &QuadraticParams::b, "Factor of x."},
               {"c", &QuadraticParams::c, "The constant."}},
    .gradient = Gradient,
    .uses = {.in = 1},
    .pointwise = [](const QuadraticParams& p,
                    PwCall& c) { c.Return((c.in(0) * p.a + p.b) * c.in(0) + p.c); },
    .samples = {{{Normal({2, 3})}, {.a = 2, .b = -1, .c = 0.5}}, {{Normal({0})}}},
});

}  // namespace
}  // namespace plait
