// Value and math: applying operators by name, and the helpers that gradients share.

#include "graph/value.h"

#include "graph/math.h"

namespace plait {
namespace {

Invoker* the_invoker = nullptr;

}  // namespace

void SetInvoker(Invoker* invoker) {
  the_invoker = invoker;
}

Values Apply(const OpDef& op, const ParamsRef& params, std::span<const Value> inputs) {
  return the_invoker->Invoke(op, params ? params : op.defaults, inputs);
}

Value ApplyOne(const OpDef& op, const ParamsRef& params,
               std::span<const Value> inputs) {
  return Apply(op, params, inputs)[0];
}

Value GradArgs::dout(int i) const {
  if (head_gradients[i]) return head_gradients[i];
  return zeros(output_specs[i]);
}

}  // namespace plait
