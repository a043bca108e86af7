// Operators whose value is (nearly) their input and which differ in the gradient.

#include "ops/gradients.h"
#include "ops/infer.h"

namespace plait {
namespace {

Values PassOn(const NoParams&, const GradArgs& g) {
  return {g.dout(0)};
}
Values Ones(const NoParams&, const GradArgs& g) {
  return {full(g.in_spec(0), 1.0)};
}

struct Row {
  const char* name;
  std::vector<const char*> aliases;
  Fn fn;
  GradientFn<NoParams> gradient;
  bool true_gradient;  // the gradient is the derivative: finite differences agree
  const char* output;
  const char* doc;
};

const Row kRows[] = {
    {"_copy", {"identity"}, Fn::kCopy, PassOn, true, "output", "A copy of x."},
    {"_copyto",
     {"_npi_copyto"},
     Fn::kCopy,
     PassOn,
     true,
     "output",
     "A copy of x, on the device of `out` where that is given."},
    {"BlockGrad",
     {"_sparse_stop_gradient", "stop_gradient"},
     Fn::kCopy,
     nullptr,
     false,
     "output",
     "A copy of x that lets no gradient through."},
    {"make_loss",
     {"_sparse_make_loss"},
     Fn::kCopy,
     Ones,
     false,
     "loss",
     "A copy of x whose gradient is one, whatever follows: x is a loss."},
    {"_contrib_round_ste",
     {"_sparse__contrib_round_ste"},
     Fn::kRound,
     PassOn,
     false,
     "output",
     "Rounds x; the gradient passes through as if it did not (straight-through)."},
    {"_contrib_sign_ste",
     {"_sparse__contrib_sign_ste"},
     Fn::kSign,
     PassOn,
     false,
     "output",
     "The sign of x; the gradient passes through as if it were x (straight-through)."},
};

void Add(const Row& row) {
  SampleInput x = Uniform({2, 3}, -2, 2), none = Uniform({2, 0}, -2, 2);
  x.differentiable = row.true_gradient;
  none.differentiable = row.true_gradient;
  Register<NoParams>({
      .name = row.name,
      .aliases = row.aliases,
      .doc = row.doc,
      .inputs = {{"data", Types::kAny, "Numbers, of any shape."}},
      .outputs = {{row.output}},
      .gradient = row.gradient,
      .zero_gradient = row.gradient == nullptr,
      .fn = row.fn,
      .samples = {{{x}}, {{none}}},
  });
}

[[maybe_unused]] const bool kAdded = [] {
  for (const Row& row : kRows) Add(row);
  return true;
}();

struct MultiplierParams {
  double scalar = 1;
  bool is_int = true;
};

SampleInput NotChecked(SampleInput x) {
  x.differentiable = false;
  return x;
}

[[maybe_unused]] const OpDef& gradientmultiplier = Register<MultiplierParams>({
    .name = "_contrib_gradientmultiplier",
    .doc = "A copy of x whose gradient is multiplied by `scalar` (gradient reversal).",
    .inputs = {{"data", Types::kAny, "Numbers, of any shape."}},
    .params = {{"scalar", &MultiplierParams::scalar, "Factor of the gradient."},
               {"is_int", &MultiplierParams::is_int, "Not used."}},
    .gradient = [](const MultiplierParams& p, const GradArgs& g) -> Values {
      return {g.dout(0) * p.scalar};
    },
    .fn = Fn::kCopy,
    .samples = {{{NotChecked(Normal({2, 3}))}, {.scalar = -0.5}}},
});

[[maybe_unused]] const OpDef& identity_like = Register<NoParams>({
    .name = "_identity_with_attr_like_rhs",
    .doc = "A copy of x, which has the shape of another array: inference learns it.",
    .inputs = {{"lhs", Types::kAny, "x."},
               {"rhs", Types::kAny, "An array; only its shape counts."}},
    .types = TypeOfFirst<NoParams>,
    .infer = SameShape<NoParams>,
    .gradient = [](const NoParams&, const GradArgs& g) -> Values {
      return {g.dout(0), Value()};
    },
    .pointwise = [](const NoParams&, PwCall& c) { c.Return(Call(Fn::kCopy, c.in(0))); },
    .samples = {{{Normal({2, 3}), NotChecked(Normal({2, 3}))}}},
});

}  // namespace
}  // namespace plait
