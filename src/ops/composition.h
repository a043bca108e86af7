// Composition: operators applied to values one after the other, and the gradient of
// what they give.
//
// For gradients of gradients of operators whose own are kernels: the operator is
// written once more by other operators, and what these call gradients is put together
// here. Their calls are ordinary ones, so that they are recorded or traced as any
// others. Thread safety: none.

#ifndef PLAIT_OPS_COMPOSITION_H_
#define PLAIT_OPS_COMPOSITION_H_

#include <initializer_list>
#include <span>
#include <vector>

#include "graph/math.h"

namespace plait {

class Composition {
 public:
  // A value of the composition by number; kNone stands for zeros.
  using Var = int;
  static constexpr Var kNone = -1;

  Var Input(Value v) { return Add(std::move(v), true); }
  Var Constant(Value v) { return Add(std::move(v), false); }
  const Value& value(Var v) const { return vars_[static_cast<size_t>(v)].value; }
  const Shape& shape(Var v) const { return value(v).shape(); }

  // All results of a call.
  std::vector<Var> CallAll(std::string_view op, std::span<const Var> inputs,
                           std::initializer_list<MathAttr> attrs = {});
  Var Call(std::string_view op, std::initializer_list<Var> inputs,
           std::initializer_list<MathAttr> attrs = {}) {
    return CallAll(op, {inputs.begin(), inputs.size()}, attrs)[0];
  }

  // The gradient of a number by `v` is dy; of several for one value, the sum.
  void Seed(Var v, Value dy);
  // Gives it for the inputs: call once, after all seeds.
  void GoBack();
  // Empty: zero.
  const Value& GradientOf(Var v) const {
    return vars_[static_cast<size_t>(v)].gradient;
  }

 private:
  struct Entry {
    Value value, gradient;
    bool needed = false;  // depends on an input
  };
  struct Step {
    const OpDef* op;
    ParamsRef params;
    std::vector<Var> inputs;
    Var first;  // its outputs are numbered from here
    int count;
  };

  Var Add(Value v, bool needed);
  void GoBack(const Step& step);

  std::vector<Entry> vars_;
  std::vector<Step> steps_;
};

}  // namespace plait

#endif  // PLAIT_OPS_COMPOSITION_H_
