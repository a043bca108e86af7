// PlanSizes: what memory a symbol's internal values need, before any array exists.

#ifndef PLAIT_RUN_PLAN_SIZES_H_
#define PLAIT_RUN_PLAN_SIZES_H_

#include <cstdint>
#include <vector>

#include "graph/symbol.h"

namespace plait {

// Bytes of the values between inputs and outputs (data, parameters, gradients of
// parameters and outputs are the user's), as each strategy plans them.
struct PlanSizes {
  int64_t none = 0;      // every value in memory of its own
  int64_t inplace = 0;   // outputs take over memory of inputs that end there
  int64_t co_share = 0;  // values that are never alive together share memory
  int64_t both = 0;
  int64_t lower_bound = 0;  // the largest set that is alive at once, after inplace
  // `none` without fusion and the removal of equal nodes: one value an operator.
  int64_t unfused = 0;
};

// `inputs`: specs in the order of ListInputs, as far as others do not follow from them;
// `wanted`: which of them get gradients, when `training`. Allocates no arrays. Throws
// as binding does.
PlanSizes SizesOfPlan(const Symbol& symbol, const Specs& inputs,
                      const std::vector<bool>& wanted, bool training);

}  // namespace plait

#endif  // PLAIT_RUN_PLAN_SIZES_H_
