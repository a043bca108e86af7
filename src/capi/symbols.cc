// plait.h: symbols and what is inferred of them.

#include <algorithm>

#include "base/file.h"
#include "capi/auto_name.h"
#include "capi/handles.h"
#include "graph/graph.h"
#include "passes/infer.h"

const std::vector<std::string>& plait_symbol::Names(int what) const {
  std::call_once(named_, [&] {
    names_[PLAIT_ARGUMENTS] = value.ListArguments();
    names_[PLAIT_AUXILIARY] = value.ListAuxiliaryStates();
    names_[PLAIT_OUTPUTS] = value.ListOutputs();
  });
  return names_[what];
}

const std::string& plait_symbol::Json() const {
  std::call_once(written_, [&] { json_ = value.ToJson(); });
  return json_;
}

namespace plait::capi {
namespace {

std::string TextOf(const char* path) {
  const MappedFile file(path);
  return {file.bytes().data(), file.bytes().size()};
}

Symbol Load(const char* path) {
  try {
    return Symbol::FromJson(TextOf(path));
  } catch (const Error& e) {
    if (e.kind() == ErrorKind::kIo) throw;
    Fail(e.kind(), path, ": ", e.what());
  }
}

// Inputs by position or by name.
Symbol MakeNode(const char* op_name, const char* name, SymbolAttrs attrs, int count,
                const char* const* names, plait_symbol* const* inputs) {
  const char* const self = "plait_symbol_make";
  const OpDef& op = GetOp(&Need(op_name, self, "op"));
  NeedAll(inputs, count, self, "inputs");
  std::vector<Symbol> by_position;
  std::vector<NamedSymbol> by_name;
  for (int i = 0; i < count; ++i) {
    Check(inputs[i] != nullptr, self, ": inputs[", i,
          "] is NULL; a symbol was expected");
    if (names != nullptr) {
      by_name.push_back(
          {&Need(names[i], self, "a name of an input"), inputs[i]->value});
    } else {
      by_position.push_back(inputs[i]->value);
    }
  }
  const std::string node = name != nullptr && *name != '\0' ? name : AutoName(op.name);
  return Symbol::Make(op, node, std::move(attrs), by_position, by_name);
}

std::unique_ptr<plait_shapes> InferShapes(const plait_symbol& symbol, int count,
                                          const plait_named_shape* given) {
  const char* const self = "plait_symbol_infer";
  NeedAll(given, count, self, "shapes");
  Graph graph = GraphOf(symbol.value);
  Specs specs(graph.inputs.size());
  for (Spec& spec : specs) spec.shape = Shape::Unknown();
  const auto place = [&](const std::string& name) {
    for (size_t i = 0; i < graph.inputs.size(); ++i)
      if (graph.nodes[graph.inputs[i]].name == name) return i;
    Fail(ErrorKind::kValue, self, ": there is no variable ", name,
         "; one of the symbol's arguments was expected");
  };
  for (int i = 0; i < count; ++i) {
    const size_t at = place(&Need(given[i].name, self, "a name"));
    specs[at].shape = ShapeFrom(given[i].sizes, given[i].rank, true, self);
  }
  SetInputSpecs(graph, symbol.value, specs);
  Infer(graph);
  auto result = std::make_unique<plait_shapes>();
  const auto& states = symbol.Names(PLAIT_AUXILIARY);
  for (int id : graph.inputs) {
    const GraphNode& node = graph.nodes[id];
    const bool state =
        std::find(states.begin(), states.end(), node.name) != states.end();
    result->shapes[state ? PLAIT_AUXILIARY : PLAIT_ARGUMENTS].push_back(
        node.outputs[0].shape);
  }
  for (GraphEntry e : graph.outputs)
    result->shapes[PLAIT_OUTPUTS].push_back(graph.spec(e).shape);
  return result;
}

}  // namespace
}  // namespace plait::capi

using namespace plait::capi;  // NOLINT: this file is the inside of the interface
using plait::Symbol;

int plait_symbol_load(const char* path, plait_symbol** out) {
  return Guarded([&] {
    const char* const self = "plait_symbol_load";
    Need(out, self, "out");
    *out = new plait_symbol(Load(&Need(path, self, "path")));
  });
}

int plait_symbol_parse(const char* json, plait_symbol** out) {
  return Guarded([&] {
    const char* const self = "plait_symbol_parse";
    Need(out, self, "out");
    *out = new plait_symbol(Symbol::FromJson(&Need(json, self, "json")));
  });
}

int plait_symbol_save(const plait_symbol* symbol, const char* path) {
  return Guarded([&] {
    const char* const self = "plait_symbol_save";
    const std::string& json = Need(symbol, self, "symbol").Json();
    plait::AtomicFile file(&Need(path, self, "path"));
    file.Write(json.data(), json.size());
    file.Commit();
  });
}

int plait_symbol_json(const plait_symbol* symbol, const char** out) {
  return Guarded([&] {
    const char* const self = "plait_symbol_json";
    Need(out, self, "out");
    *out = Need(symbol, self, "symbol").Json().c_str();
  });
}

void plait_symbol_free(plait_symbol* symbol) {
  delete symbol;
}

int plait_symbol_variable(const char* name, plait_symbol** out) {
  return Guarded([&] {
    const char* const self = "plait_symbol_variable";
    Need(out, self, "out");
    *out = new plait_symbol(Symbol::Variable(&Need(name, self, "name")));
  });
}

int plait_symbol_make(const char* op, const char* name, int num_params,
                      const char* const* keys, const char* const* values,
                      int num_inputs, const char* const* input_names,
                      plait_symbol* const* inputs, plait_symbol** out) {
  return Guarded([&] {
    const char* const self = "plait_symbol_make";
    Need(out, self, "out");
    *out =
        new plait_symbol(MakeNode(op, name, AttrsFrom(num_params, keys, values, self),
                                  num_inputs, input_names, inputs));
  });
}

int plait_symbol_group(int count, plait_symbol* const* symbols, plait_symbol** out) {
  return Guarded([&] {
    const char* const self = "plait_symbol_group";
    NeedAll(symbols, count, self, "symbols");
    plait::Check(count > 0, self, ": there are no symbols; one or more were expected");
    std::vector<Symbol> all;
    for (int i = 0; i < count; ++i)
      all.push_back(Need(symbols[i], self, "one of symbols").value);
    Need(out, self, "out");
    *out = new plait_symbol(Symbol::Group(all));
  });
}

int plait_symbol_output(const plait_symbol* symbol, int index, plait_symbol** out) {
  return Guarded([&] {
    const char* const self = "plait_symbol_output";
    const auto& outputs = Need(symbol, self, "symbol").value.outputs();
    CheckIndex(index, outputs.size(), self, "outputs");
    Need(out, self, "out");
    *out = new plait_symbol(Symbol({outputs[index]}));
  });
}

int plait_symbol_internals(const plait_symbol* symbol, plait_symbol** out) {
  return Guarded([&] {
    const char* const self = "plait_symbol_internals";
    const Symbol& s = Need(symbol, self, "symbol").value;
    Need(out, self, "out");
    *out = new plait_symbol(s.Internals());
  });
}

int plait_symbol_count(const plait_symbol* symbol, int what, int* out) {
  return Guarded([&] {
    const char* const self = "plait_symbol_count";
    CheckWhat(what, 3, self);
    Need(out, self, "out") =
        static_cast<int>(Need(symbol, self, "symbol").Names(what).size());
  });
}

int plait_symbol_name(const plait_symbol* symbol, int what, int index,
                      const char** out) {
  return Guarded([&] {
    const char* const self = "plait_symbol_name";
    CheckWhat(what, 3, self);
    const auto& names = Need(symbol, self, "symbol").Names(what);
    CheckIndex(index, names.size(), self, "names");
    Need(out, self, "out") = names[static_cast<size_t>(index)].c_str();
  });
}

int plait_symbol_infer(const plait_symbol* symbol, int count,
                       const plait_named_shape* shapes, plait_shapes** out) {
  return Guarded([&] {
    const char* const self = "plait_symbol_infer";
    Need(out, self, "out");
    *out = InferShapes(Need(symbol, self, "symbol"), count, shapes).release();
  });
}

int plait_shapes_get(const plait_shapes* shapes, int what, int index, int* rank,
                     const int64_t** sizes) {
  return Guarded([&] {
    const char* const self = "plait_shapes_get";
    CheckWhat(what, 3, self);
    const auto& all = Need(shapes, self, "shapes").shapes[what];
    CheckIndex(index, all.size(), self, "shapes");
    Need(rank, self, "rank");
    Need(sizes, self, "sizes");
    *rank = all[static_cast<size_t>(index)].rank();
    *sizes = all[static_cast<size_t>(index)].data();
  });
}

void plait_shapes_free(plait_shapes* shapes) {
  delete shapes;
}
