// Symbol: a declarative graph: outputs of nodes that operators and variables make.
//
// A Symbol is a list of outputs. Nodes are shared between the symbols that were made
// from them and never change once they are composed, but for their attributes; calling
// a symbol (Compose) copies the nodes that depend on what is replaced.
//
// Names and texts are those of MXNet's graph files, so that both read each other's.
// Graphs may be 100,000 nodes deep: nothing here recurses over a graph.

#ifndef PLAIT_GRAPH_SYMBOL_H_
#define PLAIT_GRAPH_SYMBOL_H_

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/ref.h"
#include "graph/op.h"

namespace plait {

class Symbol;
class SymbolNode;
struct NamedSymbol;

// One output of a node.
struct SymbolEntry {
  Ref<SymbolNode> node;
  int index = 0;
};

using SymbolAttrs = std::map<std::string, std::string>;  // in the order of files

class SymbolNode : public RefCounted<SymbolNode> {
 public:
  ~SymbolNode();

  const OpDef* op = nullptr;  // null: a variable
  std::string name;
  // The operator's parameters that were given, and the user's own (`__shape__`).
  SymbolAttrs attrs;
  ParamsRef params;  // null for a variable
  std::vector<SymbolEntry> inputs;
  std::vector<Symbol> subgraphs;  // bodies of control flow

  bool is_variable() const { return op == nullptr; }
  int CountOutputs() const { return op ? op->CountOutputs(*params) : 1; }
  int CountVisible() const { return op ? op->CountVisible(*params) : 1; }
  // Whether the operator may write its input i: then it is an auxiliary state.
  bool Mutates(int i) const;
};

class Symbol {
 public:
  Symbol() = default;
  explicit Symbol(std::vector<SymbolEntry> outputs) : outputs_(std::move(outputs)) {}

  static Symbol Variable(const std::string& name, SymbolAttrs attrs = {});

  // One node with its visible outputs. Inputs that are not given become variables named
  // `<name>_<input>` with a copy of the node's attributes. Throws kType for unknown
  // names, kValue for bad parameters.
  static Symbol Make(const OpDef& op, const std::string& name, SymbolAttrs attrs,
                     std::span<const Symbol> inputs,
                     std::span<const NamedSymbol> named = {},
                     std::vector<Symbol> subgraphs = {});
  static Symbol Group(std::span<const Symbol> symbols);

  // A copy in which variables are replaced: `args` in the order of ListInputs, `named`
  // by name. `name` renames the head's node where it is not empty.
  Symbol Compose(const std::string& name, std::span<const Symbol> args,
                 std::span<const NamedSymbol> named) const;

  const std::vector<SymbolEntry>& outputs() const { return outputs_; }
  size_t size() const { return outputs_.size(); }

  // Nodes in post-order, depth first from the heads: inputs before users.
  std::vector<SymbolNode*> Nodes() const;
  // Variables in that order; auxiliary states apart.
  std::vector<std::string> ListArguments() const;
  std::vector<std::string> ListAuxiliaryStates() const;
  std::vector<std::string> ListInputs() const;
  std::vector<std::string> ListOutputs() const;

  // Cuts off what the nodes marked `__subgraph_name__` as the head's read of others:
  // new variables, named as the outputs were, stand for it. The second result are the
  // outputs cut off, one for each place that reads one.
  std::pair<Symbol, std::vector<Symbol>> CutSubgraph() const;

  Symbol Internals() const;  // every output of every node
  Symbol Children() const;   // the direct inputs; no outputs when there are none

  // `numpy_shapes` is noted in the text: sizes of 0 in it are sizes.
  std::string ToJson(bool numpy_shapes = false) const;
  static Symbol FromJson(const std::string& text);  // throws kValue

 private:
  std::vector<SymbolEntry> outputs_;
};

struct NamedSymbol {
  std::string name;
  Symbol symbol;
};

// The name of a node's output: `fc1_output`, or a variable's own.
std::string OutputName(const SymbolEntry& entry);

// Notes on a variable how an operator that takes it as `input` wants it initialized,
// where it says nothing itself: BatchNorm's moving variance with ones.
void StampInitializer(const OpDef& op, const std::string& input, SymbolNode& variable);

// `lr_mult`, which is kept as `__lr_mult__`, and its like: the user's words that may be
// given without underscores.
std::span<const std::string_view> HideableAttrs();
bool IsHideableAttr(std::string_view key);
// `__x__`: accepted on every node.
bool IsHiddenAttr(std::string_view key);
// The dtype that `__dtype__` names by MXNet's number.
DType DTypeOfFlag(const std::string& text);

// Parses an operator's parameters out of a node's attributes; hidden ones are ignored.
// Other unknown ones are an error. `bodies` are the graphs that the node carries.
ParamsRef ParseParams(const OpDef& op, const SymbolAttrs& attrs,
                      const std::string& node, const std::vector<Symbol>& bodies = {});

// The names of a call's inputs, by its parameters; empty for any number of them.
std::vector<std::string> InputNames(const OpDef& op, const Params& params);

}  // namespace plait

#endif  // PLAIT_GRAPH_SYMBOL_H_
