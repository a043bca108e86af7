// Activation: the five classic activations under one name.

#include "graph/math.h"
#include "graph/op.h"

namespace plait {
namespace {

enum class Act { kRelu, kSigmoid, kSoftrelu, kSoftsign, kTanh };

struct ActivationParams {
  Act act_type = Act::kRelu;
};

void Forward(const ActivationParams& p, PwCall& c) {
  constexpr Fn kFn[] = {Fn::kRelu, Fn::kSigmoid, Fn::kSoftrelu, Fn::kSoftsign,
                        Fn::kTanh};
  c.Return(Call(kFn[static_cast<int>(p.act_type)], c.in(0)));
}

// All five derivatives follow from y alone, so that x need not be kept.
Values Gradient(const ActivationParams& p, const GradArgs& g) {
  const Value &dy = g.dout(0), &y = g.out(0);
  switch (p.act_type) {
    case Act::kRelu:
      return {where(y > 0.0, dy, y)};  // y is else 0, or NaN, which is passed on
    case Act::kSigmoid:
      return {dy * (y * (1.0 - y))};
    case Act::kSoftrelu:
      return {dy * -expm1(-y)};  // sigmoid(x) = 1 - exp(-y)
    case Act::kSoftsign:
      return {dy * square(1.0 - abs(y))};
    case Act::kTanh:
      return {dy * (1.0 - square(y))};
  }
  return {};
}

const OpDef& activation = Register<ActivationParams>({
    .name = "Activation",
    .aliases = {"_npx_activation"},
    .doc =
        "Applies relu, sigmoid, softrelu (log(1 + exp(x))), softsign (x / (1 + |x|)) "
        "or tanh to every element.",
    .inputs = {{"data", Types::kFloats, "x, of any shape."}},
    .params = {Required("act_type", &ActivationParams::act_type,
                        {"relu", "sigmoid", "softrelu", "softsign", "tanh"},
                        "Which function.")},
    .gradient = Gradient,
    .uses = {.out = 0b1},
    .pointwise = Forward,
    .samples = {{{Normal({3, 4})}, {Act::kRelu}},
                {{Normal({3, 4})}, {Act::kSigmoid}},
                {{Normal({3, 4})}, {Act::kSoftrelu}},
                {{Normal({3, 4})}, {Act::kSoftsign}},
                {{Normal({3, 4})}, {Act::kTanh}}},
});

}  // namespace
}  // namespace plait
