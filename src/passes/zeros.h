// Whether a pointwise call gives zeros where its arrays are zero.

#ifndef PLAIT_PASSES_ZEROS_H_
#define PLAIT_PASSES_ZEROS_H_

#include <cstdint>

#include "graph/op.h"

namespace plait {

// Bit i of `zeros`: input i is zero, of either sign; of the others nothing is known.
// True only where that is sure to make every output zero. REQUIRES: a pointwise call
// that updates no input.
bool KeepsZeros(const OpDef& op, const Params& params, const Specs& in, uint32_t zeros);

}  // namespace plait

#endif  // PLAIT_PASSES_ZEROS_H_
