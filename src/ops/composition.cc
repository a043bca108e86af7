// Composition: a short list of calls that is gone through backwards.

#include "ops/composition.h"

namespace plait {

Composition::Var Composition::Add(Value v, bool needed) {
  vars_.push_back({std::move(v), {}, needed});
  return static_cast<Var>(vars_.size()) - 1;
}

std::vector<Composition::Var> Composition::CallAll(
    std::string_view name, std::span<const Var> inputs,
    std::initializer_list<MathAttr> attrs) {
  const OpDef& op = GetOp(name);
  SmallVector<NamedAttr, 4> named;
  for (const MathAttr& a : attrs) named.push_back({a.name, a.value});
  const ParamsRef params = attrs.size() == 0 ? op.defaults : MakeParams(op, named);
  std::vector<Value> in;
  bool needed = false;
  for (Var v : inputs) {
    in.push_back(value(v));
    needed |= vars_[static_cast<size_t>(v)].needed;
  }
  std::vector<Var> out;
  for (Value& y : Apply(op, params, in)) out.push_back(Add(std::move(y), needed));
  if (needed) {
    steps_.push_back({&op,
                      params,
                      {inputs.begin(), inputs.end()},
                      out[0],
                      static_cast<int>(out.size())});
  }
  return out;
}

void Composition::Seed(Var v, Value dy) {
  Entry& e = vars_[static_cast<size_t>(v)];
  if (!e.needed || !dy) return;
  e.gradient = e.gradient ? e.gradient + dy : std::move(dy);
}

void Composition::GoBack() {
  for (size_t i = steps_.size(); i-- > 0;) GoBack(steps_[i]);
}

void Composition::GoBack(const Step& step) {
  Values inputs, outputs, heads;
  Specs in_specs, out_specs;
  SmallVector<bool, 4> wanted;
  const auto spec = [](const Value& v) { return Spec{v.shape(), v.dtype()}; };
  bool any = false;
  for (int i = 0; i < step.count; ++i) {
    Entry& e = vars_[static_cast<size_t>(step.first + i)];
    any |= static_cast<bool>(e.gradient);
    outputs.push_back(e.value);
    out_specs.push_back(spec(e.value));
    heads.push_back(std::move(e.gradient));
  }
  if (!any || step.op->zero_gradient) return;
  for (Var v : step.inputs) {
    const Entry& e = vars_[static_cast<size_t>(v)];
    inputs.push_back(e.value);
    in_specs.push_back(spec(e.value));
    wanted.push_back(e.needed);
  }
  Values dx = step.op->gradient(step.params->get(), {.inputs = inputs,
                                                     .outputs = outputs,
                                                     .head_gradients = heads,
                                                     .input_specs = in_specs,
                                                     .output_specs = out_specs,
                                                     .wanted = wanted});
  for (size_t i = 0; i < step.inputs.size() && i < dx.size(); ++i) {
    if (wanted[i]) Seed(step.inputs[i], std::move(dx[i]));
  }
}

}  // namespace plait
