// Graph: a symbol flattened for passes: nodes by number, in an order that can run.
//
// A value is one output of one node. Every node stands after the nodes whose values it
// reads. Passes take a graph and give another one; specs (shapes and dtypes) are filled
// in by the pass `infer` and kept by all others.

#ifndef PLAIT_GRAPH_GRAPH_H_
#define PLAIT_GRAPH_GRAPH_H_

#include <string>
#include <vector>

#include "graph/op.h"
#include "graph/symbol.h"

namespace plait {

struct GraphEntry {
  int node = -1;
  int index = 0;
  bool operator==(const GraphEntry&) const = default;
};

struct GraphNode {
  const OpDef* op = nullptr;  // null: an input of the graph
  ParamsRef params;
  std::string name;
  SmallVector<GraphEntry, 3> inputs;
  SmallVector<Spec, 1> outputs;  // hidden ones too
  SmallVector<int, 1> mutates;   // inputs that this node writes
  bool parsed =
      false;  // params came from texts, so that texts tell whether they are equal
  // For the planner and the executor.
  bool backward = false;   // runs when gradients are asked for
  bool recompute = false;  // a forward value that backward may compute again
  std::string group;       // the device group (`__ctx_group__`)

  bool is_input() const { return op == nullptr; }
};

struct Graph {
  std::vector<GraphNode> nodes;
  std::vector<int> inputs;          // nodes, in the order in which arrays are given
  std::vector<GraphEntry> outputs;  // the visible results
  size_t size() const { return nodes.size(); }

  const Spec& spec(GraphEntry e) const { return nodes[e.node].outputs[e.index]; }
  int64_t Bytes(GraphEntry e) const {
    const Spec& s = spec(e);
    return s.shape.size() * static_cast<int64_t>(SizeOf(s.dtype));
  }
  GraphNode& Add(GraphNode node) { return nodes.emplace_back(std::move(node)); }
};

// Inputs are all variables, in the order of ListInputs.
Graph GraphOf(const Symbol& symbol);

// A line a node: `%3 = Convolution(%0, %1, %2) conv1 -> float32 (8, 20, 24, 24)`.
std::string Dump(const Graph& graph);

// What follows for one call from what is known of inputs and outputs; unknown shapes
// and dtypes are no errors. Throws kValue or kType where facts contradict each other.
void InferPartial(const OpDef& op, const Params& params, Specs& in, Specs& out);

// Whether a call of a pointwise operator goes to its kernel all the same.
bool PrefersKernel(const OpDef& op, const Params& params, const Specs& in);

// The dtypes of a pointwise operator's outputs for inputs of known dtypes.
void PointwiseTypes(const OpDef& op, const Params& params, const Specs& in, Specs& out);

}  // namespace plait

#endif  // PLAIT_GRAPH_GRAPH_H_
