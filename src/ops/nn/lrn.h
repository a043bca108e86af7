// Parameters of local response normalisation.

#ifndef PLAIT_OPS_NN_LRN_H_
#define PLAIT_OPS_NN_LRN_H_

namespace plait {

struct LrnParams {
  float alpha = 1e-4f;
  float beta = 0.75f;
  float knorm = 2;
  int nsize = 1;
};

}  // namespace plait

#endif  // PLAIT_OPS_NN_LRN_H_
