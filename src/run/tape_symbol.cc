// Symbols of recorded calls.

#include "run/tape_symbol.h"

#include <unordered_map>

#include "run/grad_node.h"

namespace plait {
namespace {

// The parameters that differ from the defaults, as texts.
SymbolAttrs AttrsOf(const GradNode& node) {
  SymbolAttrs attrs;
  for (const Field& field : node.op->fields) {
    const std::string value = FormatAttr(field.access->Get(node.params->get()));
    if (field.required ||
        value != FormatAttr(field.access->Get(node.op->defaults->get())))
      attrs[field.name] = value;
  }
  if (node.op->count_param)
    attrs[node.op->count_param] = std::to_string(node.edges.size());
  return attrs;
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
    return {made_.at(node).outputs()[0].node, index};
  }
  Symbol Variable() { return Symbol::Variable("var" + std::to_string(variables_++)); }
  Symbol Make(const GradNode& node) {
    if (node.leaf) return Variable();
    Check(node.op != nullptr, ErrorKind::kNotImplemented,
          "get_symbol: ", node.name.empty() ? "a function" : node.name,
          " was recorded as one call; only operators have symbols");
    std::vector<Symbol> inputs;
    for (const GradNode::Edge& edge : node.edges) {
      const auto* from = static_cast<const GradNode*>(edge.node.get());
      inputs.push_back(from ? Symbol({At(from, edge.index)}) : Variable());
    }
    const std::string name = node.op->name + std::to_string(calls_++);
    return Symbol::Make(*node.op, name, AttrsOf(node), inputs);
  }

  std::unordered_map<const GradNode*, Symbol> made_;
  int variables_ = 0, calls_ = 0;
};

}  // namespace

Symbol SymbolOfTape(const NDArray& x) {
  const GradNode* node = NodeOf(x);
  Check(node != nullptr, ErrorKind::kValue,
        "get_symbol: the array is no result of recorded calls; one that was computed "
        "inside autograd.record() was expected");
  return Symbol({Builder().Build(node, x.body()->tape_index)});
}

}  // namespace plait
