// Pass memory plan: a place for every value, in one arena that a call uses.
//
// The two ideas of the paper (section 3.1): inplace, an operator's output takes the
// memory of an input that nobody needs any more; co-share, values that are not alive at
// the same time share memory. Each can be chosen alone, to compare. Values that graphs
// get or give (inputs, outputs) are not in the arena; an output is written where its
// owner wants it, and may lend its memory to a value before it.

#ifndef PLAIT_PASSES_MEMORY_PLAN_H_
#define PLAIT_PASSES_MEMORY_PLAN_H_

#include <cstdint>
#include <vector>

#include "graph/graph.h"

namespace plait {

enum class PlanStrategy : uint8_t { kNone, kInplace, kCoShare, kBoth };

struct ValuePlace {
  enum Kind : uint8_t { kNowhere, kInput, kOutput, kArena } kind = kNowhere;
  int index = 0;       // of the input or output
  int64_t offset = 0;  // in the arena
};

struct MemoryPlan {
  std::vector<SmallVector<ValuePlace, 1>> places;  // by node and output
  int64_t arena_bytes = 0;
  int64_t live_bytes = 0;  // the largest set of values alive at once: a lower bound
  std::vector<int64_t> workspace_offsets;  // by node, where workspaces were asked for
  // Outputs that need a copy after the run, since their value is an input, or stands
  // for another output too: (output, place to copy from).
  std::vector<std::pair<int, ValuePlace>> copies;
};

struct PlanRequest {
  PlanStrategy strategy = PlanStrategy::kBoth;
  // For an output whose array is also an input's (an accumulated gradient), that input;
  // else -1. May be empty.
  std::vector<int> input_of_output;
  // Bytes that each node needs while it runs. May be empty.
  std::vector<int64_t> workspaces;
};

MemoryPlan PlanMemory(const Graph& graph, const PlanRequest& request = {});

// Bytes in the arena that are alive while each node runs; much faster than a plan.
std::vector<int64_t> LiveBytes(const Graph& graph, const PlanRequest& request = {});

}  // namespace plait

#endif  // PLAIT_PASSES_MEMORY_PLAN_H_
