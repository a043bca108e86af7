// Symbols as MXNet's JSON: written byte for byte as 1.9.1 does, read from 0.7 on.

#include <nlohmann/json.hpp>
#include <unordered_map>

#include "graph/symbol.h"

namespace plait {
namespace {

constexpr int kVersion = 10901;  // the version whose files these are

// ---------------------------------------------------------------- writing

// The name that files have for a node's operator: the original's first one.
std::string NameInFile(const SymbolNode& node) {
  if (node.is_variable()) return "null";
  return node.op->name == "cumsum" ? "_np_cumsum" : node.op->name;
}

// Pooling keeps its maxima's places in a second output, where the library that the
// original was built with computes it: it takes no channels-last layouts.
bool KeepsMaxima(const SymbolNode& node) {
  const auto kernel = node.attrs.find("kernel"), layout = node.attrs.find("layout"),
             type = node.attrs.find("pool_type");
  if (type != node.attrs.end() && type->second != "max") return false;
  if (kernel == node.attrs.end() ||
      kernel->second.find_first_of("0123456789") == std::string::npos)
    return false;
  return layout == node.attrs.end() || layout->second == "None" ||
         layout->second.starts_with("NC");
}

// How many outputs files count for a node: with those that the original operator has
// for its own use, which differ from those here.
int OutputsInFile(const SymbolNode& node) {
  if (node.is_variable()) return 1;
  struct Row {
    std::string_view op;
    int count;
  };
  constexpr Row kCounts[] = {
      {"BilinearSampler", 2},    {"Correlation", 3},
      {"GridGenerator", 2},      {"LRN", 2},
      {"SpatialTransformer", 3}, {"_contrib_BatchNormWithReLU", 4},
  };
  for (const Row& row : kCounts) {
    if (node.op->name == row.op) return row.count;
  }
  if (node.op->name == "Pooling") return KeepsMaxima(node) ? 2 : 1;
  if (node.op->name == "RNN" || node.op->form || !node.subgraphs.empty())
    return node.CountVisible();
  return node.CountOutputs();
}

// The layout of the original writer: long lists and objects stand one item a line.
class Writer {
 public:
  std::string Write(const Symbol& symbol, bool numpy_shapes) {
    numpy_shapes_ = numpy_shapes;
    Graph(symbol, true);
    return std::move(text_);
  }

 private:
  void NewLine() {
    text_ += '\n';
    text_.append(2 * depth_, ' ');
  }
  void String(const std::string& s) {
    text_ += '"';
    for (char c : s) {
      switch (c) {
        case '\r':
          text_ += "\\r";
          break;
        case '\n':
          text_ += "\\n";
          break;
        case '\t':
          text_ += "\\t";
          break;
        case '\\':
          text_ += "\\\\";
          break;
        case '"':
          text_ += "\\\"";
          break;
        default:
          text_ += c;
      }
    }
    text_ += '"';
  }

  // Writes `count` items between brackets, each by item(i).
  template <typename F>
  void Items(char open, char close, size_t count, bool lines, F item) {
    text_ += open;
    ++depth_;
    for (size_t i = 0; i < count; ++i) {
      if (i > 0) text_ += ", ";
      if (lines) NewLine();
      item(i);
    }
    --depth_;
    if (lines && count > 0) NewLine();
    text_ += close;
  }
  template <typename F>
  void Array(size_t count, F item) {
    Items('[', ']', count, count > 10, item);
  }
  void Numbers(const std::vector<size_t>& numbers) {
    Array(numbers.size(), [&](size_t i) { text_ += std::to_string(numbers[i]); });
  }
  void Entry(size_t node, int index, int version) {
    text_ += '[' + std::to_string(node) + ", " + std::to_string(index) + ", " +
             std::to_string(version) + ']';
  }
  void Key(const char* key, bool first = false) {
    if (!first) text_ += ", ";
    NewLine();
    String(key);
    text_ += ": ";
  }

  void Graph(const Symbol& symbol, bool outermost) {
    const std::vector<SymbolNode*> nodes = symbol.Nodes();
    std::unordered_map<const SymbolNode*, size_t> ids;
    std::unordered_map<const SymbolNode*, int> versions;
    std::vector<size_t> variables, row_ptr{0};
    for (size_t i = 0; i < nodes.size(); ++i) {
      ids[nodes[i]] = i;
      if (nodes[i]->is_variable()) variables.push_back(i);
      row_ptr.push_back(row_ptr.back() + OutputsInFile(*nodes[i]));
    }
    text_ += '{';
    ++depth_;
    Key("nodes", true);
    Items('[', ']', nodes.size(), true,
          [&](size_t i) { Node(*nodes[i], ids, versions); });
    Key("arg_nodes");
    Numbers(variables);
    Key("node_row_ptr");
    Numbers(row_ptr);
    Key("heads");
    Array(symbol.size(), [&](size_t i) {
      const SymbolEntry& head = symbol.outputs()[i];
      const auto it = versions.find(head.node.get());
      Entry(ids[head.node.get()], head.index, it == versions.end() ? 0 : it->second);
    });
    if (outermost) {
      Key("attrs");
      Items('{', '}', numpy_shapes_ ? 2 : 1, numpy_shapes_, [&](size_t i) {
        text_ += numpy_shapes_ && i == 0
                     ? "\"is_np_shape\": [\"int\", 1]"
                     : "\"mxnet_version\": [\"int\", " + std::to_string(kVersion) + ']';
      });
    }
    --depth_;
    NewLine();
    text_ += '}';
  }

  void Node(const SymbolNode& node,
            const std::unordered_map<const SymbolNode*, size_t>& ids,
            std::unordered_map<const SymbolNode*, int>& versions) {
    text_ += '{';
    ++depth_;
    Key("op", true);
    String(NameInFile(node));
    Key("name");
    String(node.name);
    if (!node.attrs.empty()) {
      Key("attrs");
      auto it = node.attrs.begin();
      Items('{', '}', node.attrs.size(), node.attrs.size() > 1, [&](size_t) {
        String(it->first);
        text_ += ": ";
        String(it->second);
        ++it;
      });
    }
    Key("inputs");
    // A variable that this node writes has a new version from here on.
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (node.Mutates(static_cast<int>(i))) ++versions[node.inputs[i].node.get()];
    }
    Array(node.inputs.size(), [&](size_t i) {
      const SymbolEntry& in = node.inputs[i];
      const auto it = versions.find(in.node.get());
      Entry(ids.at(in.node.get()), in.index, it == versions.end() ? 0 : it->second);
    });
    if (!node.subgraphs.empty()) {
      Key("subgraphs");
      Items('[', ']', node.subgraphs.size(), true,
            [&](size_t i) { Graph(node.subgraphs[i], false); });
    }
    --depth_;
    NewLine();
    text_ += '}';
  }

  std::string text_;
  size_t depth_ = 0;
  bool numpy_shapes_ = false;
};

// ---------------------------------------------------------------- reading

using Json = nlohmann::ordered_json;

template <typename... Parts>
[[noreturn]] void Bad(const Parts&... parts) {
  Fail(ErrorKind::kValue, "symbol JSON: ", parts...);
}

const Json& Member(const Json& object, const char* key, const std::string& where) {
  const auto it = object.find(key);
  if (it == object.end()) Bad(where, " has no \"", key, "\"; that was expected");
  return *it;
}

std::string Text(const Json& value, const std::string& where) {
  if (!value.is_string())
    Bad(where, " is ", value.type_name(), "; a string was expected");
  return value.get<std::string>();
}

int64_t Number(const Json& value, const std::string& where) {
  if (!value.is_number_integer())
    Bad(where, " is ", value.type_name(), "; a whole number was expected");
  return value.get<int64_t>();
}

const Json& List(const Json& value, const std::string& where) {
  if (!value.is_array()) Bad(where, " is ", value.type_name(), "; a list was expected");
  return value;
}

class Reader {
 public:
  Symbol Read(const Json& graph, int version, int depth) {
    if (depth > kMaxDepth) Bad("subgraphs are nested more than ", kMaxDepth, " deep");
    if (!graph.is_object())
      Bad("the graph is ", graph.type_name(), "; an object was expected");
    if (graph.contains("attrs"))
      version = VersionOf(graph["attrs"]);
    else if (depth == 0)
      version = 800;
    const Json& nodes = List(Member(graph, "nodes", "the graph"), "\"nodes\"");
    std::vector<Ref<SymbolNode>> made;
    made.reserve(nodes.size());
    for (const Json& node : nodes) made.push_back(Node(node, made, version, depth));
    for (const Json& id :
         List(Member(graph, "arg_nodes", "the graph"), "\"arg_nodes\"")) {
      const int64_t i = Number(id, "an argument's id");
      if (i < 0 || i >= static_cast<int64_t>(made.size()) || !made[i]->is_variable())
        Bad("\"arg_nodes\" names node ", i, "; a variable was expected");
    }
    std::vector<SymbolEntry> outputs;
    for (const Json& head : List(Member(graph, "heads", "the graph"), "\"heads\""))
      outputs.push_back(Entry(head, made, "a head"));
    return Symbol(std::move(outputs));
  }

 private:
  static constexpr int kMaxDepth = 16;

  static int VersionOf(const Json& attrs) {
    if (!attrs.is_object())
      Bad("\"attrs\" is ", attrs.type_name(), "; an object was expected");
    const auto it = attrs.find("mxnet_version");
    if (it == attrs.end()) return 800;
    if (!it->is_array() || it->size() != 2 || !(*it)[1].is_number_integer())
      Bad("\"mxnet_version\" is ", it->dump().substr(0, 60),
          "; [\"int\", number] was expected");
    return (*it)[1].get<int>();
  }

  static SymbolEntry Entry(const Json& entry, const std::vector<Ref<SymbolNode>>& made,
                           const std::string& where) {
    if (!entry.is_array() || entry.size() < 2 || entry.size() > 3)
      Bad(where, " is ", entry.dump().substr(0, 60),
          "; [node, output, version] was expected");
    const int64_t id = Number(entry[0], where), index = Number(entry[1], where);
    if (id < 0 || id >= static_cast<int64_t>(made.size()))
      Bad(where, " refers to node ", id, "; one of the ", made.size(),
          " nodes before it was expected");
    if (index < 0 || index >= made[id]->CountOutputs())
      Bad(where, " refers to output ", index, " of node ", made[id]->name,
          ", which has ", made[id]->CountOutputs());
    return {made[id], static_cast<int>(index)};
  }

  static void ReadAttrs(const Json& attrs, const std::string& where,
                        SymbolAttrs& into) {
    if (!attrs.is_object())
      Bad(where, ": its attributes are ", attrs.type_name(),
          "; an object was expected");
    for (const auto& [key, value] : attrs.items())
      into.emplace(key, Text(value, where));
  }

  Ref<SymbolNode> Node(const Json& json, const std::vector<Ref<SymbolNode>>& made,
                       int version, int depth) {
    if (!json.is_object())
      Bad("a node is ", json.type_name(), "; an object was expected");
    const std::string number = "node " + std::to_string(made.size());
    Ref<SymbolNode> node = MakeRef<SymbolNode>();
    node->name = Text(Member(json, "name", number), number);
    const std::string where = number + " (" + node->name.substr(0, 64) + ")";
    const std::string op = Text(Member(json, "op", where), where);
    std::vector<const Json*> params;
    for (const auto& [key, value] : json.items()) {
      if (key == "attrs" || key == "attr") {
        node->attrs.clear();  // the later one counts
        ReadAttrs(value, where, node->attrs);
      } else if (key == "param") {
        params.push_back(&value);
      } else if (key == "subgraphs") {
        for (const Json& graph : List(value, where))
          node->subgraphs.push_back(Read(graph, version, depth + 1));
      } else if (key != "op" && key != "name" && key != "inputs" &&
                 key != "control_deps" && key != "backward_source_id") {
        Bad(where, " has \"", key.substr(0, 64), "\", which nodes do not have");
      }
    }
    for (const Json* p : params) ReadAttrs(*p, where, node->attrs);
    for (const Json& in : List(Member(json, "inputs", where), where))
      node->inputs.push_back(Entry(in, made, where));
    if (op == "null") {
      if (!node->inputs.empty()) Bad(where, " is a variable and has inputs");
      FixVariable(*node, version);
      return node;
    }
    node->op = &GetOp(op);
    FixOperator(*node, version);
    return node;
  }

  // Old files spell lr_mult without underscores.
  static void FixVariable(SymbolNode& node, int version) {
    if (version >= kVersion) return;
    SymbolAttrs fixed;
    for (auto& [key, value] : node.attrs)
      fixed[IsHideableAttr(key) ? "__" + key + "__" : key] = value;
    node.attrs = std::move(fixed);
  }

  static void FixOperator(SymbolNode& node, int version) {
    const OpDef& op = *node.op;
    if (version < kVersion) MoveUserAttrs(node);
    if (version < 905 && (op.name == "argmin" || op.name == "argmax")) {
      const auto axis = node.attrs.find("axis");
      if (axis != node.attrs.end() && axis->second == "-1") node.attrs.erase(axis);
    }
    node.params = ParseParams(op, node.attrs, node.name, node.subgraphs);
    if (!op.variable_inputs || op.form) AddMissingInputs(node, version);
  }

  // `weight_lr_mult` on an operator belongs to its input weight.
  static void MoveUserAttrs(SymbolNode& node) {
    SymbolAttrs kept;
    for (auto& [key, value] : node.attrs) {
      if (IsHideableAttr(key)) {
        kept["__" + key + "__"] = value;
        continue;
      }
      bool moved = false;
      for (std::string_view word : HideableAttrs()) {
        if (IsHiddenAttr(key) || key.size() <= word.size() + 1 || !key.ends_with(word))
          continue;
        const std::string input = key.substr(0, key.size() - word.size() - 1);
        for (size_t i = 0; i < node.op->inputs.size() && i < node.inputs.size(); ++i) {
          if (node.op->inputs[i].name == input && node.inputs[i].node->is_variable()) {
            node.inputs[i].node->attrs["__" + std::string(word) + "__"] = value;
            moved = true;
          }
        }
      }
      if (!moved) kept[key] = value;
    }
    node.attrs = std::move(kept);
  }

  // Files before 0.9 left auxiliary states out; they follow the other inputs.
  static void AddMissingInputs(SymbolNode& node, int version) {
    const OpDef& op = *node.op;
    const std::vector<std::string> names = InputNames(op, *node.params);
    if (version < 900) {
      while (node.inputs.size() < names.size()) {
        Symbol variable =
            Symbol::Variable(node.name + "_" + names[node.inputs.size()], node.attrs);
        node.inputs.push_back(variable.outputs()[0]);
      }
    }
    if (node.inputs.size() != names.size())
      Bad("node ", node.name, ", operator ", op.name, ", has ", node.inputs.size(),
          " inputs; ", names.size(), " were expected");
    for (size_t i = 0; i < names.size() && version < 904; ++i) {
      SymbolNode& input = *node.inputs[i].node;
      if (input.is_variable()) StampInitializer(op, names[i], input);
    }
  }
};

}  // namespace

std::string Symbol::ToJson(bool numpy_shapes) const {
  return Writer().Write(*this, numpy_shapes);
}

Symbol Symbol::FromJson(const std::string& text) {
  Json json;
  try {
    json = Json::parse(text);
  } catch (const Json::exception& e) {
    Bad(e.what());
  }
  return Reader().Read(json, 800, 0);
}

}  // namespace plait
