// The cost model of a store in step: what a rank sends in a push and pull of all keys.

#ifndef PLAIT_KVSTORE_COST_MODEL_H_
#define PLAIT_KVSTORE_COST_MODEL_H_

#include <cstdint>
#include <span>
#include <vector>

#include "kvstore/ranges.h"

namespace plait {

struct StepCost {
  int64_t payload = 0;  // bytes of arrays
  int64_t entries = 0;  // of 40 bytes each
  // Messages: where all that is small travels together, and where nothing does.
  int64_t least_messages = 0, most_messages = 0;
};

// How stores cut keys of these lengths among ranks, in the order of their starts.
std::vector<Ranges> CutKeys(std::span<const int64_t> elements, int64_t element_bytes,
                            int ranks);
// What one rank sends in a step: the parts of the others, and its own to all.
StepCost CostOfStep(std::span<const Ranges> keys, int64_t element_bytes, int rank);

}  // namespace plait

#endif  // PLAIT_KVSTORE_COST_MODEL_H_
