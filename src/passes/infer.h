// Pass infer: shapes and dtypes of every value, forwards and backwards.

#ifndef PLAIT_PASSES_INFER_H_
#define PLAIT_PASSES_INFER_H_

#include "graph/graph.h"

namespace plait {

// Fills in the specs of all nodes from those that are set, until nothing changes. What
// does not follow stays unknown. Throws kValue or kType with the node's name and where
// its inputs come from. With `default_types`, dtypes that nothing decides become
// float32.
void Infer(Graph& graph, bool default_types = true);

// Sets the specs of inputs from the hints that variables carry (`__shape__`,
// `__dtype__`), where nothing is known. `given` are specs by input, in order.
void SetInputSpecs(Graph& graph, const Symbol& symbol, const Specs& given);

// True when every value is known; else names up to ten that are not.
bool FullyInferred(const Graph& graph, std::string* missing = nullptr);

}  // namespace plait

#endif  // PLAIT_PASSES_INFER_H_
