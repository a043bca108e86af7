// Pass hoist: what follows from parameters alone moves into a graph of its own.

#ifndef PLAIT_PASSES_HOIST_H_
#define PLAIT_PASSES_HOIST_H_

#include <vector>

#include "graph/graph.h"

namespace plait {

struct Hoisted {
  // The rest. Its inputs are those of the graph, then one for each of the prologue's
  // outputs.
  Graph graph;
  // Reads some of the graph's inputs: its input i is the graph's input sources[i].
  // Without outputs: there is nothing to hoist.
  Graph prologue;
  std::vector<int> sources;
};

// Values that follow from parameters (see FromParameters) and are read by other nodes
// are computed by the prologue, which need run again only when a parameter has changed.
// Not those that are views, outputs, or much larger than what they are computed from.
Hoisted Hoist(const Graph& graph, const std::vector<bool>& parameters);

}  // namespace plait

#endif  // PLAIT_PASSES_HOIST_H_
