// clip, hard_sigmoid: values kept inside bounds.

#include "ops/gradients.h"
#include "ops/pointwise/numbers.h"

namespace plait {
namespace {

struct ClipParams {
  double a_min = 0;
  double a_max = 1;
};

// Bounds that an integer dtype cannot hold do not clip.
void Clip(const ClipParams& p, PwCall& c) {
  const Pw& x = c.in(0);
  const Pw low = Saturate(p.a_min, x.dtype()), high = Saturate(p.a_max, x.dtype());
  c.Return(minimum(maximum(x, low), high));
}

// The gradient passes where a_min <= x <= a_max.
Values ClipGradient(const ClipParams& p, const GradArgs& g) {
  const Value& x = g.in(0);
  return {g.dout(0) * (x >= p.a_min) * (x <= p.a_max)};
}

[[maybe_unused]] const OpDef& clip = Register<ClipParams>({
    .name = "clip",
    .aliases = {"_npi_clip", "_sparse_clip"},
    .doc = "x with values below a_min raised to it, and those above a_max lowered.",
    .inputs = {{"data", Types::kAny, "Numbers, of any shape."}},
    .params = {Required<ClipParams>("a_min", &ClipParams::a_min, "The lower bound."),
               Required<ClipParams>("a_max", &ClipParams::a_max, "The upper bound.")},
    .gradient = ClipGradient,
    .uses = {.in = 1},
    .pointwise = Clip,
    .samples = {{{Numbers({5}, {-2, -0.4, 0.3, 0.9, 3})}, {-0.5, 1.5}},
                {{Uniform({2, 3}, -3, 3)}, {-10, 10}},
                {{Normal({0, 2})}, {0, 1}}},
});

struct HardSigmoidParams {
  double alpha = 0.2;
  double beta = 0.5;
};

void HardSigmoid(const HardSigmoidParams& p, PwCall& c) {
  const Pw x = AsFloat(c.in(0));
  const Pw y = minimum(maximum(x * p.alpha + p.beta, 0), 1);
  c.Return(Cast(y, c.in(0).dtype()));
}

Values HardSigmoidGradient(const HardSigmoidParams& p, const GradArgs& g) {
  const Value& y = g.out(0);
  return {g.dout(0) * (y > 0.0) * (y < 1.0) * p.alpha};
}

[[maybe_unused]] const OpDef& hard_sigmoid = Register<HardSigmoidParams>({
    .name = "hard_sigmoid",
    .doc = "alpha * x + beta, kept between 0 and 1: a piecewise linear sigmoid.",
    .inputs = {{"data", Types::kAny, "Numbers, of any shape."}},
    .params = {{"alpha", &HardSigmoidParams::alpha, "The slope."},
               {"beta", &HardSigmoidParams::beta, "The value at 0."}},
    .gradient = HardSigmoidGradient,
    .uses = {.out = 1},
    .pointwise = HardSigmoid,
    .samples = {{{Numbers({5}, {-4, -2, 0.1, 1, 4})}},
                {{Uniform({2, 3}, -1, 1)}, {.alpha = 0.3, .beta = 0.4}}},
});

}  // namespace
}  // namespace plait
