// RMSProp, plain and centred.

#include "ops/optimizer/update.h"

namespace plait {
namespace {

struct RmsPropParams {
  float lr = 0;
  float gamma1 = 0.95f, gamma2 = 0.9f;
  float epsilon = 1e-8f;
  float wd = 0;
  float rescale_grad = 1;
  float clip_gradient = -1;
  float clip_weights = -1;
};
using P = RmsPropParams;

const Shape kShape{3, 4};

Pw Gradient(const P& p, PwCall& c) {
  const Pw g = Wide(c.in(1)) * p.rescale_grad;
  return Clip(p.wd == 0 ? g : g + Wide(c.in(0)) * p.wd, p.clip_gradient);
}

Pw SecondMoment(const P& p, PwCall& c, const Pw& g) {
  return square(g) * (1 - static_cast<double>(p.gamma1)) + Wide(c.in(2)) * p.gamma1;
}

// n = (1 - g1) G^2 + g1 n; w -= lr G / sqrt(n + eps).
void RmsProp(const P& p, PwCall& c) {
  const Pw g = Gradient(p, c), n = SecondMoment(p, c, g);
  UpdateState(c, 2, n);
  const Pw w = Wide(c.in(0)) - g / sqrt(n + p.epsilon) * p.lr;
  ReturnWeight(c, -1, Clip(w, p.clip_weights));
}

// Also m = (1 - g1) G + g1 m; d = g2 d - lr G / sqrt(n - m^2 + eps); w += d.
void Centred(const P& p, PwCall& c) {
  const Pw g = Gradient(p, c), n = SecondMoment(p, c, g);
  const Pw m = g * (1 - static_cast<double>(p.gamma1)) + Wide(c.in(3)) * p.gamma1;
  const Pw d = Wide(c.in(4)) * p.gamma2 - g * p.lr / sqrt(n - square(m) + p.epsilon);
  UpdateState(c, 2, n);
  UpdateState(c, 3, m);
  UpdateState(c, 4, d);
  ReturnWeight(c, -1, Clip(Wide(c.in(0)) + d, p.clip_weights));
}

std::vector<Param<P>> ParamList(bool centred) {
  std::vector<Param<P>> rows = {Required("lr", &P::lr, "The learning rate."),
                                {"gamma1", &P::gamma1, "Decay of the moments."}};
  if (centred) rows.push_back({"gamma2", &P::gamma2, "Decay of delta."});
  const Param<P> rest[] = {
      {"epsilon", &P::epsilon, "Added under the root."},
      {"wd", &P::wd, "Weight decay, inside of the clipping."},
      {"rescale_grad", &P::rescale_grad, "Multiplies the gradient."},
      {"clip_gradient", &P::clip_gradient, "Bound of the gradient; negative: none."},
      {"clip_weights", &P::clip_weights, "Bound of the weight; negative: none."}};
  rows.insert(rows.end(), std::begin(rest), std::end(rest));
  return rows;
}

const OpDef& rmsprop_update = Register<P>({
    .name = "rmsprop_update",
    .doc = "RMSProp: the gradient divided by the root of its moving mean square.",
    .inputs = {{"weight", Types::kFloats, "The weight."},
               {"grad", Types::kFloats, "Its gradient."},
               {"n", Types::kFloats, "Moving mean of squares, updated."}},
    .params = ParamList(false),
    .mutates = {2},
    .pointwise = RmsProp,
    .large = true,
    .samples = {{{Normal(kShape), Normal(kShape), State(kShape)},
                 {.lr = 0.1f, .wd = 0.01f, .rescale_grad = 0.5f}},
                {{Normal(kShape), Normal(kShape), State(kShape)},
                 {.lr = 0.1f, .clip_gradient = 0.3f, .clip_weights = 0.5f}}},
});

const OpDef& rmspropalex_update = Register<P>({
    .name = "rmspropalex_update",
    .doc = "RMSProp with the variance of gradients and a momentum (Graves, 2013).",
    .inputs = {{"weight", Types::kFloats, "The weight."},
               {"grad", Types::kFloats, "Its gradient."},
               {"n", Types::kFloats, "Moving mean of squares, updated."},
               {"g", Types::kFloats, "Moving mean of gradients, updated."},
               {"delta", Types::kFloats, "The last step, updated."}},
    .params = ParamList(true),
    .mutates = {2, 3, 4},
    .pointwise = Centred,
    .large = true,
    .samples = {{{Normal(kShape), Normal(kShape), Uniform(kShape, 1, 2),
                  Uniform(kShape, 0, 0.5), Normal(kShape)},
                 {.lr = 0.1f, .wd = 0.01f, .rescale_grad = 0.5f}},
                {{Normal(kShape), Normal(kShape), Uniform(kShape, 1, 2),
                  Uniform(kShape, 0, 0.5), Normal(kShape)},
                 {.lr = 0.1f, .clip_gradient = 0.3f, .clip_weights = 0.5f}}},
});

}  // namespace
}  // namespace plait
