// Autocast: mixed precision of calls while they are made, for the whole process.

#ifndef PLAIT_RUN_AUTOCAST_H_
#define PLAIT_RUN_AUTOCAST_H_

#include <memory>

#include "ndarray/ndarray.h"
#include "passes/precision.h"

namespace plait {

// Turns it on with rules, or off with null. May be called from any thread; calls under
// way keep the rules that they began with.
void SetAutocast(std::shared_ptr<const PrecisionRules> rules);

// Null when it is off. Costs one relaxed load then.
std::shared_ptr<const PrecisionRules> AutocastRules();

// Casts the arrays of an imperative call as the rules say; recorded like any call.
// Pointwise operators need nothing: they take mixed dtypes and give the widest.
void Autocast(const PrecisionRules& rules, const OpDef& op, const Params& params,
              SmallVector<NDArray, 6>& in);

}  // namespace plait

#endif  // PLAIT_RUN_AUTOCAST_H_
