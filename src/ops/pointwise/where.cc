// where: chooses between two arrays element by element, or row by row.

#include "cpu/pointwise.h"
#include "ops/gradients.h"
#include "ops/infer.h"

namespace plait {
namespace {

using None = NoParams;

// The branches share a dtype, which the condition need not have.
void WhereTypes(const None&, Specs& in, Specs& out) {
  const DType x = in[1].dtype, y = in[2].dtype;
  DType branch = x == DType::kUnknown ? y : y == DType::kUnknown ? x : Promote(x, y);
  if (branch == DType::kUnknown) branch = out[0].dtype;
  for (Spec* s : {&in[1], &in[2], &out[0]})
    if (s->dtype == DType::kUnknown) s->dtype = branch;
}

// A condition of one axis beside branches of more selects whole rows.
bool SelectsRows(const Specs& in) {
  return in[0].shape.rank() == 1 && in[1].shape.rank() > 1;
}

// As MXNet: nothing follows before the condition is known, whose rank decides.
bool InferWhere(const None&, Specs& in, Specs& out) {
  if (!in[0].shape.known()) return true;
  for (int round = 0; round < 2; ++round) {
    for (Spec* s : {&in[1], &in[2]})
      if (!Unify(s->shape, out[0].shape)) return false;
  }
  Shape& condition = in[0].shape;
  const Shape& x = out[0].shape;
  if (!condition.rank_known() || !x.rank_known()) return true;
  if (!SelectsRows(in)) return Unify(condition, out[0].shape);
  Shape rows{condition[0]}, first{x[0]};
  const bool same = Unify(rows, first);
  Check(same, "where: a condition of ", condition[0], " rows does not fit x of shape ",
        x, "; x.shape[0] or the whole shape of x was expected");
  condition = rows;
  return true;
}

void ApplyWhere(const None&, PwCall& c) {
  c.Return(where(c.in(0), c.in(1), c.in(2)));
}

const char* DeclinesRows(const None&, const Specs& in, const Specs&) {
  return SelectsRows(in) ? nullptr : "the condition has the shape of x: fused";
}

void RunRows(const None&, const KernelArgs& args) {
  const Shape& space = args.out[0].shape();
  Shape condition = Shape::Filled(space.rank(), 1);
  condition[0] = space[0];
  PointwiseProgram program;
  program.num_inputs = 3;
  Pw in[3];
  for (uint8_t i = 0; i < 3; ++i) {
    program.inputs[i] = args.in[i].dtype;
    in[i] = Pw(&program, {PointwiseArg::kInput, i}, args.in[i].dtype);
  }
  const Pw y = Cast(where(in[0], in[1], in[2]), args.out[0].dtype);
  program.num_outputs = 1;
  program.outputs[0] = y.arg();
  const cpu::PointwiseInput inputs[] = {{args.in[0].ptr, &condition},
                                        {args.in[1].ptr, args.in[1].sizes},
                                        {args.in[2].ptr, args.in[2].sizes}};
  void* const outputs[] = {args.out[0].ptr};
  cpu::RunPointwise(program, space, inputs, outputs);
}

Values WhereGradient(const None&, const GradArgs& g) {
  const Value& condition = g.in(0);
  const Value dy = g.dout(0), none = zeros_like(dy);
  return {Value(),
          g.wants(1) ? FitDType(Make("where", {condition, dy, none}), g.in_spec(1))
                     : Value(),
          g.wants(2) ? FitDType(Make("where", {condition, none, dy}), g.in_spec(2))
                     : Value()};
}

[[maybe_unused]] const OpDef& where_op = Register<None>({
    .name = "where",
    .aliases = {"_sparse_where"},
    .doc = "x where the condition is not 0, else y; a condition of one axis selects "
           "rows.",
    .inputs = {{"condition", Types::kAny, "Of the shape of x, or of its first axis."},
               {"x", Types::kAny, "Taken where the condition holds."},
               {"y", Types::kAny, "Taken elsewhere; of the shape of x."}},
    .types = WhereTypes,
    .infer = InferWhere,
    .gradient = WhereGradient,
    .uses = {.in = 1},
    .pointwise = ApplyWhere,
    .cpu = {{"rows", RunRows, DeclinesRows}},
    .samples = {{{Integers({2, 3}, 0, 2), Normal({2, 3}), Normal({2, 3})}},
                {{Integers({4}, 0, 2), Normal({4, 3}), Normal({4, 3})}},
                {{Integers({0, 3}, 0, 2), Normal({0, 3}), Normal({0, 3})}}},
});

}  // namespace
}  // namespace plait
