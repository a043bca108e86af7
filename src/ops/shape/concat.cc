// Concat, _rnn_param_concat, stack: arrays joined along an axis.

#include "graph/blocked_form.h"
#include "ops/gradients.h"
#include "ops/shape/copy.h"
#include "ops/shape/slices.h"

namespace plait {
namespace {

struct ConcatParams {
  int num_args = 0;
  int dim = 1;
};

void CheckCount(int num_args, size_t given, const char* op) {
  Check(given > 0, op, ": no array was given; at least one was expected");
  Check(num_args == 0 || static_cast<size_t>(num_args) == given, op, ": ", given,
        " arrays were given; num_args = ", num_args, " were expected");
}

// All arrays agree but along `dim`, where the sizes add up; one unknown size follows
// from the others and the result.
bool InferConcat(const ConcatParams& p, Specs& in, Specs& out) {
  CheckCount(p.num_args, in.size(), "Concat");
  Shape& y = out[0].shape;
  int rank = y.rank();
  for (const Spec& s : in)
    if (s.shape.rank_known()) rank = s.shape.rank();
  if (rank < 0) return true;
  Check(rank > 0, "Concat: scalars were given; at least one axis was expected");
  const int dim = NormalizeAxis(p.dim, rank, "Concat");
  Shape common = Shape::Filled(rank, kUnknownSize);
  const auto meet = [&](Shape& s) {
    if (!s.rank_known()) s = Shape::Filled(rank, kUnknownSize);
    if (s.rank() != rank) return false;
    const int64_t own = s[dim];
    s[dim] = common[dim];
    const bool fits = Unify(s, common);
    s[dim] = own;
    return fits;
  };
  for (int round = 0; round < 2; ++round) {
    if (!meet(y)) return false;
    for (Spec& s : in)
      if (!meet(s.shape)) return false;
  }
  int64_t sum = 0;
  int64_t* unknown = nullptr;
  int unknowns = 0;
  for (Spec& s : in) {
    if (s.shape[dim] == kUnknownSize) {
      unknown = &s.shape[dim];
      ++unknowns;
    } else {
      sum += s.shape[dim];
    }
  }
  if (unknowns == 1 && y[dim] != kUnknownSize) *unknown = y[dim] - sum;
  if (unknowns > 0) return true;
  if (y[dim] == kUnknownSize) y[dim] = sum;
  return y[dim] == sum;
}

// Two unknown pieces are those of both directions of a layer, and equal.
bool InferRnnConcat(const ConcatParams& p, Specs& in, Specs& out) {
  if (!InferConcat(p, in, out)) return false;
  const Shape& y = out[0].shape;
  if (y.rank() != 1 || y[0] == kUnknownSize) return true;
  int64_t rest = y[0];
  SmallVector<int64_t*, 4> unknown;
  for (Spec& s : in) {
    if (s.shape[0] == kUnknownSize)
      unknown.push_back(&s.shape[0]);
    else
      rest -= s.shape[0];
  }
  if (unknown.size() != 2) return true;
  if (rest < 0 || rest % 2 != 0) return false;
  for (int64_t* size : unknown) *size = rest / 2;
  return true;
}

void RunConcat(const ConcatParams& p, const KernelArgs& args) {
  const View& y = args.out[0];
  const int rank = y.shape().rank(), dim = NormalizeAxis(p.dim, rank, "Concat");
  const int64_t outer = y.shape().size(0, dim);
  const int64_t row = y.shape().size(dim, rank);
  int64_t offset = 0;
  for (const View& x : args.in) {
    const int64_t n = x.shape().size(dim, rank);
    cpu::CopyStrided({outer, n}, At(y, offset), {row, 1}, x.ptr, {n, 1},
                     SizeOf(y.dtype));
    offset += n;
  }
}

Values ConcatGradient(const ConcatParams& p, const GradArgs& g) {
  const int rank = g.out_spec(0).shape.rank(),
            dim = NormalizeAxis(p.dim, rank, "Concat");
  Values dx;
  int64_t offset = 0;
  for (int i = 0; i < g.num_inputs(); ++i) {
    const int64_t n = g.in_spec(i).shape[dim];
    dx.push_back(g.wants(i)
                     ? slice(g.dout(0), SliceOfAxis(rank, dim, offset, offset + n))
                     : Value());
    offset += n;
  }
  return dx;
}

OpSpec<ConcatParams> ConcatSpec(const char* name, const char* doc) {
  return {
      .name = name,
      .doc = doc,
      .inputs = {{"data", Types::kAny, "Arrays of equal shape but along dim."}},
      .params = {{"num_args", &ConcatParams::num_args, "How many arrays there are."},
                 {"dim", &ConcatParams::dim, "The axis along which they are joined."}},
      .variable_inputs = true,
      .count_param = "num_args",
      .infer = InferConcat,
      .gradient = ConcatGradient,
      .cpu = {{"plain", RunConcat}},
      .samples = {{{Normal({2, 3}), Normal({2, 1})}},
                  {{Normal({2, 3}), Normal({1, 3}), Normal({3, 3})}, {.dim = 0}},
                  {{Normal({2, 3, 2}), Normal({2, 3, 1})}, {.dim = -1}},
                  {{Normal({2, 0}), Normal({2, 2})}},
                  {{Normal({2, 2})}}},
  };
}

// Whole blocks are joined as single channels are.
std::optional<BlockedForm> BlockedConcat(const void* params, const Specs& in,
                                         const Specs&, int64_t block) {
  const auto& p = *static_cast<const ConcatParams*>(params);
  if (p.dim != 1 || in.size() > 31) return {};
  for (const Spec& s : in) {
    if (s.shape.rank() != 4 || !IsBlockedType(s.dtype) || s.shape.size() == 0 ||
        s.shape[1] % block != 0)
      return {};
  }
  return BlockedForm{.op = &GetOp("Concat"),
                     .params = MakeParams(ConcatParams(p)),
                     .blocked_in = (1u << in.size()) - 1,
                     .blocked_out = 1};
}

[[maybe_unused]] const bool kConcatAdded = [] {
  OpSpec<ConcatParams> concat =
      ConcatSpec("Concat", "Joins arrays along an existing axis.");
  concat.aliases = {"_sparse_concat", "concat"};
  Register(concat);
  AddBlockedRule("Concat", BlockedConcat);
  OpSpec<ConcatParams> rnn = ConcatSpec(
      "_rnn_param_concat", "Joins the parameters of a recurrent layer to one vector.");
  rnn.aliases = {"_npi_rnn_param_concat"};
  rnn.infer = InferRnnConcat;
  Register(rnn);
  return true;
}();

struct StackParams {
  int axis = 0;
  int num_args = 0;
};

bool InferStack(const StackParams& p, Specs& in, Specs& out) {
  CheckCount(p.num_args, in.size(), "stack");
  Shape one = Shape::Unknown();
  if (out[0].shape.rank() > 0) {
    one = out[0].shape;
    one.Erase(NormalizeAxis(p.axis, one.rank(), "stack"));
  }
  for (int round = 0; round < 2; ++round) {
    for (Spec& s : in)
      if (!Unify(s.shape, one)) return false;
  }
  if (!one.rank_known()) return true;
  Shape y = one;
  y.Insert(NormalizeAxis(p.axis, one.rank() + 1, "stack"),
           static_cast<int64_t>(in.size()));
  return Unify(y, out[0].shape);
}

void RunStack(const StackParams& p, const KernelArgs& args) {
  const View& y = args.out[0];
  const int rank = y.shape().rank(), axis = NormalizeAxis(p.axis, rank, "stack");
  const int64_t outer = y.shape().size(0, axis);
  const int64_t n = y.shape().size(axis + 1, rank);
  const int64_t row = n * static_cast<int64_t>(args.in.size());
  for (size_t i = 0; i < args.in.size(); ++i) {
    cpu::CopyStrided({outer, n}, At(y, static_cast<int64_t>(i) * n), {row, 1},
                     args.in[i].ptr, {n, 1}, SizeOf(y.dtype));
  }
}

Values StackGradient(const StackParams& p, const GradArgs& g) {
  const int rank = g.out_spec(0).shape.rank(),
            axis = NormalizeAxis(p.axis, rank, "stack");
  Values dx;
  for (int i = 0; i < g.num_inputs(); ++i) {
    if (!g.wants(i)) {
      dx.push_back(Value());
      continue;
    }
    const Value part = slice(g.dout(0), SliceOfAxis(rank, axis, i, i + 1));
    dx.push_back(reshape(part, g.in_spec(i).shape));
  }
  return dx;
}

[[maybe_unused]] const OpDef& stack = Register<StackParams>({
    .name = "stack",
    .doc = "Joins arrays of one shape along a new axis.",
    .inputs = {{"data", Types::kAny, "Arrays of one shape."}},
    .params = {{"axis", &StackParams::axis, "Where the new axis stands."},
               {"num_args", &StackParams::num_args, "How many arrays there are."}},
    .variable_inputs = true,
    .count_param = "num_args",
    .infer = InferStack,
    .gradient = StackGradient,
    .cpu = {{"plain", RunStack}},
    .samples = {{{Normal({2, 3}), Normal({2, 3})}},
                {{Normal({2, 3}), Normal({2, 3}), Normal({2, 3})}, {.axis = 1}},
                {{Normal({4}), Normal({4})}, {.axis = -1}},
                {{Normal({0}), Normal({0})}}},
});

}  // namespace
}  // namespace plait
