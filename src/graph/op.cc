// The registry of operators, parameters from names, and inference of one operator.

#include "graph/op.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "graph/graph.h"

namespace plait {
namespace {

struct Registry {
  std::map<std::string, const OpDef*, std::less<>> names;  // aliases too
  std::vector<const OpDef*> ops;
};

Registry& TheRegistry() {
  static auto* registry = new Registry;
  return *registry;
}

// Number of single changes that make b of a, for "did you mean".
size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t substitute = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      row[j] = std::min({substitute, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row.back();
}

void PrintSpecs(std::ostream& out, const Specs& specs) {
  for (size_t i = 0; i < specs.size(); ++i) {
    out << (i ? ", " : "") << specs[i].dtype << ' ' << specs[i].shape;
  }
}

std::string Text(const Specs& specs) {
  std::ostringstream out;
  PrintSpecs(out, specs);
  return out.str();
}

bool Accepts(Types types, DType dtype) {
  switch (types) {
    case Types::kAny:
      return true;
    case Types::kFloats:
      return IsFloat(dtype);
    case Types::kIntegers:
      return IsInteger(dtype);
    case Types::kNumbers:
      return dtype != DType::kBool;
  }
  return true;
}

// All inputs and outputs share one dtype.
void SameTypes(const OpDef& op, Specs& in, Specs& out) {
  DType dtype = DType::kUnknown;
  for (const Spec& spec : in) {
    if (spec.dtype == DType::kUnknown) continue;
    if (dtype != DType::kUnknown && dtype != spec.dtype) [[unlikely]] {
      Fail(ErrorKind::kType, op.name, ": inputs are ", Text(in),
           "; one dtype for all of them was expected");
    }
    dtype = spec.dtype;
  }
  for (const Spec& spec : out) {
    if (dtype == DType::kUnknown) dtype = spec.dtype;
  }
  for (Spec& spec : in) spec.dtype = dtype;
  for (Spec& spec : out) {
    if (spec.dtype == DType::kUnknown) spec.dtype = dtype;
  }
}

}  // namespace

bool OpDef::Mutates(int input) const {
  if (group > 0) input %= group;
  return std::find(mutates.begin(), mutates.end(), input) != mutates.end();
}

bool OpDef::InPlace(int input, int output) const {
  if (group > 0) {
    if (input / group != output) return false;
    input %= group;
    output = 0;
  }
  return std::find(in_place.begin(), in_place.end(), std::pair(input, output)) !=
         in_place.end();
}

const OpDef& AddOp(OpDef op) {
  Registry& registry = TheRegistry();
  Check(!op.samples.empty() || op.host || op.finish, ErrorKind::kRuntime, op.name,
        ": registered without samples; they are its tests");
  auto* added = new OpDef(std::move(op));
  registry.ops.push_back(added);
  const auto name = [&](const std::string& s) {
    const bool fresh = registry.names.emplace(s, added).second;
    Check(fresh, ErrorKind::kRuntime, s, ": registered twice");
  };
  name(added->name);
  for (const std::string& alias : added->aliases) name(alias);
  return *added;
}

const OpDef* FindOp(std::string_view name) {
  const Registry& registry = TheRegistry();
  const auto it = registry.names.find(name);
  return it == registry.names.end() ? nullptr : it->second;
}

const OpDef& GetOp(std::string_view name) {
  if (const OpDef* op = FindOp(name)) return *op;
  // Very long names come from damaged files; they have no near ones.
  std::string nearest;
  size_t best = 4;
  for (const auto& [known, op] : TheRegistry().names) {
    if (name.size() > 64) break;
    const size_t distance = EditDistance(name, known);
    if (distance < best) {
      best = distance;
      nearest = known;
    }
  }
  Fail(ErrorKind::kValue, "operator: ", name.substr(0, 64), " is not known",
       nearest.empty() ? "" : "; did you mean ", nearest, nearest.empty() ? "" : "?");
}

std::vector<const OpDef*> AllOps() {
  std::vector<const OpDef*> ops = TheRegistry().ops;
  std::sort(ops.begin(), ops.end(),
            [](const OpDef* a, const OpDef* b) { return a->name < b->name; });
  return ops;
}

ParamsRef MakeParams(const OpDef& op, std::span<const NamedAttr> attrs) {
  return MakeParams(op, attrs, {});
}

ParamsRef MakeParams(const OpDef& op, std::span<const NamedAttr> attrs,
                     const std::vector<Symbol>& bodies) {
  auto [object, params] = op.new_params();
  uint64_t given = 0;
  for (const NamedAttr& attr : attrs) {
    size_t i = 0;
    while (i < op.fields.size() && op.fields[i].name != attr.name) ++i;
    if (i == op.fields.size() && op.other_param) {
      op.other_param(object, attr.name, attr.value);
      continue;
    }
    if (i == op.fields.size()) {
      std::string names;
      for (const Field& field : op.fields)
        names += (names.empty() ? "" : ", ") + field.name;
      Fail(ErrorKind::kType, op.name, ": '", attr.name, "' is not a parameter; ",
           names.empty() ? "none" : "one of " + names, " was expected");
    }
    op.fields[i].access->Set(object, attr.value, op.name + ": " + op.fields[i].name);
    given |= uint64_t{1} << (i & 63);
  }
  for (size_t i = 0; i < op.fields.size(); ++i) {
    Check(!op.fields[i].required || (given >> (i & 63) & 1), ErrorKind::kValue, op.name,
          ": parameter ", op.fields[i].name, " is missing; a value of type ",
          op.fields[i].access->TypeName(), " was expected");
  }
  if (op.finish) op.finish(object, bodies);
  return params;
}

namespace {

void CheckTypes(const OpDef& op, const Specs& in) {
  for (size_t i = 0; i < in.size() && !op.inputs.empty(); ++i) {
    const InputDef& def = op.inputs[std::min(i, op.inputs.size() - 1)];
    if (in[i].dtype != DType::kUnknown && !Accepts(def.types, in[i].dtype))
        [[unlikely]] {
      Fail(ErrorKind::kType, op.name, ": ", def.name, " is ", in[i].dtype, "; ",
           def.types == Types::kFloats     ? "a floating dtype"
           : def.types == Types::kIntegers ? "an integer dtype"
                                           : "a number",
           " was expected");
    }
  }
}

// Dtypes of a pointwise operator: unknown ones take the promoted one of the others.
void InferPointwiseTypes(const OpDef& op, const Params& params, Specs& in, Specs& out) {
  DType known = DType::kUnknown;
  for (const Spec& spec : in) {
    if (spec.dtype == DType::kUnknown) continue;
    known = known == DType::kUnknown ? spec.dtype : Promote(known, spec.dtype);
  }
  const bool arithmetic = op.fn != Fn::kCount && op.fn != Fn::kCast;
  if (known == DType::kUnknown && arithmetic) known = out[0].dtype;
  if (known == DType::kUnknown) return;
  for (Spec& spec : in) {
    if (spec.dtype == DType::kUnknown) spec.dtype = known;
  }
  PointwiseTypes(op, params, in, out);
}

// Shapes of a pointwise operator without a rule of its own: they broadcast, or there is
// only one.
void InferPointwiseShapes(const OpDef& op, Specs& in, Specs& out) {
  if (in.size() == 1) {
    for (Spec& spec : out) {
      Check(Unify(in[0].shape, spec.shape), op.name, ": x has shape ", in[0].shape,
            " and the result ", spec.shape, "; equal shapes were expected");
    }
    return;
  }
  for (const Spec& spec : in) {
    if (!spec.shape.known()) return;
  }
  Shape space = in.empty() ? Shape::Unknown() : in[0].shape;
  for (size_t i = 1; i < in.size(); ++i)
    space = Broadcast(space, in[i].shape, op.name.c_str());
  for (Spec& spec : out) {
    Check(Unify(spec.shape, space), op.name, ": the result has shape ", space, "; ",
          spec.shape, " was expected");
  }
}

}  // namespace

void InferPartial(const OpDef& op, const Params& params, Specs& in, Specs& out) {
  CheckTypes(op, in);
  const bool pointwise = op.IsPointwise(params);
  if (op.types) {
    op.types(params.get(), in, out);
  } else if (pointwise) {
    InferPointwiseTypes(op, params, in, out);
  } else {
    SameTypes(op, in, out);
  }
  if (op.infer != nullptr) {
    if (!op.infer(params.get(), in, out)) [[unlikely]]
      Fail(ErrorKind::kValue, op.name, ": inputs ", Text(in), " do not fit together");
  } else if (pointwise) {
    InferPointwiseShapes(op, in, out);
  }
}

void InferAll(const OpDef& op, const Params& params, Specs& in, Specs& out) {
  InferPartial(op, params, in, out);
  for (const Spec& spec : out) {
    if (!spec.shape.known() || spec.dtype == DType::kUnknown) [[unlikely]] {
      Check(!in.empty(), op.name, ": shape ", spec.shape,
            " has a negative or unknown size; sizes of at least 0 were expected");
      Fail(ErrorKind::kRuntime, op.name, ": outputs ", Text(out),
           " do not follow from inputs ", Text(in));
    }
  }
}

const Value& GradArgs::in(int i) const {
  Check(static_cast<bool>(inputs[i]), ErrorKind::kRuntime,
        "internal: a gradient reads input ", i, " that .uses does not list");
  return inputs[i];
}
const Value& GradArgs::out(int i) const {
  Check(static_cast<bool>(outputs[i]), ErrorKind::kRuntime,
        "internal: a gradient reads output ", i, " that .uses does not list");
  return outputs[i];
}

SampleInput Normal(Shape shape) {
  return {.kind = SampleInput::kNormal, .shape = std::move(shape)};
}
SampleInput Uniform(Shape shape, double low, double high) {
  return {.kind = SampleInput::kUniform,
          .shape = std::move(shape),
          .low = low,
          .high = high};
}
SampleInput Integers(Shape shape, int64_t low, int64_t high, DType dtype) {
  return {.kind = SampleInput::kIntegers,
          .shape = std::move(shape),
          .low = static_cast<double>(low),
          .high = static_cast<double>(high),
          .dtype = dtype,
          .differentiable = false};
}
SampleInput Numbers(Shape shape, std::vector<double> values) {
  return {.kind = SampleInput::kValues,
          .shape = std::move(shape),
          .values = std::move(values)};
}

}  // namespace plait
