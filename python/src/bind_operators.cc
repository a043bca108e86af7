// Operators by name, and what the registry knows of them.

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings.h"
#include "graph/op.h"
#include "op_function.h"

namespace nb = nanobind;

namespace plait::python {
namespace {

nb::dict InputOf(const SampleInput& x) {
  constexpr const char* kKinds[] = {"normal", "uniform", "integers", "values"};
  nb::dict d;
  d["kind"] = kKinds[x.kind];
  d["shape"] = nb::steal(ShapeToPython(x.shape));
  d["low"] = x.low;
  d["high"] = x.high;
  d["values"] = x.values;
  d["dtype"] = std::string(Name(x.dtype));
  d["differentiable"] = x.differentiable;
  return d;
}

// Each sample with its parameters as MXNet's text, those that are not the defaults.
nb::list SamplesOf(const std::string& name) {
  const OpDef& op = GetOp(name);
  nb::list samples;
  for (const OpDef::AnySample& sample : op.samples) {
    nb::list inputs;
    for (const SampleInput& x : sample.inputs) inputs.append(InputOf(x));
    nb::dict params;
    for (const Field& field : op.fields) {
      const std::string text = FormatAttr(field.access->Get(sample.params->get()));
      if (field.required || text != FormatAttr(field.access->Get(op.defaults->get())))
        params[field.name.c_str()] = text;
    }
    nb::dict d;
    d["inputs"] = inputs;
    d["params"] = params;
    d["training"] = sample.training;
    d["visible"] = op.CountVisible(*sample.params);
    samples.append(d);
  }
  return samples;
}

}  // namespace

void BindOperators(nb::module_& m) {
  m.def(
      "op_names",
      [] {
        std::vector<std::string> names;
        for (const OpDef* op : AllOps()) {
          // Gradients' own operators trust what a forward call made.
          if (op->name.starts_with("_backward")) continue;
          names.push_back(op->name);
          names.insert(names.end(), op->aliases.begin(), op->aliases.end());
        }
        return names;
      },
      "Names of all operators, aliases too.");
  m.def(
      "op_function",
      [](const std::string& op, const std::string& name) {
        return nb::steal(NewOpFunction(GetOp(op), name));
      },
      "The callable of an operator.");
  m.def("infer_shape", [](const std::string& name, nb::list shapes, nb::dict attrs) {
    // The shape of the first output, for float32 inputs of known shapes.
    const OpDef& op = GetOp(name);
    Specs in, out;
    for (nb::handle s : shapes)
      in.push_back({ShapeFromPython(s.ptr()), DType::kFloat32});
    std::vector<std::string> names;
    for (auto [key, value] : attrs) names.push_back(nb::cast<std::string>(key));
    SmallVector<NamedAttr, 8> named;
    size_t i = 0;
    for (auto [key, value] : attrs) {
      if (!value.is_none()) named.push_back({names[i], AttrFromPython(value.ptr())});
      ++i;
    }
    const ParamsRef params = MakeParams(op, named);
    out.resize(op.CountOutputs(*params));
    InferAll(op, *params, in, out);
    return nb::steal(ShapeToPython(out[0].shape));
  });
  m.def("op_samples", &SamplesOf, "The samples of an operator: its tests' inputs.");
  m.def(
      "op_info",
      [](const std::string& name) {
        const OpDef& op = GetOp(name);
        nb::dict info;
        info["name"] = op.name;
        info["aliases"] = op.aliases;
        info["doc"] = op.doc;
        nb::list inputs, params;
        for (const InputDef& in : op.inputs)
          inputs.append(nb::make_tuple(in.name, in.doc));
        for (const Field& f : op.fields) {
          params.append(nb::make_tuple(
              f.name, f.access->TypeName(), f.required,
              nb::steal(AttrToPython(f.access->Get(op.defaults->get()))), f.doc));
        }
        info["inputs"] = inputs;
        info["params"] = params;
        info["variable_inputs"] = op.variable_inputs;
        info["mutates"] = op.mutates;
        info["differentiable"] = op.gradient != nullptr || op.zero_gradient;
        info["pointwise"] = op.is_pointwise();
        return info;
      },
      "Inputs, parameters and documentation of an operator, as a dict.");
}

}  // namespace plait::python
