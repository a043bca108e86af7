// Relatives of Adam: Adamax, Nadam and AdaDelta.

#include <cmath>

#include "ops/optimizer/update.h"

namespace plait {
namespace {

const Shape kShape{3, 4};

// One struct for all; an operator lists the members that it reads. Numbers are double,
// so that float64 weights get them unrounded.
struct MomentParams {
  double lr = 0;
  double beta1 = 0.9, beta2 = 0.999;
  double epsilon = 1e-8;
  double rho = 0.9;
  double momentum = 0.9, next_momentum = 0.9, schedule = 0.9;
  int64_t t = 1;
  double wd = 0;
  double rescale_grad = 1;
  double clip_gradient = -1;
};
using P = MomentParams;

std::vector<Param<P>> WithCommon(std::vector<Param<P>> rows) {
  const Param<P> common[] = {
      {"wd", &P::wd, "Weight decay."},
      {"rescale_grad", &P::rescale_grad, "Multiplies the gradient."},
      {"clip_gradient", &P::clip_gradient, "Bound of the gradient; negative: none."}};
  rows.insert(rows.end(), std::begin(common), std::end(common));
  return rows;
}

// clip(s g + wd w): the decay goes inside of the clipping.
Pw Decayed(const P& p, PwCall& c) {
  return Clip(Wide(c.in(1)) * p.rescale_grad + Wide(c.in(0)) * p.wd, p.clip_gradient);
}

// m follows G; u = max(b2 u, |G|); w -= lr m / u, lr with its bias correction.
void Adamax(const P& p, PwCall& c) {
  const Pw g = Decayed(p, c);
  const Pw m = Wide(c.in(2)) * p.beta1 + g * (1 - p.beta1);
  const Pw u = maximum(Wide(c.in(3)) * p.beta2, abs(g));
  UpdateState(c, 2, m);
  UpdateState(c, 3, u);
  ReturnWeight(c, -1, Wide(c.in(0)) - m * p.lr / u);
}

// With mu the momentum of this step, mu' that of the next, and S the product of all
// momenta so far: the step mixes G / (1 - S) and m / (1 - S mu').
void Nadam(const P& p, PwCall& c) {
  const Pw g = Decayed(p, c);
  const Pw m = Wide(c.in(2)) * p.beta1 + g * (1 - p.beta1);
  const Pw v = Wide(c.in(3)) * p.beta2 + g * (1 - p.beta2) * g;
  UpdateState(c, 2, m);
  UpdateState(c, 3, v);
  const double later = p.schedule * p.next_momentum;
  const Pw now = g / (1 - p.schedule) * (1 - p.momentum);
  const Pw step = now + m / (1 - later) * p.next_momentum;
  const Pw corrected = v / (1 - std::pow(p.beta2, static_cast<double>(p.t)));
  ReturnWeight(c, -1, Wide(c.in(0)) - step * p.lr / (sqrt(corrected) + p.epsilon));
}

// s follows G^2; d = sqrt(e + eps) / sqrt(s + eps) G; e follows d^2; w -= d + wd w.
void AdaDelta(const P& p, PwCall& c) {
  const Pw w = Wide(c.in(0)), e = Wide(c.in(3));
  const Pw g = Clip(Wide(c.in(1)) * p.rescale_grad, p.clip_gradient);
  const Pw s = Wide(c.in(2)) * p.rho + g * (1 - p.rho) * g;
  const Pw d = sqrt(e + p.epsilon) / sqrt(s + p.epsilon) * g;
  UpdateState(c, 2, s);
  UpdateState(c, 3, e * p.rho + d * (1 - p.rho) * d);
  ReturnWeight(c, -1, w - (d + w * p.wd));
}

std::vector<InputDef> Inputs(const char* first, const char* second) {
  return {{"weight", Types::kFloats, "The weight."},
          {"grad", Types::kFloats, "Its gradient."},
          {first, Types::kFloats, "The first state, updated."},
          {second, Types::kFloats, "The second state, updated."}};
}

std::vector<Sample<P>> Samples(P p) {
  P clipped = p;
  clipped.clip_gradient = 0.3;
  p.wd = 0.01;
  p.rescale_grad = 0.5;
  const std::vector<SampleInput> in{Normal(kShape), Normal(kShape), State(kShape),
                                    State(kShape)};
  return {{in, p}, {in, clipped}};
}

const OpDef& adamax_update = Register<P>({
    .name = "_adamax_update",
    .doc = "Adam with the infinity norm; the bias correction is part of lr.",
    .inputs = Inputs("mean", "norm"),
    .params = WithCommon({Required("lr", &P::lr, "The learning rate."),
                          {"beta1", &P::beta1, "Decay of mean."},
                          {"beta2", &P::beta2, "Decay of norm."}}),
    .mutates = {2, 3},
    .pointwise = Adamax,
    .samples = Samples({.lr = 0.1}),
});

const OpDef& nadam_update = Register<P>({
    .name = "_nadam_update",
    .doc = "Adam with Nesterov's momentum.",
    .inputs = Inputs("mean", "var"),
    .params = WithCommon(
        {Required("lr", &P::lr, "The learning rate."),
         {"beta1", &P::beta1, "Decay of mean."},
         {"beta2", &P::beta2, "Decay of var."},
         {"epsilon", &P::epsilon, "Added to the root of var."},
         {"momentum", &P::momentum, "Momentum of this step."},
         {"next_momentum", &P::next_momentum, "Momentum of the step after it."},
         {"schedule", &P::schedule, "Product of the momenta up to this step."},
         {"t", &P::t, "Number of this step, from 1."}}),
    .mutates = {2, 3},
    .pointwise = Nadam,
    .large = true,
    .samples = Samples({.lr = 0.1, .t = 3}),
});

const OpDef& adadelta_update = Register<P>({
    .name = "_adadelta_update",
    .doc = "AdaDelta (Zeiler, 2012): steps in proportion to earlier steps.",
    .inputs = Inputs("squares", "steps"),
    .params = WithCommon({{"rho", &P::rho, "Decay of both states."},
                          {"epsilon", &P::epsilon, "Added under the roots."}}),
    .mutates = {2, 3},
    .pointwise = AdaDelta,
    .large = true,
    .samples = Samples({.epsilon = 1e-5}),
});

}  // namespace
}  // namespace plait
