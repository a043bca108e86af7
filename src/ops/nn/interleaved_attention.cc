// Attention on interleaved projections, without an array of weights.
//
// Queries, keys and values lie side by side for each head: (length, batch, heads * 3 *
// size); or queries alone, with keys and values of another sequence, (length, batch,
// heads * 2 * size). Rows are read and gradients written where they lie. What
// _contrib_interleaved_matmul_* compute with a softmax between becomes this operator
// (passes/attention.h).

#include <cmath>

#include "ops/composition.h"
#include "ops/infer.h"
#include "ops/nn/attention.h"

namespace plait {
namespace {

struct P {
  int64_t heads = 1;
  bool self = true;
  double scale = 1;
  float dropout = 0;
  bool use_mask = false, use_length = false;

  int arrays() const { return self ? 1 : 2; }
  int parts() const { return self ? 3 : 2; }  // of the array with keys and values
  int mask() const { return arrays(); }
  int length() const { return arrays() + use_mask; }
  int inputs() const { return arrays() + use_mask + use_length; }
  bool Draws(bool training) const { return training && dropout > 0; }
};

std::vector<Param<P>> ParamList() {
  return {{"heads", &P::heads, "Number of heads."},
          {"self", &P::self, "One array with queries, keys and values; else two."},
          {"scale", &P::scale, "Of the scores."},
          {"dropout", &P::dropout, "In training, the chance of a weight to become 0."},
          {"use_mask", &P::use_mask, "Takes `mask`."},
          {"use_length", &P::use_length, "Takes `length`."}};
}

// ---------------------------------------------------------------- inference

void InferTypes(const P& p, const char* op, Specs& in) {
  for (int i = 1; i < p.arrays(); ++i) {
    UnifyDType(in[0].dtype, in[1].dtype);
    UnifyDType(in[1].dtype, in[0].dtype);
    Check(in[0].dtype == in[1].dtype, ErrorKind::kType, op, ": queries are ",
          in[0].dtype, ", keys and values ", in[1].dtype, "; one dtype was expected");
  }
  if (p.use_mask) UnifyDType(in[p.mask()].dtype, in[0].dtype);
  if (p.use_length && in[p.length()].dtype == DType::kUnknown)
    in[p.length()].dtype = DType::kFloat32;
}

DType Wide(DType dtype) {
  return dtype == DType::kFloat64 ? dtype : DType::kFloat32;
}

// REQUIRES: shapes of the arrays are known.
AttentionSizes SizesOf(const P& p, const Shape& q, const Shape& kv) {
  AttentionSizes s;
  s.batch = q[1];
  s.heads = p.heads;
  s.queries = q[0];
  s.keys = kv[0];
  s.size = s.value_size = kv[2] / (p.heads * p.parts());
  return s;
}

// False: shapes are not known yet.
bool InferInputs(const P& p, const char* op, Specs& in) {
  Check(p.heads > 0 && p.dropout >= 0 && p.dropout <= 1 && std::isfinite(p.scale), op,
        ": heads is ", p.heads, ", dropout ", p.dropout, " and scale ", p.scale,
        "; at least 1, a number in [0, 1] and a finite one were expected");
  const Shape &q = in[0].shape, &kv = in[p.arrays() - 1].shape;
  if (!q.known() || !kv.known()) return false;
  const int64_t width = p.heads * p.parts();
  bool fits = q.rank() == 3 && kv.rank() == 3 && kv[2] % width == 0 && q[1] == kv[1];
  fits = fits && (p.self || 2 * q[2] == kv[2]);
  Check(fits, op, ": arrays of shapes ", q, " and ", kv,
        " do not fit; (length, batch, ", p.heads, " heads * ", p.self ? 3 : 1,
        " * size)", p.self ? "" : " and twice ", " was expected");
  const AttentionSizes s = SizesOf(p, q, kv);
  if (p.use_mask) CheckAttentionMask(op, in[p.mask()].shape, s);
  if (p.use_length) CheckAttentionLength(op, in[p.length()].shape, s);
  return true;
}

constexpr const char* kName = "_interleaved_attention";

bool Infer(const P& p, Specs& in, Specs& out) {
  if (!InferInputs(p, kName, in)) return true;
  const AttentionSizes s = SizesOf(p, in[0].shape, in[p.arrays() - 1].shape);
  return Assign(out[0].shape, Shape{s.queries, s.batch, s.heads * s.size}) &&
         Assign(out[1].shape, Shape{s.batch, s.heads, s.queries}) &&
         Assign(out[2].shape, Shape{2});
}

// ---------------------------------------------------------------- kernels

// Part `index` of `parts` in an interleaved array.
cpu::AttentionRows RowsOf(const View& x, int64_t heads, int64_t parts, int64_t index) {
  const Shape& s = x.shape();
  const int64_t size = s[2] / (heads * parts);
  char* data =
      static_cast<char*>(x.ptr) + index * size * static_cast<int64_t>(SizeOf(x.dtype));
  return {data, s[2], parts * size, s[1] * s[2]};
}

cpu::AttentionProblem ProblemOf(const P& p, std::span<const View> in,
                                std::vector<int64_t>& lengths) {
  const View &q = in[0], &kv = in[p.arrays() - 1];
  const AttentionSizes s = SizesOf(p, q.shape(), kv.shape());
  cpu::AttentionProblem problem{s.batch, s.heads, s.queries,
                                s.keys,  s.size,  s.value_size};
  problem.dtype = q.dtype;
  problem.q = RowsOf(q, p.heads, p.self ? 3 : 1, 0);
  problem.k = RowsOf(kv, p.heads, p.parts(), p.parts() - 2);
  problem.v = RowsOf(kv, p.heads, p.parts(), p.parts() - 1);
  problem.scale = p.scale;
  SetMaskAndLengths(problem, p.use_mask ? &in[p.mask()] : nullptr,
                    p.use_length ? &in[p.length()] : nullptr, lengths);
  return problem;
}

void Forward(const P& p, const KernelArgs& args) {
  std::vector<int64_t> lengths;
  cpu::AttentionProblem problem = ProblemOf(p, args.in, lengths);
  auto* stream = args.out[2].data<uint64_t>();
  stream[0] = stream[1] = 0;
  if (p.Draws(args.training)) {
    problem.dropout = static_cast<double>(p.dropout);
    problem.random = args.random;
    stream[0] = args.random.seed;
    stream[1] = args.random.offset;
  }
  cpu::AttentionForward(problem, RowsOf(args.out[0], p.heads, 1, 0), args.out[1].ptr);
}

void Backward(const P& p, const KernelArgs& args) {
  std::vector<int64_t> lengths;
  cpu::AttentionProblem problem = ProblemOf(p, args.in, lengths);
  const View* rest = args.in.data() + p.inputs();  // y, log_sums, stream, dy
  problem.dropout = static_cast<double>(p.dropout);
  const auto* stream = rest[2].data<uint64_t>();
  problem.random = {stream[0], stream[1]};
  const View &dq = args.out[0], &dkv = args.out[p.arrays() - 1];
  cpu::AttentionBackward(problem, RowsOf(rest[0], p.heads, 1, 0), rest[1].ptr,
                         RowsOf(rest[3], p.heads, 1, 0),
                         RowsOf(dq, p.heads, p.self ? 3 : 1, 0),
                         RowsOf(dkv, p.heads, p.parts(), p.parts() - 2),
                         RowsOf(dkv, p.heads, p.parts(), p.parts() - 1));
}

// ---------------------------------------------------------------- gradients

double Cost(const P& p, const Specs& in, const Specs&) {
  const AttentionSizes s = SizesOf(p, in[0].shape, in[p.arrays() - 1].shape);
  return 4 * static_cast<double>(s.batch * s.heads * s.queries) *
         static_cast<double>(s.keys * s.size);
}

Values Gradient(const P& p, const GradArgs& g);

SampleInput Given(Shape shape, std::vector<double> values,
                  DType dtype = DType::kFloat32) {
  SampleInput s = Numbers(std::move(shape), std::move(values));
  s.dtype = dtype;
  s.differentiable = false;
  return s;
}

[[maybe_unused]] const OpDef& attention = Register<P>({
    .name = kName,
    .doc = "Attention on interleaved projections: values added up by the softmax of "
           "scaled products of queries and keys. Queries that see no key give 0. A "
           "mask has no gradient.",
    .inputs = {{"queries", Types::kFloats,
                "(length, batch, heads * size), or with `self` queries, keys and "
                "values, (length, batch, heads * 3 * size)."},
               {"keys_values", Types::kAny,
                "(length of the other, batch, heads * 2 * size)."},
               {"mask", Types::kAny, "As in dot_product_attention."},
               {"length", Types::kAny, "As in dot_product_attention."}},
    .outputs = {{"output", Types::kFloats, "(length, batch, heads * size)."},
                {"log_sums", Types::kFloats, "As in dot_product_attention."},
                {"stream", Types::kAny, "As in dot_product_attention."}},
    .params = ParamList(),
    .optional_inputs = [](const P& p) -> std::vector<bool> {
      return {true, !p.self, p.use_mask, p.use_length};
    },
    .visible_outputs = [](const P&) { return 1; },
    .types =
        [](const P& p, Specs& in, Specs& out) {
          UnifyDType(in[0].dtype, out[0].dtype);
          InferTypes(p, kName, in);
          UnifyDType(out[0].dtype, in[0].dtype);
          if (in[0].dtype != DType::kUnknown) out[1].dtype = Wide(in[0].dtype);
          out[2].dtype = DType::kUint64;
        },
    .infer = Infer,
    .gradient = Gradient,
    .uses = {.in = 0b1111, .out = 0b111},
    .cpu = {{"blocks", Forward}},
    .random = true,
    .draws = [](const P& p, bool training) { return p.Draws(training); },
    .uses_training = true,
    .cost = Cost,
    .samples = {{{Normal({3, 2, 12})}, {.heads = 2, .scale = 0.7}},
                {{Normal({3, 2, 4}), Normal({4, 2, 8}), Given({2}, {4, 2})},
                 {.heads = 2, .self = false, .use_length = true}},
                {{Normal({3, 1, 12}),
                  Given({3, 3}, {1, 0, 0, 1, 1, 0, 0, 1, 1}, DType::kInt32)},
                 {.heads = 2, .dropout = 0.4f, .use_mask = true},
                 true}},
});

// ---------------------------------------------------------------- and their gradient

constexpr const char* kBackward = "_backward_interleaved_attention";

void InferBackwardTypes(const P& p, Specs& in, Specs& out) {
  InferTypes(p, kBackward, in);
  Spec* rest = in.data() + p.inputs();
  const DType all = in[0].dtype;
  DType expected[] = {all, all == DType::kUnknown ? all : Wide(all), DType::kUint64,
                      all};
  for (int i = 0; i < 4; ++i) {
    UnifyDType(rest[i].dtype, expected[i]);
    Check(rest[i].dtype == expected[i], ErrorKind::kType, kBackward, ": array ",
          p.inputs() + i, " is ", rest[i].dtype, "; ", expected[i], " was expected");
  }
  for (int i = 0; i < p.arrays(); ++i) out[i].dtype = all;
}

bool InferBackward(const P& p, Specs& in, Specs& out) {
  if (!InferInputs(p, kBackward, in)) return true;
  const AttentionSizes s = SizesOf(p, in[0].shape, in[p.arrays() - 1].shape);
  Spec* rest = in.data() + p.inputs();
  for (int i = 0; i < p.arrays(); ++i)
    if (!Unify(out[i].shape, in[i].shape)) return false;
  return Assign(rest[0].shape, Shape{s.queries, s.batch, s.heads * s.size}) &&
         Assign(rest[1].shape, Shape{s.batch, s.heads, s.queries}) &&
         Assign(rest[2].shape, Shape{2}) && Unify(rest[3].shape, rest[0].shape);
}

using Var = Composition::Var;

// The parts of an interleaved array as (length, batch, heads, size) each.
std::vector<Var> PartsOf(Composition& c, Var x, int64_t heads, int64_t parts) {
  const Shape s = c.shape(x);
  const Shape each{s[0], s[1], heads, s[2] / (heads * parts)};
  if (parts == 1) return {c.Call("_reshape_to", {x}, {{"shape", Attr(each)}})};
  const Var rows = c.Call("_reshape_to", {x},
                          {{"shape", Attr(Shape{s[0], s[1], heads, parts, each[3]})}});
  return c.CallAll(
      "SliceChannel", {&rows, 1},
      {{"axis", Attr(3)}, {"num_outputs", Attr(parts)}, {"squeeze_axis", Attr(true)}});
}

// Arrays (length, batch, heads, size) side by side, as `shape`.
Var Interleave(Composition& c, std::span<const Var> parts, const Shape& shape) {
  Var all = parts[0];
  if (parts.size() > 1) {
    const auto count = static_cast<int64_t>(parts.size());
    all = c.CallAll("stack", parts, {{"axis", Attr(3)}, {"num_args", Attr(count)}})[0];
  }
  return c.Call("_reshape_to", {all}, {{"shape", Attr(shape)}});
}

// By the gradient of attention on arrays of their own.
Values SecondGradient(const P& p, const GradArgs& g) {
  Composition c;
  const int first = p.inputs(), dy = first + 3;
  const Var q = c.Input(g.in(0)), kv = p.self ? q : c.Input(g.in(1));
  const Var head = c.Input(g.in(dy));
  std::vector<Var> in = PartsOf(c, q, p.heads, p.self ? 3 : 1);
  if (!p.self) {
    for (Var v : PartsOf(c, kv, p.heads, 2)) in.push_back(v);
  }
  for (int i = p.arrays(); i < first; ++i) in.push_back(c.Constant(g.in(i)));
  const auto rows = [&](Var v) { return PartsOf(c, v, p.heads, 1)[0]; };
  in.push_back(rows(c.Constant(g.in(first))));
  in.push_back(c.Constant(g.in(first + 1)));
  in.push_back(c.Constant(g.in(first + 2)));
  in.push_back(rows(head));
  const std::vector<Var> d =
      c.CallAll("_backward_dot_product_attention", in,
                {{"scale", Attr(p.scale)},
                 {"dropout", Attr(static_cast<double>(p.dropout))},
                 {"layout", Attr("TBHD")},
                 {"use_mask", Attr(p.use_mask)},
                 {"use_length", Attr(p.use_length)}});
  const std::span<const Var> all = d;
  if (p.self) {
    c.Seed(Interleave(c, all, c.shape(q)), g.dout(0));
  } else {
    if (g.has_dout(0)) c.Seed(Interleave(c, all.first(1), c.shape(q)), g.dout(0));
    if (g.has_dout(1)) c.Seed(Interleave(c, all.last(2), c.shape(kv)), g.dout(1));
  }
  c.GoBack();
  Values dx(static_cast<size_t>(g.num_inputs()));
  dx[0] = c.GradientOf(q);
  if (!p.self) dx[1] = c.GradientOf(kv);
  dx[static_cast<size_t>(dy)] = c.GradientOf(head);
  return dx;
}

const OpDef& backward = Register<P>({
    .name = kBackward,
    .doc = "The gradients of attention by its interleaved arrays.",
    .inputs = {{"queries", Types::kFloats},
               {"keys_values", Types::kAny},
               {"mask", Types::kAny},
               {"length", Types::kAny},
               {"y"},
               {"log_sums"},
               {"stream"},
               {"dy"}},
    .outputs = {{"dqueries", Types::kFloats}, {"dkeys_values", Types::kFloats}},
    .params = ParamList(),
    .optional_inputs = [](const P& p) -> std::vector<bool> {
      return {true, !p.self, p.use_mask, p.use_length, true, true, true, true};
    },
    .num_outputs = [](const P& p) { return p.arrays(); },
    .types = InferBackwardTypes,
    .infer = InferBackward,
    .gradient = SecondGradient,
    .uses = {.in = kAll},
    .cpu = {{"blocks", Backward}},
    .cost = [](const P& p, const Specs& in,
               const Specs& out) { return 2.5 * Cost(p, in, out); },
    // Queries of zeros see both keys alike, so that y and log_sums are known.
    .samples = {{{Given({2, 1, 6}, {0, 0, 1, 2, 1, 2, 0, 0, -1, 3, 3, 5}),
                  Given({2, 1, 2}, {2, 3.5, 2, 3.5}), Given({1, 1, 2}, {1, 1}),
                  Given({2}, {0, 0}, DType::kUint64),
                  Given({2, 1, 2}, {1, -1, 2, 0.5})}}},
});

Values Gradient(const P& params, const GradArgs& g) {
  P p = params;
  if (!p.Draws(g.training)) p.dropout = 0;
  Check(!p.use_mask || !g.wants(p.mask()), ErrorKind::kNotImplemented, kName,
        ": a gradient by the mask is wanted; it has none");
  std::vector<Value> in;
  for (int i = 0; i < g.num_inputs(); ++i) in.push_back(g.in(i));
  for (int i = 0; i < 3; ++i) in.push_back(g.out(i));
  in.push_back(g.dout(0));
  const int arrays = p.arrays();
  const Values found = Apply(backward, MakeParams(std::move(p)), in);
  Values dx(static_cast<size_t>(g.num_inputs()));
  for (int i = 0; i < arrays; ++i) dx[i] = found[i];
  return dx;
}

}  // namespace
}  // namespace plait
