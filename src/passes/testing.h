// Helpers of the tests of passes: graphs of values of shape (4, 4).

#ifndef PLAIT_PASSES_TESTING_H_
#define PLAIT_PASSES_TESTING_H_

#include <string>
#include <vector>

#include "graph/graph.h"
#include "passes/fuse.h"
#include "passes/gradient.h"
#include "passes/infer.h"
#include "passes/random_graph.h"
#include "passes/simplify.h"

namespace plait::testing {

inline Symbol CallOp(const char* op, const std::vector<Symbol>& in,
                     const SymbolAttrs& attrs = {}) {
  return Symbol::Make(GetOp(op), op, attrs, in);
}

inline Graph Inferred(const Symbol& symbol) {
  Graph graph = GraphOf(symbol);
  for (int id : graph.inputs) graph.nodes[id].outputs[0] = {{4, 4}, DType::kFloat32};
  Infer(graph);
  return graph;
}

inline int CountOps(const Graph& graph, const std::string& op = "") {
  int n = 0;
  for (const GraphNode& node : graph.nodes)
    n += !node.is_input() && (op.empty() || node.op->name == op);
  return n;
}

// A random graph, perhaps with gradients of all inputs, and after the passes.
inline Graph RandomInferred(uint32_t seed, int nodes, bool gradients, bool passes) {
  Graph graph = Inferred(RandomGraph(seed).Make(nodes));
  if (gradients) {
    GradientRequest request;
    request.wanted.assign(graph.inputs.size(), true);
    request.head_given.assign(graph.outputs.size(), true);
    for (GraphEntry g : AddGradients(graph, request).gradients)
      if (g.node >= 0) graph.outputs.push_back(g);
  }
  graph = Prune(graph);
  if (!passes) return graph;
  return Fuse(Prune(MergeEqual(RemoveIdentities(graph))), true);
}

}  // namespace plait::testing

#endif  // PLAIT_PASSES_TESTING_H_
