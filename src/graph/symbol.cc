// Symbol: composition, walks over the nodes, and names.

#include "graph/symbol.h"

#include <algorithm>
#include <charconv>
#include <unordered_map>
#include <unordered_set>

namespace plait {
void StampInitializer(const OpDef& op, const std::string& input, SymbolNode& variable) {
  const char* init = nullptr;
  if (op.name.find("BatchNorm") != std::string::npos) {
    if (input == "moving_mean") init = "[\"zero\", {}]";
    if (input == "moving_var") init = "[\"one\", {}]";
  } else if (op.name == "LeakyReLU" && input == "gamma") {
    init = "[\"Constant\", {\"value\": 0.25}]";
  } else if (op.name == "UpSampling" && input == "weight") {
    init = "[\"bilinear\", {}]";
  }
  if (init != nullptr) variable.attrs.emplace("__init__", init);
}

namespace {

constexpr std::string_view kHideable[] = {"ctx_group", "lr_mult", "wd_mult",
                                          "force_mirroring", "mirror_stage"};

// Bilinear UpSampling takes a weight, which becomes a variable like other layers'; the
// second input of a nearest one gets the initializer too, as files have it.
void FinishUpSampling(SymbolNode& node) {
  const auto type = node.attrs.find("sample_type");
  if (node.inputs.size() == 1 && type != node.attrs.end() && type->second == "bilinear")
    node.inputs.push_back(
        Symbol::Variable(node.name + "_weight", node.attrs).outputs()[0]);
  if (node.inputs.size() > 1 && node.inputs[1].node->is_variable())
    StampInitializer(*node.op, "weight", *node.inputs[1].node);
}

// User's words get their underscores; `weight_lr_mult` is refused with the remedy.
SymbolAttrs Spelled(const OpDef& op, const SymbolAttrs& attrs) {
  SymbolAttrs spelled;
  for (const auto& [key, value] : attrs) {
    if (IsHideableAttr(key)) {
      spelled["__" + key + "__"] = value;
      continue;
    }
    for (std::string_view word : kHideable) {
      Check(IsHiddenAttr(key) || key.size() <= word.size() || !key.ends_with(word),
            ErrorKind::kType, op.name, ": ", key,
            " is given to the operator; an attribute of the variable was expected, "
            "Variable(name, ",
            word, "=...)");
    }
    spelled[key] = value;
  }
  return spelled;
}

const SymbolEntry& Single(const Symbol& x, const std::string& what) {
  Check(x.size() == 1, ErrorKind::kType, what, ": a symbol of ", x.size(),
        " outputs is given; one output was expected, choose it by [i]");
  return x.outputs()[0];
}

// A node that has no inputs yet.
Ref<SymbolNode> CopyOf(const SymbolNode& node) {
  Ref<SymbolNode> copy = MakeRef<SymbolNode>();
  copy->op = node.op;
  copy->name = node.name;
  copy->attrs = node.attrs;
  copy->params = node.params;
  copy->subgraphs = node.subgraphs;
  return copy;
}

// Destroys what would otherwise be destroyed by recursion.
template <typename T>
class Drain {
 public:
  void operator()(std::vector<T>& items) {
    if (active_) {
      for (T& item : items) rest_.push_back(std::move(item));
      return;
    }
    active_ = true;
    for (T& item : items) rest_.push_back(std::move(item));
    while (!rest_.empty()) {
      const T last = std::move(rest_.back());
      rest_.pop_back();
    }
    active_ = false;
  }

 private:
  std::vector<T> rest_;
  bool active_ = false;
};

}  // namespace

SymbolNode::~SymbolNode() {
  thread_local Drain<SymbolEntry> drain;
  drain(inputs);
}

bool SymbolNode::Mutates(int i) const {
  if (op == nullptr) return false;
  if (!op->form) return op->Mutates(i);
  return i >= static_cast<int>(inputs.size()) - op->form(params->get()).states;
}

std::vector<std::string> InputNames(const OpDef& op, const Params& params) {
  std::vector<std::string> names;
  if (op.form) return op.form(params.get()).inputs;
  if (op.variable_inputs) return names;
  std::vector<bool> present(op.inputs.size(), true);
  if (op.optional_inputs) present = op.optional_inputs(params.get());
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    if (present[i]) names.push_back(op.inputs[i].name);
  }
  return names;
}

std::span<const std::string_view> HideableAttrs() {
  return kHideable;
}

bool IsHideableAttr(std::string_view key) {
  return std::find(std::begin(kHideable), std::end(kHideable), key) !=
         std::end(kHideable);
}

bool IsHiddenAttr(std::string_view key) {
  return key.size() > 4 && key.starts_with("__") && key.ends_with("__");
}

DType DTypeOfFlag(const std::string& text) {
  int flag = -1;
  std::from_chars(text.data(), text.data() + text.size(), flag);
  return flag >= 0 && flag < kNumDTypes ? static_cast<DType>(flag) : DType::kUnknown;
}

ParamsRef ParseParams(const OpDef& op, const SymbolAttrs& attrs,
                      const std::string& node, const std::vector<Symbol>& bodies) {
  SmallVector<NamedAttr, 8> named;
  for (const auto& attr : attrs) {
    const std::string &key = attr.first, &value = attr.second;
    if (IsHiddenAttr(key)) continue;
    const bool known = std::any_of(op.fields.begin(), op.fields.end(),
                                   [&](const Field& f) { return f.name == key; });
    if (!known && op.count_param != nullptr && key == op.count_param) continue;
    // Parameters of the host language stay the texts they are.
    named.push_back(
        {key, known || !op.other_param ? ParseAttr(value) : AttrValue{value}});
  }
  try {
    return MakeParams(op, named, bodies);
  } catch (const Error& e) {
    Fail(e.kind(), e.what(), node.empty() ? "" : " (node " + node + ")");
  }
}

Symbol Symbol::Variable(const std::string& name, SymbolAttrs attrs) {
  Ref<SymbolNode> node = MakeRef<SymbolNode>();
  node->name = name;
  for (auto& [key, value] : attrs) {
    node->attrs[IsHideableAttr(key) ? "__" + key + "__" : key] = value;
  }
  return Symbol({{std::move(node), 0}});
}

Symbol Symbol::Make(const OpDef& op, const std::string& name, SymbolAttrs attrs,
                    std::span<const Symbol> inputs, std::span<const NamedSymbol> named,
                    std::vector<Symbol> subgraphs) {
  Ref<SymbolNode> node = MakeRef<SymbolNode>();
  node->op = &op;
  node->name = name;
  node->attrs = Spelled(op, attrs);
  node->subgraphs = std::move(subgraphs);
  const std::string what = op.name + " (node " + name + ")";
  if (op.variable_inputs && !op.form) {
    std::vector<SymbolEntry> given;
    for (const Symbol& x : inputs) given.push_back(Single(x, what));
    for (const NamedSymbol& x : named) given.push_back(Single(x.symbol, what));
    if (op.count_param != nullptr && !(given.empty() && node->subgraphs.empty()))
      node->attrs.emplace(op.count_param,
                          std::to_string(given.size() + node->subgraphs.size()));
    node->params = ParseParams(op, node->attrs, name, node->subgraphs);
    node->inputs = std::move(given);
    if (node->inputs.empty() && node->subgraphs.empty() && op.count_param != nullptr) {
      const auto count = node->attrs.find(op.count_param);
      const int n = count == node->attrs.end() ? 0 : std::atoi(count->second.c_str());
      for (int i = 0; i < n; ++i) {
        Symbol variable = Variable(name + "_arg" + std::to_string(i), node->attrs);
        node->inputs.push_back(variable.outputs_[0]);
      }
    }
    if (op.name == "UpSampling") FinishUpSampling(*node);
  } else {
    node->params = ParseParams(op, node->attrs, name, node->subgraphs);
    const std::vector<std::string> names = InputNames(op, *node->params);
    // Inputs that the parameters rule out may be given as none.
    std::vector<Symbol> given(inputs.begin(), inputs.end());
    if (given.size() > names.size())
      std::erase_if(given, [](const Symbol& x) { return x.size() == 0; });
    Check(given.size() <= names.size(), ErrorKind::kType, what, ": got ", given.size(),
          " inputs; at most ", names.size(), " were expected");
    node->inputs.resize(names.size());
    for (size_t i = 0; i < given.size(); ++i) {
      if (given[i].size() > 0) node->inputs[i] = Single(given[i], what);
    }
    for (const NamedSymbol& x : named) {
      const auto it = std::find(names.begin(), names.end(), x.name);
      if (it == names.end()) {
        std::string all;
        for (const std::string& n : names) all += (all.empty() ? "" : ", ") + n;
        Fail(ErrorKind::kType, what, ": ", x.name, " is not an input; one of ", all,
             " was expected");
      }
      SymbolEntry& place = node->inputs[it - names.begin()];
      Check(!place.node, ErrorKind::kType, what, ": ", x.name, " is given twice");
      place = Single(x.symbol, what);
    }
    for (size_t i = 0; i < names.size(); ++i) {
      SymbolEntry& place = node->inputs[i];
      if (!place.node) place = Variable(name + "_" + names[i], node->attrs).outputs_[0];
      if (place.node->is_variable()) StampInitializer(op, names[i], *place.node);
    }
  }
  std::vector<SymbolEntry> outputs;
  for (int i = 0; i < node->CountVisible(); ++i) outputs.push_back({node, i});
  return Symbol(std::move(outputs));
}

Symbol Symbol::Group(std::span<const Symbol> symbols) {
  std::vector<SymbolEntry> outputs;
  for (const Symbol& s : symbols)
    outputs.insert(outputs.end(), s.outputs_.begin(), s.outputs_.end());
  return Symbol(std::move(outputs));
}

Symbol Symbol::Compose(const std::string& name, std::span<const Symbol> args,
                       std::span<const NamedSymbol> named) const {
  const std::vector<SymbolNode*> nodes = Nodes();
  const std::vector<std::string> inputs = ListInputs();
  const std::string what = "compose " + name;
  Check(args.size() <= inputs.size(), ErrorKind::kType, what, ": got ", args.size(),
        " symbols for ", inputs.size(), " variables; not more were expected");
  std::map<std::string, SymbolEntry> replaced;
  for (size_t i = 0; i < args.size(); ++i) replaced[inputs[i]] = Single(args[i], what);
  for (const NamedSymbol& x : named) {
    Check(std::find(inputs.begin(), inputs.end(), x.name) != inputs.end(),
          ErrorKind::kType, what, ": there is no variable ", x.name,
          "; a name out of list_inputs() was expected");
    replaced[x.name] = Single(x.symbol, what);
  }
  std::unordered_map<const SymbolNode*, SymbolEntry> copies;
  for (SymbolNode* node : nodes) {
    if (node->is_variable()) {
      const auto it = replaced.find(node->name);
      copies[node] =
          it != replaced.end() ? it->second : SymbolEntry{Ref<SymbolNode>(node), 0};
      continue;
    }
    Ref<SymbolNode> copy = CopyOf(*node);
    for (const SymbolEntry& in : node->inputs) {
      const SymbolEntry& to = copies.at(in.node.get());
      copy->inputs.push_back(in.node->is_variable() ? to
                                                    : SymbolEntry{to.node, in.index});
    }
    copies[node] = {std::move(copy), 0};
  }
  std::vector<SymbolEntry> outputs;
  for (const SymbolEntry& out : outputs_) {
    const SymbolEntry& to = copies.at(out.node.get());
    outputs.push_back(out.node->is_variable() ? to : SymbolEntry{to.node, out.index});
  }
  if (!name.empty() && !outputs.empty() && !outputs[0].node->is_variable())
    outputs[0].node->name = name;
  return Symbol(std::move(outputs));
}

std::vector<SymbolNode*> Symbol::Nodes() const {
  std::vector<SymbolNode*> order;
  std::unordered_set<const SymbolNode*> seen;
  struct Frame {
    SymbolNode* node;
    size_t next;
  };
  std::vector<Frame> stack;
  for (const SymbolEntry& head : outputs_) {
    if (!seen.insert(head.node.get()).second) continue;
    stack.push_back({head.node.get(), 0});
    while (!stack.empty()) {
      Frame& frame = stack.back();
      if (frame.next < frame.node->inputs.size()) {
        SymbolNode* input = frame.node->inputs[frame.next++].node.get();
        if (seen.insert(input).second) stack.push_back({input, 0});
        continue;
      }
      order.push_back(frame.node);
      stack.pop_back();
    }
  }
  return order;
}

namespace {

std::unordered_set<const SymbolNode*> AuxiliaryOf(
    const std::vector<SymbolNode*>& nodes) {
  std::unordered_set<const SymbolNode*> auxiliary;
  for (const SymbolNode* node : nodes) {
    for (size_t i = 0; i < node->inputs.size(); ++i) {
      const SymbolNode* input = node->inputs[i].node.get();
      if (node->Mutates(static_cast<int>(i)) && input->is_variable())
        auxiliary.insert(input);
    }
  }
  return auxiliary;
}

template <typename Keep>
std::vector<std::string> VariableNames(const Symbol& symbol, Keep keep) {
  const std::vector<SymbolNode*> nodes = symbol.Nodes();
  const auto auxiliary = AuxiliaryOf(nodes);
  std::vector<std::string> names;
  for (const SymbolNode* node : nodes) {
    if (node->is_variable() && keep(auxiliary.contains(node)))
      names.push_back(node->name);
  }
  return names;
}

}  // namespace

std::vector<std::string> Symbol::ListArguments() const {
  return VariableNames(*this, [](bool auxiliary) { return !auxiliary; });
}
std::vector<std::string> Symbol::ListAuxiliaryStates() const {
  return VariableNames(*this, [](bool auxiliary) { return auxiliary; });
}
std::vector<std::string> Symbol::ListInputs() const {
  return VariableNames(*this, [](bool) { return true; });
}

// Operators whose outputs have no names in MXNet, but numbers.
// clang-format off
constexpr std::string_view kNumbered[] = {
    "CTCLoss", "SliceChannel", "_contrib_box_nms", "_histogram",
    "_linalg_det", "_linalg_gelqf", "_linalg_slogdet", "_linalg_syevd",
    "moments", "sort", "topk", "_contrib_bipartite_matching",
    "_contrib_box_encode", "_contrib_mrcnn_mask_target", "_sample_multinomial", "_sample_unique_zipfian"};
// clang-format on

std::string OutputName(const SymbolEntry& entry) {
  const SymbolNode& node = *entry.node;
  if (node.is_variable()) return node.name;
  if (node.op->form) {
    const std::vector<std::string> names = node.op->form(node.params->get()).outputs;
    if (entry.index < static_cast<int>(names.size()))
      return node.name + "_" + names[entry.index];
  }
  const std::vector<OutputDef>& defs = node.op->outputs;
  const int count = node.CountOutputs();
  const bool numbered = std::find(std::begin(kNumbered), std::end(kNumbered),
                                  node.op->name) != std::end(kNumbered);
  if (numbered && (count > 1 || node.op->name == "SliceChannel"))
    return node.name + "_output" + std::to_string(entry.index);
  // A definition whose outputs all have names of their own.
  if (static_cast<int>(defs.size()) >= count && defs.size() > 1 &&
      std::string_view(defs[1].name) != "output")
    return node.name + "_" + defs[entry.index].name;
  if (count == 1 || (defs.size() == 1 && node.CountVisible() == 1))
    return node.name + "_" + defs[0].name;
  return node.name + "_output" + std::to_string(entry.index);
}

std::vector<std::string> Symbol::ListOutputs() const {
  std::vector<std::string> names;
  for (const SymbolEntry& out : outputs_) names.push_back(OutputName(out));
  return names;
}

std::pair<Symbol, std::vector<Symbol>> Symbol::CutSubgraph() const {
  const auto mark = [](const SymbolNode& node) {
    const auto it = node.attrs.find("__subgraph_name__");
    return it == node.attrs.end() ? std::string() : it->second;
  };
  if (outputs_.empty() || mark(*outputs_[0].node).empty()) return {*this, {}};
  const std::string own = mark(*outputs_[0].node);
  std::vector<Symbol> cut;
  std::map<std::pair<const SymbolNode*, int>, SymbolEntry> variables;
  std::unordered_map<const SymbolNode*, Ref<SymbolNode>> copies;
  for (SymbolNode* node : Nodes()) {
    if (node->is_variable() || mark(*node) != own) {
      copies[node] = Ref<SymbolNode>(node);
      continue;
    }
    Ref<SymbolNode> copy = CopyOf(*node);
    for (const SymbolEntry& in : node->inputs) {
      if (mark(*in.node) == own) {
        copy->inputs.push_back({copies.at(in.node.get()), in.index});
        continue;
      }
      cut.push_back(Symbol({in}));
      SymbolEntry& variable = variables[{in.node.get(), in.index}];
      if (!variable.node) variable = Variable(OutputName(in)).outputs_[0];
      copy->inputs.push_back(variable);
    }
    copies[node] = std::move(copy);
  }
  std::vector<SymbolEntry> outputs;
  for (const SymbolEntry& out : outputs_)
    outputs.push_back({copies.at(out.node.get()), out.index});
  return {Symbol(std::move(outputs)), std::move(cut)};
}

Symbol Symbol::Internals() const {
  std::vector<SymbolEntry> outputs;
  for (SymbolNode* node : Nodes()) {
    for (int i = 0; i < node->CountVisible(); ++i)
      outputs.push_back({Ref<SymbolNode>(node), i});
  }
  return Symbol(std::move(outputs));
}

Symbol Symbol::Children() const {
  std::vector<SymbolEntry> outputs;
  std::unordered_set<const SymbolNode*> seen;
  for (const SymbolEntry& head : outputs_) {
    if (!seen.insert(head.node.get()).second) continue;
    outputs.insert(outputs.end(), head.node->inputs.begin(), head.node->inputs.end());
  }
  return Symbol(std::move(outputs));
}

}  // namespace plait
