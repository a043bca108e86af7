// Attention as one operator: softmax(scale q k^T + mask) v, without an array of
// weights.

#include <algorithm>

#include "graph/math.h"
#include "ops/gradients.h"
#include "ops/infer.h"
#include "ops/nn/attention.h"

namespace plait {
namespace {

using P = AttentionParams;
constexpr const char* kName = "dot_product_attention";

bool Draws(const P& p, bool training) {
  return training && p.dropout > 0;
}

DType Wide(DType dtype) {
  return dtype == DType::kFloat64 ? dtype : DType::kFloat32;
}

void InferTypes(const P& p, Specs& in, Specs& out) {
  UnifyDType(in[0].dtype, out[0].dtype);
  InferAttentionTypes(p, kName, in);
  UnifyDType(out[0].dtype, in[0].dtype);
  if (in[0].dtype != DType::kUnknown) out[1].dtype = Wide(in[0].dtype);
  out[2].dtype = DType::kUint64;
}

bool Infer(const P& p, Specs& in, Specs& out) {
  if (!InferAttention(p, kName, in, &out[0].shape)) return false;
  if (!in[0].shape.rank_known()) return true;
  const AttentionSizes s = SizesOf(p, in[0].shape, in[1].shape, in[2].shape);
  return Assign(out[1].shape, Shape{s.batch, s.heads, s.queries}) &&
         Assign(out[2].shape, Shape{2});
}

cpu::AttentionProblem Problem(const P& p, const KernelArgs& args,
                              std::vector<int64_t>& lengths) {
  cpu::AttentionProblem problem = ProblemOf(p, args.in, lengths);
  auto* stream = args.out[2].data<uint64_t>();
  stream[0] = stream[1] = 0;
  if (!Draws(p, args.training)) return problem;
  problem.dropout = static_cast<double>(p.dropout);
  problem.random = args.random;
  stream[0] = args.random.seed;
  stream[1] = args.random.offset;
  return problem;
}

void Forward(const P& p, const KernelArgs& args) {
  std::vector<int64_t> lengths;
  const cpu::AttentionProblem problem = Problem(p, args, lengths);
  cpu::AttentionForward(problem, RowsOf(p, args.out[0]), args.out[1].ptr);
}

void Plain(const P& p, const KernelArgs& args) {
  std::vector<int64_t> lengths;
  const cpu::AttentionProblem problem = Problem(p, args, lengths);
  std::vector<double> sums(static_cast<size_t>(args.out[1].size()));
  const std::vector<double> w = PlainAttentionWeights(problem, sums.data()),
                            kept = PlainAttentionKept(problem);
  VisitFloat(args.out[1].dtype, [&]<typename T>() {
    std::transform(sums.begin(), sums.end(), args.out[1].data<T>(),
                   [](double x) { return static_cast<T>(x); });
  });
  const cpu::AttentionRows y = RowsOf(p, args.out[0]), &v = problem.v;
  VisitFloat(problem.dtype, [&]<typename T>() {
    for (int64_t r = 0; r < problem.batch * problem.heads * problem.queries; ++r) {
      const int64_t head = r / problem.queries, b = head / problem.heads,
                    h = head % problem.heads, i = r % problem.queries;
      for (int64_t d = 0; d < problem.value_size; ++d) {
        double sum = 0;
        for (int64_t j = 0; j < problem.keys; ++j) {
          const T* value =
              static_cast<const T*>(v.data) + b * v.batch + h * v.head + j * v.row + d;
          sum += w[r * problem.keys + j] * kept[r * problem.keys + j] *
                 static_cast<double>(static_cast<Accumulate<T>>(*value));
        }
        static_cast<T*>(y.data)[b * y.batch + h * y.head + i * y.row + d] =
            static_cast<T>(static_cast<Accumulate<T>>(sum));
      }
    }
  });
}

// By the mask: the gradient of the scores, with an array of them all.
Value MaskGradient(const P& p, const GradArgs& g, std::span<const Value> in) {
  const AttentionScores s = ScoresOf(p, in, g.out(2));
  Value dw = batch_dot(HeadsOf(p, g.dout(0)), s.v, false, true);
  if (s.kept) dw = dw * s.kept;
  const Value ds = s.weights * (dw - sum(s.weights * dw, {{2}, true}));
  const AttentionSizes z =
      SizesOf(p, g.in_spec(0).shape, g.in_spec(1).shape, g.in_spec(2).shape);
  return Fit(reshape(ds, {z.batch, z.heads, z.queries, z.keys}),
             g.in_spec(MaskInput(p)));
}

Values Gradient(const P& params, const GradArgs& g) {
  P p = params;
  if (!Draws(p, g.training)) p.dropout = 0;
  std::vector<Value> in;
  for (int i = 0; i < g.num_inputs(); ++i) in.push_back(g.in(i));
  Values dx(static_cast<size_t>(g.num_inputs()));
  if (g.wants(0) || g.wants(1) || g.wants(2)) {
    const Values found =
        AttentionBackward(p, in, g.out(0), g.out(1), g.out(2), g.dout(0));
    for (int i = 0; i < 3; ++i) dx[i] = found[i];
  }
  const int mask = MaskInput(p);
  if (mask >= 0 && g.wants(mask) && IsFloat(g.in_spec(mask).dtype)) {
    dx[mask] = MaskGradient(p, g, in);
  }
  return dx;
}

SampleInput Given(Shape shape, std::vector<double> values, DType dtype) {
  SampleInput s = Numbers(std::move(shape), std::move(values));
  s.dtype = dtype;
  s.differentiable = false;
  return s;
}

const OpDef& attention = Register<P>({
    .name = "_contrib_dot_product_attention",
    .doc =
        "Attention: values added up by the softmax of scaled products of queries and "
        "keys. Memory grows with the length and not with its square. Queries that "
        "see no key give 0.",
    .inputs =
        {{"query", Types::kFloats,
          "(batch, heads, queries, size), or as `layout` says."},
         {"key", Types::kFloats, "(batch, heads, keys, size)."},
         {"value", Types::kFloats, "(batch, heads, keys, size of a value)."},
         {"mask", Types::kAny,
          "Broadcasts to (batch, heads, queries, keys). Floats are added to the "
          "scores; of other types, 0 hides a key."},
         {"length", Types::kAny,
          "How many keys count: (batch,), or broadcasts to (batch, heads, queries)."}},
    .outputs = {{"output", Types::kFloats,
                 "(batch, heads, queries, size of a value), in the layout of query."},
                {"log_sums", Types::kFloats,
                 "Base-2 logarithms of what the weights were divided by."},
                {"stream", Types::kAny, "Which random numbers dropout drew."}},
    .params = AttentionParamList(),
    .optional_inputs = [](const P& p) -> std::vector<bool> {
      return {true, true, true, p.use_mask, p.use_length};
    },
    .visible_outputs = [](const P&) { return 1; },
    .types = InferTypes,
    .infer = Infer,
    .gradient = Gradient,
    .uses = {.in = 0b11111, .out = 0b111},
    .cpu = {{"blocks", Forward}, {"plain", Plain}},
    .random = true,
    .draws = Draws,
    .uses_training = true,
    .cost = [](const P& p, const Specs& in,
               const Specs&) { return AttentionFlops(p, in); },
    .samples = {{{Normal({1, 2, 3, 4}), Normal({1, 2, 5, 4}), Normal({1, 2, 5, 3})}},
                {{Normal({2, 4, 6}), Normal({2, 4, 6}), Normal({2, 4, 6})},
                 {.scale = 0.7, .causal = true, .heads = 2}},
                {{Normal({1, 2, 2, 3}), Normal({1, 3, 2, 3}), Normal({1, 3, 2, 3}),
                  Normal({2, 1, 3})},
                 {.layout = AttentionLayout::kRowsFirst, .use_mask = true}},
                {{Normal({2, 3, 2}), Normal({2, 3, 2}), Normal({2, 3, 2}),
                  Given({3, 3}, {1, 0, 0, 1, 1, 0, 0, 1, 1}, DType::kInt32),
                  Given({2}, {3, 1}, DType::kInt32)},
                 {.use_mask = true, .use_length = true}},
                {{Normal({2, 3, 4}), Normal({2, 5, 4}), Normal({2, 5, 4}),
                  Given({2, 1, 3}, {1, 5, 3, 4, 0, 2}, DType::kFloat32)},
                 {.heads = 2, .use_length = true}},
                {{Normal({1, 1, 3, 2}), Normal({1, 1, 4, 2}), Normal({1, 1, 4, 2}),
                  Normal({4})},
                 {.dropout = 0.4f, .use_mask = true},
                 true}},
});

}  // namespace
}  // namespace plait
