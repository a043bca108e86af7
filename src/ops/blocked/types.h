// Kernels on blocks of channels for the types of elements that there are.

#ifndef PLAIT_OPS_BLOCKED_TYPES_H_
#define PLAIT_OPS_BLOCKED_TYPES_H_

#include "graph/blocked_form.h"

namespace plait {

// Calls f<T>(). REQUIRES: IsBlockedType(dtype).
template <typename F>
void VisitBlocked(DType dtype, F&& f) {
  if (dtype == DType::kBfloat16) {
    f.template operator()<Bfloat16>();
  } else if (dtype == DType::kFloat16) {
    f.template operator()<Float16>();
  } else {
    f.template operator()<float>();
  }
}

}  // namespace plait

#endif  // PLAIT_OPS_BLOCKED_TYPES_H_
