// InvokeOnBlocks: imperative calls whose arrays lie in blocks of channels.

#ifndef PLAIT_RUN_BLOCKED_INVOKE_H_
#define PLAIT_RUN_BLOCKED_INVOKE_H_

#include <span>

#include "run/invoke.h"

namespace plait {

// Whether it is worth a closer look: images, and results that nobody has a place for.
inline bool MayUseBlocks(std::span<const NDArray> in, std::span<const NDArray> out) {
  constexpr int64_t kFew = 4096;  // elements
  if (in.empty()) return false;
  const Shape* shape = &in[0].shape();
  if (shape->rank() != 4 && in.size() > 1) shape = &in[1].shape();
  if (shape->rank() != 4 || shape->size() < kFew) return false;
  for (const NDArray& y : out)
    if (y) return false;
  return true;
}

// Runs the call on blocks where that is worth it: it gains by them, or an input lies in
// them and the operator has a blocked form. Outputs that are blocked then are pending
// (run/blocked_value.h). Nothing where it is not; then nothing has changed.
Arrays InvokeOnBlocks(const OpDef& op, const ParamsRef& params,
                      std::span<const NDArray> in);

}  // namespace plait

#endif  // PLAIT_RUN_BLOCKED_INVOKE_H_
