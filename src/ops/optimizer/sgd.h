// Stochastic gradient descent, as the single and the multi-tensor operators share it.

#ifndef PLAIT_OPS_OPTIMIZER_SGD_H_
#define PLAIT_OPS_OPTIMIZER_SGD_H_

#include "ops/optimizer/update.h"

namespace plait {

struct SgdParams {
  float lr = 0;
  float momentum = 0;
  float wd = 0;
  float rescale_grad = 1;
  float clip_gradient = -1;
  bool lazy_update = true;
  float wd_lh = 0;  // of Signum
};

// w = (1 - lr wd) w - lr clip(s g).
inline void SgdUpdate(const SgdParams& p, PwCall& c, int master) {
  const double lr = p.lr;
  Pw w = Weight(c, master);
  if (p.wd != 0) w = w * (1 - lr * p.wd);
  const Pw g = Wide(c.in(1));
  if (p.clip_gradient < 0) {
    return ReturnWeight(c, master, w - g * (lr * p.rescale_grad));
  }
  ReturnWeight(c, master, w - Clip(g * p.rescale_grad, p.clip_gradient) * lr);
}

// m = mu m - lr wd w - lr clip(s g); w += m.
inline void SgdMomUpdate(const SgdParams& p, PwCall& c, int mom, int master) {
  const double lr = p.lr;
  const Pw w = Weight(c, master), g = Wide(c.in(1));
  Pw decayed = Wide(c.in(mom)) * p.momentum;
  if (p.wd != 0) decayed = decayed - w * (lr * p.wd);
  const Pw step = p.clip_gradient < 0 ? g * (lr * p.rescale_grad)
                                      : Clip(g * p.rescale_grad, p.clip_gradient) * lr;
  const Pw m = decayed - step;
  UpdateState(c, mom, m);
  ReturnWeight(c, master, w + m);
}

}  // namespace plait

#endif  // PLAIT_OPS_OPTIMIZER_SGD_H_
