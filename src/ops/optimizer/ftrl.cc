// Follow-the-leader updates: FTRL-proximal and FTML.

#include <cmath>

#include "ops/optimizer/update.h"

namespace plait {
namespace {

const Shape kShape{3, 4};

struct FtrlParams {
  float lr = 0;
  float lamda1 = 0.01f;
  float beta = 1;
  float wd = 0;
  float rescale_grad = 1;
  float clip_gradient = -1;
};

// z += G - (sqrt(n + G^2) - sqrt(n)) w / lr; n += G^2;
// w = (sign(z) l1 - z) / ((beta + sqrt(n)) / lr + wd) where |z| > l1, else 0.
void Ftrl(const FtrlParams& p, PwCall& c) {
  const Pw g = Clip(Wide(c.in(1)) * p.rescale_grad, p.clip_gradient);
  const Pw n = Wide(c.in(3)), more = n + square(g);
  const Pw root = sqrt(more);
  const Pw z = Wide(c.in(2)) + g - (root - sqrt(n)) * Wide(c.in(0)) / p.lr;
  UpdateState(c, 2, z);
  UpdateState(c, 3, more);
  const Pw w = (sign(z) * p.lamda1 - z) / ((root + p.beta) / p.lr + p.wd);
  ReturnWeight(c, -1, where(abs(z) > p.lamda1, w, 0));
}

const OpDef& ftrl_update = Register<FtrlParams>({
    .name = "ftrl_update",
    .aliases = {"_sparse_ftrl_update"},
    .doc = "FTRL-proximal (McMahan et al., 2013), with sparse weights.",
    .inputs = {{"weight", Types::kFloats, "The weight."},
               {"grad", Types::kFloats, "Its gradient."},
               {"z", Types::kFloats, "Sum of shifted gradients, updated."},
               {"n", Types::kFloats, "Sum of squares, updated."}},
    .params = {Required("lr", &FtrlParams::lr, "The learning rate."),
               {"lamda1", &FtrlParams::lamda1, "The L1 penalty."},
               {"beta", &FtrlParams::beta, "Per-coordinate smoothing."},
               {"wd", &FtrlParams::wd, "The L2 penalty."},
               {"rescale_grad", &FtrlParams::rescale_grad, "Multiplies the gradient."},
               {"clip_gradient", &FtrlParams::clip_gradient,
                "Bound of the scaled gradient; negative: none."}},
    .mutates = {2, 3},
    .pointwise = Ftrl,
    .large = true,
    .samples = {{{Normal(kShape), Normal(kShape), Normal(kShape), State(kShape)},
                 {.lr = 0.1f, .lamda1 = 0.5f, .wd = 0.01f, .rescale_grad = 0.5f}},
                {{Normal(kShape), Normal(kShape), Normal(kShape), State(kShape)},
                 {.lr = 0.1f, .beta = 2, .clip_gradient = 0.3f}}},
});

struct FtmlParams {
  float lr = 0;
  float beta1 = 0.6f, beta2 = 0.999f;
  double epsilon = 9.9999999392252903e-09;
  int t = 1;
  float wd = 0;
  float rescale_grad = 1;
  float clip_grad = -1;
};

// v = b2 v + (1 - b2) G^2; d' = (1 - b1^t) / lr (sqrt(v / (1 - b2^t)) + eps);
// z = b1 z + (1 - b1) G - (d' - b1 d) w; w = -z / d'.
void Ftml(const FtmlParams& p, PwCall& c) {
  const double b1 = p.beta1, b2 = p.beta2;
  const Pw w = Wide(c.in(0));
  Pw g = Wide(c.in(1)) * p.rescale_grad;
  if (p.wd != 0) g = g + w * p.wd;
  g = Clip(g, p.clip_grad);
  const Pw v = Wide(c.in(3)) * b2 + square(g) * (1 - b2);
  const Pw d = (sqrt(v / (1 - std::pow(b2, p.t))) + p.epsilon) *
               ((1 - std::pow(b1, p.t)) / p.lr);
  const Pw z = Wide(c.in(4)) * b1 + g * (1 - b1) - (d - Wide(c.in(2)) * b1) * w;
  UpdateState(c, 2, d);
  UpdateState(c, 3, v);
  UpdateState(c, 4, z);
  ReturnWeight(c, -1, -z / d);
}

const OpDef& ftml_update = Register<FtmlParams>({
    .name = "ftml_update",
    .doc = "FTML, follow the moving leader (Zheng and Kwok, 2017).",
    .inputs = {{"weight", Types::kFloats, "The weight."},
               {"grad", Types::kFloats, "Its gradient."},
               {"d", Types::kFloats, "Inverse step sizes, updated."},
               {"v", Types::kFloats, "Moving mean of squares, updated."},
               {"z", Types::kFloats, "Moving leader, updated."}},
    .params = {Required("lr", &FtmlParams::lr, "The learning rate."),
               {"beta1", &FtmlParams::beta1, "Decay of the leader."},
               {"beta2", &FtmlParams::beta2, "Decay of the squares."},
               {"epsilon", &FtmlParams::epsilon, "Added to the root."},
               Required("t", &FtmlParams::t, "Number of this step, from 1."),
               {"wd", &FtmlParams::wd, "Weight decay, inside of the clipping."},
               {"rescale_grad", &FtmlParams::rescale_grad, "Multiplies the gradient."},
               {"clip_grad", &FtmlParams::clip_grad,
                "Bound of the gradient; negative: none."}},
    .mutates = {2, 3, 4},
    .pointwise = Ftml,
    .large = true,
    .samples = {{{Normal(kShape), Normal(kShape), State(kShape), State(kShape),
                  Normal(kShape)},
                 {.lr = 0.1f, .t = 3, .wd = 0.01f, .rescale_grad = 0.5f}},
                {{Normal(kShape), Normal(kShape), State(kShape), State(kShape),
                  Normal(kShape)},
                 {.lr = 0.1f, .clip_grad = 0.3f}}},
});

}  // namespace
}  // namespace plait
