// GraphVariant: a graph compiled for given inputs, one mode, and wanted gradients.

#ifndef PLAIT_RUN_GRAPH_VARIANT_H_
#define PLAIT_RUN_GRAPH_VARIANT_H_

#include <memory>
#include <string>
#include <vector>

#include "run/compiled_graph.h"

namespace plait {

struct GraphVariant {
  Specs specs;  // of the inputs
  bool training = false;
  std::vector<bool> wanted;  // by input; empty: no gradients
  Ref<const CompiledGraph> compiled;
  std::vector<int> heads;        // by output: the input of its head gradient, or -1
  std::vector<int> gradient_of;  // by output after the graph's: which input
};

// `name` stands in errors. `prologues`: see CompileOptions. Every wanted input gets a
// gradient: zeros where none flows.
std::shared_ptr<const GraphVariant> CompileVariant(
    Graph graph, Specs specs, bool training, const std::vector<bool>& wanted,
    const std::string& name, std::shared_ptr<PrologueSet> prologues = nullptr);

}  // namespace plait

#endif  // PLAIT_RUN_GRAPH_VARIANT_H_
