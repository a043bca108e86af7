// Symbols of recorded calls.

#include "run/tape_symbol.h"

#include <unordered_map>

#include "run/grad_node.h"

namespace plait {
namespace {

// The parameters that differ from the defaults, as texts.
SymbolAttrs AttrsOf(const OpDef& op, const Params& params, size_t count) {
  SymbolAttrs attrs;
  for (const Field& field : op.fields) {
    const std::string value = FormatAttr(field.access->Get(params.get()));
    if (field.required || value != FormatAttr(field.access->Get(op.defaults->get())))
      attrs[field.name] = value;
  }
  if (op.count_param) attrs[op.count_param] = std::to_string(count);
  return attrs;
}

std::vector<SymbolEntry> OutputsOf(const Symbol& call, size_t count) {
  std::vector<SymbolEntry> outputs;
  for (size_t i = 0; i < count; ++i)
    outputs.push_back({call.outputs()[0].node, static_cast<int>(i)});
  return outputs;
}

class Builder {
 public:
  // Without recursion: tapes may be long.
  SymbolEntry Build(const GradNode* head, int index) {
    std::vector<const GradNode*> stack{head};
    while (!stack.empty()) {
      const GradNode* node = stack.back();
      const size_t before = stack.size();
      for (const GradNode::Edge& edge : node->edges) {
        const auto* from = static_cast<const GradNode*>(edge.node.get());
        if (from != nullptr && !made_.contains(from)) stack.push_back(from);
      }
      if (stack.size() > before) continue;
      stack.pop_back();
      if (!made_.contains(node)) made_[node] = Make(*node);
    }
    return At(head, index);
  }

 private:
  SymbolEntry At(const GradNode* node, int index) const {
    return made_.at(node)[static_cast<size_t>(index)];
  }
  Symbol Variable() { return Symbol::Variable("var" + std::to_string(variables_++)); }
  std::vector<SymbolEntry> Make(const GradNode& node) {
    if (node.leaf) return OutputsOf(Variable(), 1);
    Check(node.op != nullptr || node.symbol, ErrorKind::kNotImplemented,
          "get_symbol: ", node.name.empty() ? "a function" : node.name,
          " was recorded as one call; only operators have symbols");
    std::vector<Symbol> inputs;
    for (const GradNode::Edge& edge : node.edges) {
      const auto* from = static_cast<const GradNode*>(edge.node.get());
      inputs.push_back(from ? Symbol({At(from, edge.index)}) : Variable());
    }
    if (node.symbol) return node.symbol(inputs);
    const std::string name = node.op->name + std::to_string(calls_++);
    return OutputsOf(
        Symbol::Make(*node.op, name, AttrsOf(*node.op, *node.params, inputs.size()),
                     inputs),
        node.output_specs.size());
  }

  std::unordered_map<const GradNode*, std::vector<SymbolEntry>> made_;
  int variables_ = 0, calls_ = 0;
};

}  // namespace

std::vector<SymbolEntry> SymbolsOfGraph(const Graph& graph,
                                        const std::vector<Symbol>& inputs) {
  std::vector<std::vector<SymbolEntry>> made(graph.size());
  for (size_t i = 0; i < inputs.size(); ++i)
    made[graph.inputs[i]] = {inputs[i].outputs()[0]};
  for (size_t id = 0; id < graph.size(); ++id) {
    const GraphNode& node = graph.nodes[id];
    if (node.is_input()) continue;
    Check(!node.op->finish && !node.op->other_param, ErrorKind::kNotImplemented,
          "get_symbol: ", node.op->name,
          " is part of a graph that was called; only "
          "operators with plain parameters have symbols there");
    std::vector<Symbol> in;
    for (GraphEntry e : node.inputs)
      in.push_back(Symbol({made[e.node][static_cast<size_t>(e.index)]}));
    const SymbolAttrs attrs = AttrsOf(*node.op, *node.params, in.size());
    made[id] =
        OutputsOf(Symbol::Make(*node.op, node.name, attrs, in), node.outputs.size());
  }
  std::vector<SymbolEntry> outputs;
  for (GraphEntry e : graph.outputs)
    outputs.push_back(made[e.node][static_cast<size_t>(e.index)]);
  return outputs;
}

Symbol SymbolOfTape(const NDArray& x) {
  const GradNode* node = NodeOf(x);
  Check(node != nullptr, ErrorKind::kValue,
        "get_symbol: the array is no result of recorded calls; one that was computed "
        "inside autograd.record() was expected");
  return Symbol({Builder().Build(node, x.body()->tape_index)});
}

}  // namespace plait
