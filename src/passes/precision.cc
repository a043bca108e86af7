// Mixed precision: rules, and symbols with casts.

#include "passes/precision.h"

#include <algorithm>
#include <map>
#include <optional>
#include <sstream>

#include "graph/graph.h"
#include "passes/infer.h"

namespace plait {
namespace {

std::string NameOf(DType dtype) {
  std::ostringstream text;
  text << dtype;
  return text.str();
}

SymbolEntry CastNode(const SymbolEntry& x, DType dtype, const std::string& name) {
  static const OpDef& cast = GetOp("amp_cast");
  return Symbol::Make(cast, name, {{"dtype", NameOf(dtype)}}, {{Symbol({x})}})
      .outputs()[0];
}

std::vector<SymbolEntry> MulticastNode(const std::vector<SymbolEntry>& x,
                                       const std::string& name) {
  static const OpDef& multicast = GetOp("amp_multicast");
  std::vector<Symbol> inputs;
  for (const SymbolEntry& e : x) inputs.push_back(Symbol({e}));
  return Symbol::Make(multicast, name, {{"num_outputs", std::to_string(x.size())}},
                      inputs)
      .outputs();
}

// What follows for a call whose first input has a dtype: dtypes of inputs and outputs;
// nothing where that dtype does not fit.
struct Dtypes {
  Specs in, out;
};
std::optional<Dtypes> DtypesFor(const SymbolNode& node, DType first) {
  Dtypes d;
  d.in.resize(node.inputs.size());
  d.out.resize(static_cast<size_t>(node.CountOutputs()));
  if (d.in.empty()) return d;
  d.in[0].dtype = first;
  try {
    InferPartial(*node.op, *node.params, d.in, d.out);
  } catch (const Error&) {
    return std::nullopt;
  }
  return d;
}

// Walks a symbol and builds the copy. Entries are those of the old symbol.
class Reducer {
 public:
  explicit Reducer(const PrecisionRules& rules) : rules_(rules) {}

  Symbol Run(const Symbol& symbol) {
    for (const SymbolNode* node : symbol.Nodes()) Visit(*node);
    std::vector<SymbolEntry> outputs;
    for (const SymbolEntry& e : symbol.outputs())
      outputs.push_back(As(e, DType::kFloat32));
    return Symbol(std::move(outputs));
  }

 private:
  using Key = std::pair<const SymbolNode*, int>;
  using Forms = std::map<Key, SymbolEntry>;
  static Key KeyOf(const SymbolEntry& e) { return {e.node.get(), e.index}; }

  SymbolEntry Plain(const SymbolEntry& e) const {
    return {copies_.at(e.node.get()), e.index};
  }
  Forms& In(DType dtype) { return dtype == rules_.target ? low_ : full_; }
  bool Has(const SymbolEntry& e, DType dtype) { return In(dtype).contains(KeyOf(e)); }

  // The value in a dtype: as it is known to be, or cast, once for all who ask.
  SymbolEntry As(const SymbolEntry& e, DType dtype) {
    Forms& forms = In(dtype);
    const auto it = forms.find(KeyOf(e));
    if (it != forms.end()) return it->second;
    const std::string name = OutputName(e) + "_amp_cast_" + NameOf(dtype);
    return forms[KeyOf(e)] = CastNode(Plain(e), dtype, name);
  }

  void Note(const SymbolNode& node, int output, DType dtype) {
    if (dtype != rules_.target && dtype != DType::kFloat32) return;
    In(dtype)[{&node, output}] = {copies_.at(&node), output};
  }
  void NoteAll(const SymbolNode& node, DType dtype) {
    for (int i = 0; i < node.CountOutputs(); ++i) Note(node, i, dtype);
  }

  void Visit(const SymbolNode& node) {
    Ref<SymbolNode> copy = MakeRef<SymbolNode>();
    copy->op = node.op;
    copy->name = node.name;
    copy->attrs = node.attrs;
    copy->params = node.params;
    copy->subgraphs = node.subgraphs;
    copies_[&node] = copy;
    if (node.is_variable()) return;
    const bool excluded = rules_.excluded.contains(node.name);
    const Precision precision =
        excluded ? Precision::kFull : rules_.Of(*node.op, *node.params);
    switch (precision) {
      case Precision::kLow:
        return Low(node, *copy);
      case Precision::kFull:
        return Full(node, *copy);
      case Precision::kWidest:
        return Widest(node, *copy);
      case Precision::kAny:
        return Any(node, *copy);
    }
  }

  // Variables are float32 unless something else casts them.
  void Full(const SymbolNode& node, SymbolNode& copy) {
    NoteAll(node, DType::kFloat32);
    for (const SymbolEntry& e : node.inputs) {
      const bool plain = e.node->is_variable() && !Has(e, DType::kFloat32);
      copy.inputs.push_back(plain ? Plain(e) : As(e, DType::kFloat32));
    }
  }

  void Low(const SymbolNode& node, SymbolNode& copy) {
    const std::optional<Dtypes> d = DtypesFor(node, rules_.target);
    Check(d.has_value(), ErrorKind::kType, node.op->name, " (", node.name,
          "): it does not compute in ", rules_.target,
          "; leave it out of the operators for low precision");
    for (int i = 0; i < node.CountOutputs(); ++i) Note(node, i, d->out[i].dtype);
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const SymbolEntry& e = node.inputs[i];
      const DType dtype = d->in[i].dtype;
      const bool given = rules_.cast_params && e.node->is_variable() &&
                         !rules_.data.contains(e.node->name);
      const bool other = dtype != rules_.target && dtype != DType::kUnknown;
      if (Has(e, rules_.target) ||
          !(given || other || !IsCastable(*node.op, *node.params, i))) {
        copy.inputs.push_back(As(e, rules_.target));
        continue;
      }
      copy.inputs.push_back(Plain(e));
      if (given && !other) low_[KeyOf(e)] = Plain(e);
    }
  }

  // With all dtypes known, the right ones are cast; else that is left to the run.
  void Widest(const SymbolNode& node, SymbolNode& copy) {
    bool known = true, all_low = true;
    for (const SymbolEntry& e : node.inputs) {
      known &= Has(e, rules_.target) || Has(e, DType::kFloat32);
      all_low &= !Has(e, DType::kFloat32);
    }
    if (!known) {
      std::vector<SymbolEntry> plain;
      for (const SymbolEntry& e : node.inputs) plain.push_back(Plain(e));
      copy.inputs = MulticastNode(plain, OutputName(node.inputs[0]) + "_amp_multicast");
      return;
    }
    const DType dtype = all_low ? rules_.target : DType::kFloat32;
    NoteAll(node, dtype);
    for (const SymbolEntry& e : node.inputs) copy.inputs.push_back(As(e, dtype));
  }

  void Any(const SymbolNode& node, SymbolNode& copy) {
    for (const SymbolEntry& e : node.inputs) copy.inputs.push_back(Plain(e));
    if (node.inputs.empty()) return;
    const bool low = Has(node.inputs[0], rules_.target);
    if (!low && !Has(node.inputs[0], DType::kFloat32)) return;
    const std::optional<Dtypes> d =
        DtypesFor(node, low ? rules_.target : DType::kFloat32);
    if (!d) return;
    for (int i = 0; i < node.CountOutputs(); ++i) Note(node, i, d->out[i].dtype);
  }

  const PrecisionRules& rules_;
  std::map<const SymbolNode*, Ref<SymbolNode>> copies_;
  Forms low_, full_;
};

// ---------------------------------------------------------------- dtypes of variables

// A variable that only casts read may be stored as they want it: all wanting one dtype.
void FollowCasts(const Symbol& symbol, const PrecisionRules& rules,
                 std::map<std::string, DType>& dtypes) {
  std::map<std::string, DType> wanted;
  const auto want = [&](const SymbolEntry& e, DType dtype) {
    if (!e.node->is_variable()) return;
    const std::string& name = e.node->name;
    const auto [it, fresh] = wanted.emplace(name, dtype);
    DType& known = dtypes[name];
    if (fresh && known == DType::kUnknown) {
      known = dtype;
    } else if (fresh) {
      wanted.erase(it);
    } else if (it->second != dtype) {
      known = DType::kUnknown;
    }
  };
  for (const SymbolNode* node : symbol.Nodes()) {
    if (node->is_variable()) continue;
    if (node->op->name == "amp_cast") {
      for (DType dtype : {rules.target, DType::kFloat32}) {
        if (node->attrs.at("dtype") == NameOf(dtype)) want(node->inputs[0], dtype);
      }
    } else if (node->op->name == "amp_multicast") {
      const bool variables =
          std::all_of(node->inputs.begin(), node->inputs.end(),
                      [](const SymbolEntry& e) { return e.node->is_variable(); });
      if (!variables) continue;
      for (const SymbolEntry& e : node->inputs) want(e, rules.target);
    }
  }
}

void StateDtypes(const Symbol& symbol, const PrecisionRules& rules) {
  Graph graph = GraphOf(symbol);
  for (int id : graph.inputs) {
    if (rules.data.contains(graph.nodes[id].name))
      graph.nodes[id].outputs[0].dtype = DType::kFloat32;
  }
  Infer(graph, false);
  std::map<std::string, DType> dtypes;
  for (int id : graph.inputs)
    dtypes[graph.nodes[id].name] = graph.nodes[id].outputs[0].dtype;
  if (rules.cast_params) FollowCasts(symbol, rules, dtypes);
  for (SymbolNode* node : symbol.Nodes()) {
    if (!node->is_variable() || rules.data.contains(node->name)) continue;
    const DType dtype = dtypes[node->name];
    node->attrs["__dtype__"] = std::to_string(
        static_cast<int>(dtype == DType::kUnknown ? DType::kFloat32 : dtype));
  }
}

bool IsCastTo(const SymbolEntry& e, DType dtype) {
  return !e.node->is_variable() && e.node->op->name == "amp_cast" &&
         e.node->attrs.at("dtype") == NameOf(dtype);
}

}  // namespace

void PrecisionRules::Add(Precision precision, const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    if (const OpDef* op = FindOp(name)) this->ops[op] = precision;
  }
}

void PrecisionRules::AddCondition(std::string_view op, std::string param,
                                  std::vector<std::string> values) {
  if (const OpDef* def = FindOp(op))
    conditions.push_back({def, std::move(param), std::move(values)});
}

Precision PrecisionRules::Of(const OpDef& op, const Params& params) const {
  for (const Condition& c : conditions) {
    if (c.op != &op) continue;
    for (const Field& field : op.fields) {
      if (field.name != c.param) continue;
      const std::string value = FormatAttr(field.access->Get(params.get()));
      if (std::find(c.values.begin(), c.values.end(), value) != c.values.end())
        return Precision::kFull;
    }
  }
  const auto it = ops.find(&op);
  return it == ops.end() ? Precision::kAny : it->second;
}

bool IsCastable(const OpDef& op, const Params& params, size_t input) {
  if (op.form || op.inputs.empty()) return true;
  if (op.Mutates(static_cast<int>(input))) return false;
  size_t row = std::min(input, op.inputs.size() - 1);
  if (op.optional_inputs) {
    const std::vector<bool> present = op.optional_inputs(params.get());
    for (row = 0; row + 1 < present.size(); ++row) {
      if (present[row] && input-- == 0) break;
    }
  }
  const Types types = op.inputs[row].types;
  return types == Types::kAny || types == Types::kFloats;
}

Symbol ReducePrecision(const Symbol& symbol, const PrecisionRules& rules) {
  Check(rules.target == DType::kFloat16 || rules.target == DType::kBfloat16,
        ErrorKind::kType, "ReducePrecision: target is ", rules.target,
        "; float16 or bfloat16 was expected");
  Symbol reduced = Reducer(rules).Run(symbol);
  StateDtypes(reduced, rules);
  return reduced;
}

void CastInputs(const Symbol& symbol, const PrecisionRules& rules) {
  if (symbol.size() == 0) return;
  SymbolNode& node = *symbol.outputs()[0].node;
  if (node.is_variable()) return;
  const Precision precision = rules.Of(*node.op, *node.params);
  if (precision == Precision::kAny) return;
  if (precision == Precision::kWidest) {
    if (node.inputs.size() > 1)
      node.inputs = MulticastNode(node.inputs, node.name + "_amp_multicast");
    return;
  }
  const DType dtype = precision == Precision::kLow ? rules.target : DType::kFloat32;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    SymbolEntry& e = node.inputs[i];
    if (!IsCastable(*node.op, *node.params, i) || IsCastTo(e, dtype)) continue;
    e = CastNode(e, dtype, OutputName(e) + "_amp_cast_" + NameOf(dtype));
  }
}

}  // namespace plait
