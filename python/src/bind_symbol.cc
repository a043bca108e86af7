// Symbols: composition, attributes, inference and files.

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <unordered_map>

#include "base/file.h"
#include "bindings.h"
#include "graph/graph.h"
#include "graph/symbol.h"
#include "op_function.h"
#include "passes/infer.h"
#include "run/autocast.h"

namespace nb = nanobind;

namespace plait::python {
namespace {

SymbolAttrs AttrsFrom(const nb::dict& dict) {
  SymbolAttrs attrs;
  for (auto [key, value] : dict)
    attrs[nb::cast<std::string>(key)] = nb::cast<std::string>(value);
  return attrs;
}

// Symbols, or None for an input that is not given.
std::vector<Symbol> SymbolsFrom(const nb::list& list) {
  std::vector<Symbol> symbols;
  for (nb::handle item : list)
    symbols.push_back(item.is_none() ? Symbol() : nb::cast<Symbol&>(item));
  return symbols;
}

std::vector<NamedSymbol> NamedFrom(const nb::dict& dict) {
  std::vector<NamedSymbol> named;
  for (auto [key, value] : dict)
    named.push_back({nb::cast<std::string>(key), nb::cast<Symbol&>(value)});
  return named;
}

SymbolNode& Head(const Symbol& symbol) {
  Check(symbol.size() > 0, ErrorKind::kValue, "symbol: it has no outputs");
  return *symbol.outputs()[0].node;
}

nb::dict DictOf(const SymbolAttrs& attrs) {
  nb::dict d;
  for (const auto& [key, value] : attrs) d[key.c_str()] = value;
  return d;
}

// Shapes in MXNet's words: 0 is an unknown size, None an unknown rank.
nb::object ShapeOrNone(const Shape& shape) {
  if (!shape.rank_known()) return nb::none();
  return nb::steal(ShapeToPython(shape));
}

// shapes: {name: tuple with -1 for unknown sizes}, dtypes: {name: number}. Returns
// ((shape, dtype number) of every input, ... of every output, complete, what is
// missing).
nb::tuple InferSymbol(const Symbol& symbol, const nb::dict& shapes,
                      const nb::dict& dtypes, bool default_types) {
  Graph graph = GraphOf(symbol);
  Specs given;
  std::unordered_map<std::string, size_t> places;
  for (size_t i = 0; i < graph.inputs.size(); ++i) {
    places.emplace(graph.nodes[graph.inputs[i]].name, i);
    given.push_back({});
  }
  const auto place = [&](nb::handle key) -> Spec& {
    const std::string name = nb::cast<std::string>(key);
    const auto it = places.find(name);
    Check(it != places.end(), ErrorKind::kValue, "infer: there is no variable ", name,
          "; a name out of list_inputs() was expected");
    return given[it->second];
  };
  for (auto [key, value] : shapes) place(key).shape = ShapeFromPython(value.ptr());
  for (auto [key, value] : dtypes)
    place(key).dtype = static_cast<DType>(nb::cast<int>(value));
  SetInputSpecs(graph, symbol, given);
  Infer(graph, default_types);
  const auto pair = [](const Spec& s) {
    return nb::make_tuple(ShapeOrNone(s.shape), static_cast<int>(s.dtype));
  };
  nb::list inputs, outputs;
  for (int id : graph.inputs) inputs.append(pair(graph.nodes[id].outputs[0]));
  for (GraphEntry e : graph.outputs) outputs.append(pair(graph.spec(e)));
  std::string missing;
  const bool complete = FullyInferred(graph, &missing);
  return nb::make_tuple(inputs, outputs, complete, missing);
}

// What a front end needs to call an operator: names of inputs and parameters.
nb::dict Signature(const std::string& name) {
  const OpDef& op = GetOp(name);
  nb::list inputs, params;
  for (const InputDef& in : op.inputs) inputs.append(in.name);
  for (const Field& field : op.fields) params.append(field.name);
  nb::dict d;
  d["inputs"] = inputs;
  d["params"] = params;
  d["variable"] = op.variable_inputs && !op.form;
  d["open"] = static_cast<bool>(op.other_param);  // takes any parameter
  d["count"] =
      op.count_param != nullptr ? nb::object(nb::str(op.count_param)) : nb::none();
  return d;
}

}  // namespace

void BindSymbol(nb::module_& m) {
  nb::class_<Symbol>(m, "SymbolHandle", "A declarative graph; see plait.symbol.")
      .def("__len__", &Symbol::size)
      .def("list_arguments", &Symbol::ListArguments)
      .def("list_auxiliary_states", &Symbol::ListAuxiliaryStates)
      .def("list_inputs", &Symbol::ListInputs)
      .def("list_outputs", &Symbol::ListOutputs)
      .def("internals", &Symbol::Internals)
      .def("children", &Symbol::Children)
      .def("output",
           [](const Symbol& s, size_t i) {
             Check(i < s.size(), ErrorKind::kIndex, "symbol: output ", i,
                   " is out of range for ", s.size(), " outputs");
             return Symbol({s.outputs()[i]});
           })
      .def("head_names",
           [](const Symbol& s) {
             std::vector<std::string> names;
             for (const SymbolEntry& out : s.outputs()) names.push_back(out.node->name);
             return names;
           })
      .def(
          "one_head",
          [](const Symbol& s) {
            for (const SymbolEntry& out : s.outputs())
              if (out.node.get() != s.outputs()[0].node.get()) return false;
            return s.size() > 0;
          },
          "Whether all outputs are of one node.")
      .def("is_variable", [](const Symbol& s) { return Head(s).is_variable(); })
      .def("op_name",
           [](const Symbol& s) {
             return Head(s).is_variable() ? std::string("null") : Head(s).op->name;
           })
      .def("subgraphs", [](const Symbol& s) { return Head(s).subgraphs; })
      .def("attrs", [](const Symbol& s) { return DictOf(Head(s).attrs); })
      .def("set_attr",
           [](const Symbol& s, const std::string& key, const std::string& value) {
             SymbolNode& node = Head(s);
             node.attrs[IsHideableAttr(key) ? "__" + key + "__" : key] = value;
           })
      .def(
          "attr_list",
          [](const Symbol& s) {
            nb::list all;
            for (const SymbolNode* node : s.Nodes())
              all.append(nb::make_tuple(node->name, DictOf(node->attrs)));
            return all;
          },
          "(name, attributes) of every node.")
      .def("compose",
           [](const Symbol& s, const std::string& name, const nb::list& args,
              const nb::dict& named) {
             return s.Compose(name, SymbolsFrom(args), NamedFrom(named));
           })
      .def("to_json", &Symbol::ToJson, nb::arg("numpy_shapes") = false)
      .def(
          "cut_subgraph",
          [](const Symbol& s) {
            auto [graph, cut] = s.CutSubgraph();
            return nb::make_tuple(std::move(graph), std::move(cut));
          },
          "(The nodes marked as the head's alone, the outputs cut off.)")
      .def(
          "input_symbols",
          [](const Symbol& s) {
            std::vector<Symbol> variables;
            for (SymbolNode* node : s.Nodes())
              if (node->is_variable())
                variables.push_back(Symbol({{Ref<SymbolNode>(node), 0}}));
            return variables;
          },
          "The variables, in the order of list_inputs().")
      .def(
          "atomic",
          [](const Symbol& s) {
            const SymbolNode& node = Head(s);
            Check(
                !node.is_variable(), ErrorKind::kValue,
                "symbol: a variable is given; the output of an operator was expected");
            return Symbol::Make(*node.op, "", node.attrs, {}, {}, node.subgraphs);
          },
          "The same operator over new variables.")
      .def("head_index", [](const Symbol& s) { return Head(s), s.outputs()[0].index; })
      .def("infer", &InferSymbol)
      .def("dump", [](const Symbol& s) { return Dump(GraphOf(s)); });
  m.def("symbol_variable", [](const std::string& name, const nb::dict& attrs) {
    return Symbol::Variable(name, AttrsFrom(attrs));
  });
  m.def("symbol_make",
        [](const std::string& op, const std::string& name, const nb::dict& attrs,
           const nb::list& inputs, const nb::dict& named, const nb::list& subgraphs) {
          const Symbol made =
              Symbol::Make(GetOp(op), name, AttrsFrom(attrs), SymbolsFrom(inputs),
                           NamedFrom(named), SymbolsFrom(subgraphs));
          if (const auto rules = AutocastRules()) CastInputs(made, *rules);
          return made;
        });
  m.def("symbol_group",
        [](const nb::list& list) { return Symbol::Group(SymbolsFrom(list)); });
  m.def("symbol_from_json", &Symbol::FromJson);
  m.def("symbol_signature", &Signature);
  m.def(
      "write_file",
      [](const std::string& path, const nb::bytes& data) {
        AtomicFile file(path);
        file.Write(data.c_str(), data.size());
        file.Commit();
      },
      "Writes a file, whole or not at all.");
}

}  // namespace plait::python
