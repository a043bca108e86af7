// Reductions: building the program for arrays that are stored.

#include "ops/reduce/kernel.h"

#include "cpu/pointwise.h"

namespace plait {
namespace {

// Kept from call to call: clearing all of a program costs more than a small reduction.
PointwiseProgram& EmptyProgram() {
  thread_local PointwiseProgram program;
  program.num_inputs = program.num_constants = program.num_steps = 0;
  program.num_outputs = 1;
  return program;
}

}  // namespace

void ReduceInto(std::initializer_list<ReduceInput> inputs, ReduceExpression expression,
                Reduction reduction, uint64_t mask, double scale, void* y,
                DType dtype) {
  PointwiseProgram& program = EmptyProgram();
  SmallVector<cpu::PointwiseInput, 4> data;
  SmallVector<Pw, 4> values;
  for (const ReduceInput& input : inputs) {
    const uint8_t i = program.num_inputs++;
    program.inputs[i] = input.dtype;
    data.push_back({input.data, input.shape});
    values.push_back(Pw(&program, {PointwiseArg::kInput, i}, input.dtype));
  }
  const Pw value = expression(values);
  program.outputs[0] = value.arg();
  PointwiseReduction r;
  r.kind = reduction;
  r.axes = mask;
  r.scale = scale;
  r.dtype = dtype;
  cpu::ReducePointwise(program, *inputs.begin()->shape, data, {}, r, y);
}

void RunReduction(const View& x, const View& y,
                  Pw (*reduce)(const void*, const Pw&, const Shape&,
                               PointwiseReduction&),
                  const void* params) {
  PointwiseProgram& program = EmptyProgram();
  program.num_inputs = 1;
  program.inputs[0] = x.dtype;
  PointwiseReduction r;
  r.dtype = y.dtype;
  const Pw value =
      reduce(params, Pw(&program, {PointwiseArg::kInput, 0}, x.dtype), x.shape(), r);
  program.outputs[0] = value.arg();
  const cpu::PointwiseInput input{x.ptr, x.sizes};
  cpu::ReducePointwise(program, x.shape(), {&input, 1}, {}, r, y.ptr);
}

}  // namespace plait
