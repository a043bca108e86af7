// ReduceInto: builds the program and converts the result.

#include "ops/reduce/kernel.h"

#include "cpu/pointwise.h"
#include "cpu/scratch.h"
#include "ops/reduce/axes.h"

namespace plait {

void ReduceInto(std::initializer_list<ReduceInput> inputs, ReduceExpression expression,
                Reduction reduction, uint64_t mask, double scale, void* y,
                DType dtype) {
  // Kept from call to call: clearing all of a program costs more than a small
  // reduction.
  thread_local PointwiseProgram program;
  program.num_inputs = program.num_constants = program.num_steps = 0;
  SmallVector<cpu::PointwiseInput, 4> data;
  SmallVector<Pw, 4> values;
  for (const ReduceInput& input : inputs) {
    const uint8_t i = program.num_inputs++;
    program.inputs[i] = input.dtype;
    data.push_back({input.data, input.shape});
    values.push_back(Pw(&program, {PointwiseArg::kInput, i}, input.dtype));
  }
  const Pw value = expression(values);
  program.num_outputs = 1;
  program.outputs[0] = value.arg();
  const Shape& space = *inputs.begin()->shape;
  if (value.dtype() == dtype) {
    cpu::ReducePointwise(program, space, data, reduction, mask, scale, y);
    return;
  }
  const int64_t n = ReducedShape(space, mask, true).size();
  cpu::Scratch wide(n * SizeOf(value.dtype()));
  cpu::ReducePointwise(program, space, data, reduction, mask, scale, wide.As<void>());
  cpu::Convert(wide.As<void>(), value.dtype(), y, dtype, n);
}

}  // namespace plait
