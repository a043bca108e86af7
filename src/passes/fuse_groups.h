// Groups of pointwise nodes that run as one program each.

#ifndef PLAIT_PASSES_FUSE_GROUPS_H_
#define PLAIT_PASSES_FUSE_GROUPS_H_

#include <cstdint>
#include <unordered_set>
#include <vector>

#include "graph/graph.h"
#include "graph/op.h"

namespace plait {

struct FusionGroup {
  std::vector<int> members;  // in order
  int first = 0;
  int steps = 0, constants = 0;
  int reduction = -1;                  // a node that reduces one of the values
  std::unordered_set<int64_t> inputs;  // values from outside, as keys
};

// Invariant: no path leads from a member of a group to another one through a node
// outside, so that a group can run as a whole. One that was merged into another is
// empty.
struct FusionGroups {
  std::vector<FusionGroup> groups;
  std::vector<int> of;  // the group of a node; -1: it stays as it is
};

// Every pointwise node is in a group; with `join` they grow as far as they can.
// REQUIRES: the graph is fully inferred.
FusionGroups FindFusionGroups(const Graph& graph, bool join);

// What a pointwise node computes from operands in a program, appended to it.
PwCall AppendExpression(const GraphNode& node, std::span<const Pw> operands);

}  // namespace plait

#endif  // PLAIT_PASSES_FUSE_GROUPS_H_
