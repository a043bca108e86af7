// Pass fuse: groups of pointwise nodes become single `_fused` nodes.

#ifndef PLAIT_PASSES_FUSE_H_
#define PLAIT_PASSES_FUSE_H_

#include "graph/graph.h"

namespace plait {

// Every pointwise node becomes part of a `_fused` node, so that what runs graphs need
// not know programs; single ones too. With `join` false each stays alone. Nodes of one
// group have one shape and are all forward or all backward. REQUIRES: fully inferred.
Graph Fuse(const Graph& graph, bool join = true);

}  // namespace plait

#endif  // PLAIT_PASSES_FUSE_H_
