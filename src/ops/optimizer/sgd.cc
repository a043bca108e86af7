// Updates of SGD, with momentum, with Nesterov's momentum, and by signs.

#include "ops/optimizer/sgd.h"

namespace plait {
namespace {

using P = SgdParams;

std::vector<Param<P>> ParamList(bool momentum, bool lazy) {
  std::vector<Param<P>> rows = {Required("lr", &P::lr, "The learning rate.")};
  if (momentum) rows.push_back({"momentum", &P::momentum, "Decay of the momentum."});
  rows.push_back({"wd", &P::wd, "Weight decay, not clipped."});
  rows.push_back({"rescale_grad", &P::rescale_grad, "Multiplies the gradient."});
  rows.push_back({"clip_gradient", &P::clip_gradient,
                  "Bound of the scaled gradient; negative: none."});
  if (lazy) {
    rows.push_back({"lazy_update", &P::lazy_update,
                    "With row-sparse gradients, updates only their rows."});
  }
  return rows;
}

// Clipping is inactive in one sample and active in the other.
std::vector<P> SampleParams() {
  return {{.lr = 0.1f, .momentum = 0.9f, .wd = 0.01f, .rescale_grad = 0.5f},
          {.lr = 0.1f, .momentum = 0.9f, .clip_gradient = 0.3f}};
}
std::vector<Sample<P>> Samples(const std::vector<SampleInput>& inputs) {
  std::vector<Sample<P>> samples;
  for (const P& p : SampleParams()) samples.push_back({inputs, p});
  return samples;
}

const Shape kShape{3, 4};

std::vector<InputDef> Inputs(bool momentum, bool master) {
  std::vector<InputDef> rows = {{"weight", Types::kFloats, "The weight."},
                                {"grad", Types::kFloats, "Its gradient."}};
  if (momentum) rows.push_back({"mom", Types::kFloats, "Its momentum, updated."});
  if (master) {
    rows.push_back({"weight32", Types::kFloats, "The weight in float32, updated."});
  }
  return rows;
}

const OpDef& sgd_update = Register<P>({
    .name = "sgd_update",
    .aliases = {"_sparse_sgd_update"},
    .doc = "weight = (1 - lr wd) weight - lr clip(rescale_grad grad).",
    .inputs = Inputs(false, false),
    .params = ParamList(false, true),
    .pointwise = [](const P& p, PwCall& c) { SgdUpdate(p, c, -1); },
    .samples = Samples({Normal(kShape), Normal(kShape)}),
});

const OpDef& sgd_mom_update = Register<P>({
    .name = "sgd_mom_update",
    .aliases = {"_sparse_sgd_mom_update"},
    .doc = "mom = momentum mom - lr wd weight - lr clip(rescale_grad grad); weight += "
           "mom.",
    .inputs = Inputs(true, false),
    .params = ParamList(true, true),
    .mutates = {2},
    .pointwise = [](const P& p, PwCall& c) { SgdMomUpdate(p, c, 2, -1); },
    .samples = Samples({Normal(kShape), Normal(kShape), Normal(kShape)}),
});

const OpDef& mp_sgd_update = Register<P>({
    .name = "mp_sgd_update",
    .doc = "sgd_update with a float32 copy of the weight.",
    .inputs = Inputs(false, true),
    .params = ParamList(false, true),
    .mutates = {2},
    .types = MixedTypes<P>,
    .pointwise = [](const P& p, PwCall& c) { SgdUpdate(p, c, 2); },
    .samples = Samples({Half(Normal(kShape)), Half(Normal(kShape)), Normal(kShape)}),
});

const OpDef& mp_sgd_mom_update = Register<P>({
    .name = "mp_sgd_mom_update",
    .doc = "sgd_mom_update with a float32 copy of the weight.",
    .inputs = Inputs(true, true),
    .params = ParamList(true, true),
    .mutates = {2, 3},
    .types = MixedTypes<P>,
    .pointwise = [](const P& p, PwCall& c) { SgdMomUpdate(p, c, 2, 3); },
    .samples = Samples(
        {Half(Normal(kShape)), Half(Normal(kShape)), Normal(kShape), Normal(kShape)}),
});

// With m' = mu m and G = clip(s g): w_new = w - m' + (mu + 1)(m' - lr (G + wd w)), then
// m = m' - lr (G + wd w_new): the momentum sees the weight already updated.
void NagUpdate(const P& p, PwCall& c, int master) {
  const Pw w = Weight(c, master);
  const Pw g = Clip(Wide(c.in(1)) * p.rescale_grad, p.clip_gradient);
  const Pw m = Wide(c.in(2)) * p.momentum;
  const double lr = p.lr, mu = p.momentum;
  const Pw updated = w - m + (m - (g + w * p.wd) * lr) * (mu + 1);
  UpdateState(c, 2, m - (g + updated * p.wd) * lr);
  ReturnWeight(c, master, updated);
}

const OpDef& nag_mom_update = Register<P>({
    .name = "nag_mom_update",
    .doc = "SGD with Nesterov's accelerated gradient.",
    .inputs = Inputs(true, false),
    .params = ParamList(true, false),
    .mutates = {2},
    .pointwise = [](const P& p, PwCall& c) { NagUpdate(p, c, -1); },
    .samples = Samples({Normal(kShape), Normal(kShape), Normal(kShape)}),
});

const OpDef& mp_nag_mom_update = Register<P>({
    .name = "mp_nag_mom_update",
    .doc = "nag_mom_update with a float32 copy of the weight.",
    .inputs = Inputs(true, true),
    .params = ParamList(true, false),
    .mutates = {2, 3},
    .types = MixedTypes<P>,
    .pointwise = [](const P& p, PwCall& c) { NagUpdate(p, c, 3); },
    .samples = Samples(
        {Half(Normal(kShape)), Half(Normal(kShape)), Normal(kShape), Normal(kShape)}),
});

const OpDef& signsgd_update = Register<P>({
    .name = "signsgd_update",
    .doc = "weight = (1 - lr wd) weight - lr sign(grad).",
    .inputs = Inputs(false, false),
    .params = ParamList(false, false),
    .pointwise =
        [](const P& p, PwCall& c) {
          const double lr = p.lr;
          const Pw w = Wide(c.in(0)) * (1 - lr * p.wd);
          ReturnWeight(c, -1, w - sign(Wide(c.in(1))) * lr);
        },
    .samples = Samples({Normal(kShape), Normal(kShape)}),
});

// m = mu m - (1 - mu)(wd w + clip(s g)); w = (1 - lr wd_lh) w + lr sign(m).
void Signum(const P& p, PwCall& c) {
  const double lr = p.lr, mu = p.momentum;
  const Pw w = Wide(c.in(0));
  const Pw g = Clip(Wide(c.in(1)) * p.rescale_grad, p.clip_gradient);
  const Pw m = Wide(c.in(2)) * mu - w * ((1 - mu) * p.wd) - g * (1 - mu);
  UpdateState(c, 2, m);
  ReturnWeight(c, -1, w * (1 - lr * p.wd_lh) + sign(m) * lr);
}

std::vector<Param<P>> SignumParamList() {
  std::vector<Param<P>> rows = ParamList(true, false);
  rows.push_back({"wd_lh", &P::wd_lh, "Weight decay outside of the momentum."});
  return rows;
}

const OpDef& signum_update = Register<P>({
    .name = "signum_update",
    .doc = "SGD by the sign of the momentum.",
    .inputs = Inputs(true, false),
    .params = SignumParamList(),
    .mutates = {2},
    .pointwise = Signum,
    .samples = {{{Normal(kShape), Normal(kShape), Normal(kShape)},
                 {.lr = 0.1f, .momentum = 0.9f, .wd = 0.01f, .wd_lh = 0.1f}},
                {{Normal(kShape), Normal(kShape), Normal(kShape)},
                 {.lr = 0.1f, .momentum = 0.9f, .clip_gradient = 0.3f}}},
});

}  // namespace
}  // namespace plait
