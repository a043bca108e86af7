// Schedule: learning rates by the number of updates, with a warm-up.

#ifndef PLAIT_TRAIN_SCHEDULE_H_
#define PLAIT_TRAIN_SCHEDULE_H_

#include <optional>

#include "train/named.h"

namespace plait {

// Kinds: constant, factor, multifactor, poly, cosine.
class Schedule : public Named {
 public:
  static KindTable& Kinds();

  // The rate at an update, counted from 0. Numbers must not fall from call to call: a
  // schedule goes on from where it is.
  double Rate(int64_t num_update);
  void Complete() override;

  double base_lr = 0.01;  // the rate that the schedule has come to
  int64_t warmup_steps = 0;
  double warmup_begin_lr = 0;
  std::optional<double> warmup_final_lr;  // base_lr at the start
  std::string warmup_mode = "linear";  // or "constant": warmup_begin_lr until its end

 protected:
  virtual double RateAfterWarmUp(int64_t num_update) = 0;
};

}  // namespace plait

#endif  // PLAIT_TRAIN_SCHEDULE_H_
