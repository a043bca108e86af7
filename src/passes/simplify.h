// Passes prune, identity and cse: fewer nodes for the same outputs.

#ifndef PLAIT_PASSES_SIMPLIFY_H_
#define PLAIT_PASSES_SIMPLIFY_H_

#include <string>

#include "graph/graph.h"

namespace plait {

// Leaves out nodes that no output needs. All inputs stay.
Graph Prune(const Graph& graph);

// Leaves out operators that give their input: copies, BlockGrad after the gradient
// pass.
Graph RemoveIdentities(const Graph& graph);

// Nodes of the same operator, parameters and inputs become one. Nodes that draw random
// numbers, write inputs or call the host language stay.
Graph MergeEqual(const Graph& graph);

// A text that is equal for equal calls; empty for calls that must stay apart. It may
// hold the address of the node's parameters: compare while they live.
std::string KeyOfCall(const GraphNode& node);

}  // namespace plait

#endif  // PLAIT_PASSES_SIMPLIFY_H_
