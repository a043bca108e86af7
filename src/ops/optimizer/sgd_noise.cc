// SGD with noise (Langevin dynamics), and with a correction for delayed gradients.

#include "ops/optimizer/update.h"

namespace plait {
namespace {

const Shape kShape{3, 4};

struct NoisyParams {
  double lr = 0;
  double momentum = 0;
  double lamda = 0.04;
  double wd = 0;
  double rescale_grad = 1;
  double clip_gradient = -1;
};
using P = NoisyParams;

std::vector<Param<P>> WithCommon(std::vector<Param<P>> rows) {
  const Param<P> common[] = {
      Required("lr", &P::lr, "The learning rate."),
      {"wd", &P::wd, "Weight decay, not clipped."},
      {"rescale_grad", &P::rescale_grad, "Multiplies the gradient."},
      {"clip_gradient", &P::clip_gradient,
       "Bound of the scaled gradient; negative: none."}};
  rows.insert(rows.end(), std::begin(common), std::end(common));
  return rows;
}

Pw Clipped(const P& p, PwCall& c) {
  return Clip(Wide(c.in(1)) * p.rescale_grad, p.clip_gradient);
}

const std::vector<InputDef> kInputs = {{"weight", Types::kFloats, "The weight."},
                                       {"grad", Types::kFloats, "Its gradient."}};

std::vector<InputDef> With(std::vector<InputDef> more) {
  more.insert(more.begin(), kInputs.begin(), kInputs.end());
  return more;
}

// w += -lr / 2 (G + wd w) + noise, the noise of variance lr.
const OpDef& sgld_update = Register<P>({
    .name = "_sgld_update",
    .doc = "Stochastic gradient Langevin dynamics: half a step, plus the noise given.",
    .inputs = With({{"noise", Types::kFloats, "Normal numbers of variance lr."}}),
    .params = WithCommon({}),
    .pointwise =
        [](const P& p, PwCall& c) {
          const Pw w = Wide(c.in(0));
          const Pw half = w + (Clipped(p, c) + w * p.wd) * (-p.lr / 2);
          ReturnWeight(c, -1, half + Wide(c.in(2)));
        },
    .samples = {{{Normal(kShape), Normal(kShape), Normal(kShape)},
                 {.lr = 0.1, .wd = 0.01, .rescale_grad = 0.5}},
                {{Normal(kShape), Normal(kShape), Normal(kShape)},
                 {.lr = 0.1, .clip_gradient = 0.3}}},
});

// -lr (G + wd w + lamda G^2 (w - previous)): how far w moved corrects the gradient.
Pw Compensated(const P& p, PwCall& c, int previous) {
  const Pw w = Wide(c.in(0)), g = Clipped(p, c);
  UpdateState(c, previous, w);
  return (g + w * p.wd + g * p.lamda * g * (w - Wide(c.in(previous)))) * -p.lr;
}

const OpDef& dcasgd_update = Register<P>({
    .name = "_dcasgd_update",
    .doc = "Delay-compensated asynchronous SGD.",
    .inputs = With({{"previous", Types::kFloats, "The weight before, updated."}}),
    .params = WithCommon({{"lamda", &P::lamda, "Weight of the correction."}}),
    .mutates = {2},
    .pointwise =
        [](const P& p, PwCall& c) {
          ReturnWeight(c, -1, Wide(c.in(0)) + Compensated(p, c, 2));
        },
    .samples = {{{Normal(kShape), Normal(kShape), Normal(kShape)},
                 {.lr = 0.1, .wd = 0.01, .rescale_grad = 0.5}}},
});

const OpDef& dcasgd_mom_update = Register<P>({
    .name = "_dcasgd_mom_update",
    .doc = "Delay-compensated asynchronous SGD with momentum.",
    .inputs = With({{"mom", Types::kFloats, "Its momentum, updated."},
                    {"previous", Types::kFloats, "The weight before, updated."}}),
    .params = WithCommon({{"momentum", &P::momentum, "Decay of the momentum."},
                          {"lamda", &P::lamda, "Weight of the correction."}}),
    .mutates = {2, 3},
    .pointwise =
        [](const P& p, PwCall& c) {
          const Pw step = Compensated(p, c, 3);
          const Pw m = Wide(c.in(2)) * p.momentum + step;
          UpdateState(c, 2, m);
          ReturnWeight(c, -1, Wide(c.in(0)) + m);
        },
    .samples = {{{Normal(kShape), Normal(kShape), Normal(kShape), Normal(kShape)},
                 {.lr = 0.1, .momentum = 0.9, .wd = 0.01, .rescale_grad = 0.5}},
                {{Normal(kShape), Normal(kShape), Normal(kShape), Normal(kShape)},
                 {.lr = 0.1, .momentum = 0.9, .clip_gradient = 0.3}}},
});

}  // namespace
}  // namespace plait
