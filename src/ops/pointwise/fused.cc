// _fused: a program of pointwise steps as one operator; graphs make it.

#include "graph/fused.h"

#include "cpu/pointwise.h"

namespace plait {
namespace {

using P = FusedParams;

int CountOutputs(const P& p) {
  return p.CountOutputs();
}

void InferTypes(const P& p, Specs& in, Specs& out) {
  for (int i = 0; i < p.program.num_inputs && i < static_cast<int>(in.size()); ++i) {
    if (in[i].dtype == DType::kUnknown) in[i].dtype = p.program.inputs[i];
    Check(in[i].dtype == p.program.inputs[i], ErrorKind::kType, "_fused: input ", i,
          " is ", in[i].dtype, "; ", p.program.inputs[i], " was expected");
  }
  for (int i = 0; i < p.CountOutputs(); ++i)
    out[i].dtype = p.program.DTypeOfArg(p.program.outputs[i]);
  if (p.reduction) out[p.CountOutputs() - 1].dtype = p.reduction->dtype;
}

bool Infer(const P& p, Specs& in, Specs& out) {
  Shape space = in[0].shape;
  for (const Spec& x : in) {
    if (!x.shape.known()) return true;
    space = Broadcast(space, x.shape, "_fused");
  }
  if (p.space.known()) space = p.space;
  const size_t stored = out.size() - (p.reduction ? 1 : 0);
  for (size_t i = 0; i < stored; ++i) {
    if (!Unify(out[i].shape, space)) return false;
  }
  return true;
}

void Run(const P& p, const KernelArgs& args) {
  SmallVector<cpu::PointwiseInput, 8> inputs;
  SmallVector<void*, 4> outputs;
  for (const View& x : args.in) inputs.push_back({x.ptr, x.sizes});
  for (const View& y : args.out) outputs.push_back(y.ptr);
  for (int i : p.updates) outputs.push_back(args.in[i].ptr);
  if (p.reduction) {
    void* result = outputs.back();
    outputs.pop_back();
    cpu::ReducePointwise(p.program, p.space, inputs, outputs, *p.reduction, result);
    return;
  }
  const Shape& space =
      args.out.empty() ? args.in[p.updates[0]].shape() : args.out[0].shape();
  cpu::RunPointwise(p.program, space, inputs, outputs);
}

// 2 x + 1
P Sample() {
  P p;
  const Pw x(&p.program, {PointwiseArg::kInput, 0}, DType::kFloat32);
  p.program.num_inputs = 1;
  p.program.inputs[0] = DType::kFloat32;
  const Pw y = x * 2 + 1;
  p.program.outputs[p.program.num_outputs++] = y.arg();
  return p;
}

[[maybe_unused]] const OpDef& fused = Register<P>({
    .name = "_fused",
    .doc = "A group of pointwise operators in one pass over memory.",
    .inputs = {{"data", Types::kAny, "What the program reads; they broadcast."}},
    .defaults = Sample(),
    .variable_inputs = true,
    .num_outputs = CountOutputs,
    .types = InferTypes,
    .infer = Infer,
    .cpu = {{"tiles", Run}},
    .samples = {{{Normal({3, 4})}, Sample()}},
});

}  // namespace
}  // namespace plait
