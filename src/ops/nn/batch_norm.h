// The parameters of batch normalisation.

#ifndef PLAIT_OPS_NN_BATCH_NORM_H_
#define PLAIT_OPS_NN_BATCH_NORM_H_

#include <optional>
#include <string>

namespace plait {

struct BatchNormParams {
  double eps = 0.0010000000474974513;
  float momentum = 0.9f;
  bool fix_gamma = true;
  bool use_global_stats = false;
  bool output_mean_var = false;
  int axis = 1;
  bool cudnn_off = false;
  std::optional<float> min_calib_range, max_calib_range;
  int ndev = 1;  // of SyncBatchNorm
  std::string key;

  // SyncBatchNorm, which alone has a key, gives variances instead of their inverse
  // roots.
  bool gives_variance() const { return !key.empty(); }
};

}  // namespace plait

#endif  // PLAIT_OPS_NN_BATCH_NORM_H_
