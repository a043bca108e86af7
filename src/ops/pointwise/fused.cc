// _fused: a program of pointwise steps as one operator; graphs make it.

#include "graph/fused.h"

#include "cpu/pointwise.h"
#include "graph/piece_form.h"

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

// Inputs that stretch along axis 0 are read whole. A sum over it adds up.
std::optional<PieceForm> InPieces(const ParamsRef& params, const Specs& in,
                                  const Specs& out, int64_t samples) {
  P p = *static_cast<const P*>(params->get());
  if (!p.updates.empty() || out.empty() || out.size() > 31 || in.size() > 31) return {};
  const Shape& space = p.space.known() ? p.space : out[0].shape;
  PieceForm form{.sliced_out = (1u << out.size()) - 1};
  if (p.reduction) {
    const PointwiseReduction& r = *p.reduction;
    const bool precise = r.dtype == DType::kFloat32 || r.dtype == DType::kFloat64;
    if (!precise || r.kind != Reduction::kSum || r.root || !(r.axes & 1)) return {};
    form.sliced_out >>= 1;
  }
  if (space.rank() == 0) return {};
  for (size_t i = 0; i < in.size(); ++i) {
    const Shape& x = in[i].shape;
    if (x.rank() == space.rank() && x[0] == space[0]) form.sliced_in |= 1u << i;
  }
  if (p.space.known()) p.space[0] = samples;
  form.params = MakeParams(std::move(p));
  return form;
}
[[maybe_unused]] const bool kPieces = [] {
  AddPieceRule("_fused", InPieces);
  return true;
}();

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
