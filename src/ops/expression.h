// Runs a pointwise expression inside a kernel, in one pass over memory.
//
// For operators that are pointwise for some of their parameters, or over several groups
// of arrays of different shapes (the multi-tensor updates of optimizers).

#ifndef PLAIT_OPS_EXPRESSION_H_
#define PLAIT_OPS_EXPRESSION_H_

#include <span>

#include "cpu/pointwise.h"
#include "graph/op.h"

namespace plait {

// Calls build(PwCall&) with one Pw for each of `in`, then computes what it returned
// into `out`, and what it updated into the memory of those inputs. Inputs broadcast to
// `space`; outputs and updated inputs have that shape.
template <typename F>
void RunExpression(std::span<const View> in, std::span<const View> out,
                   const Shape& space, F&& build) {
  PointwiseProgram program;
  SmallVector<Pw, 8> values;
  SmallVector<cpu::PointwiseInput, 8> inputs;
  for (const View& v : in) {
    const auto index = program.num_inputs++;
    program.inputs[index] = v.dtype;
    values.push_back(Pw(&program, {PointwiseArg::kInput, index}, v.dtype));
    inputs.push_back({v.ptr, v.sizes});
  }
  PwCall call(values);
  build(call);
  SmallVector<void*, 8> outputs;
  for (size_t i = 0; i < call.outputs.size(); ++i) {
    program.outputs[program.num_outputs++] = call.outputs[i].arg();
    outputs.push_back(out[i].ptr);
  }
  for (const PwCall::InputUpdate& u : call.updates) {
    program.outputs[program.num_outputs++] = u.value.arg();
    outputs.push_back(in[u.input].ptr);
  }
  cpu::RunPointwise(program, space, inputs, outputs);
}

}  // namespace plait

#endif  // PLAIT_OPS_EXPRESSION_H_
