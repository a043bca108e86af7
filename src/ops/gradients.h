// Helpers that gradients of operators share.

#ifndef PLAIT_OPS_GRADIENTS_H_
#define PLAIT_OPS_GRADIENTS_H_

#include "graph/math.h"

namespace plait {

// dx in the shape and dtype of its input: sums over the axes along which the input was
// broadcast, and casts where the input had a narrower dtype than the result.
inline Value Fit(const Value& dx, const Spec& input) {
  const Value summed = sum_to(dx, input.shape);
  return summed.dtype() == input.dtype ? summed : cast(summed, input.dtype);
}

// dx in the dtype of its input.
inline Value FitDType(const Value& dx, const Spec& input) {
  return dx.dtype() == input.dtype ? dx : cast(dx, input.dtype);
}

// A gradient function with what it reads.
template <typename P>
struct Rule {
  GradientFn<P> gradient = nullptr;  // null: the gradient is zero
  Uses uses = {};
};

}  // namespace plait

#endif  // PLAIT_OPS_GRADIENTS_H_
