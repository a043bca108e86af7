// Arrays of all weights of attention, for gradients that need them, and for looking.

#include <algorithm>
#include <limits>

#include "base/parallel.h"
#include "cpu/gemm.h"
#include "cpu/row.h"
#include "graph/math.h"
#include "ops/gradients.h"
#include "ops/infer.h"
#include "ops/nn/attention.h"

namespace plait {
namespace {

using P = AttentionParams;
constexpr const char* kName = "dot_product_attention_weights";

// query, key, [mask], [length]. The value's place in lists is taken by the key.
Specs WithValue(const P&, const Specs& in) {
  Specs all;
  for (size_t i = 0; i < in.size(); ++i) {
    all.push_back(in[i]);
    if (i == 1) all.push_back(in[1]);
  }
  return all;
}

void InferTypes(const P& p, Specs& in, Specs& out) {
  UnifyDType(in[0].dtype, out[0].dtype);
  UnifyDType(in[1].dtype, out[0].dtype);
  Specs all = WithValue(p, in);
  InferAttentionTypes(p, kName, all);
  in[0].dtype = in[1].dtype = all[0].dtype;
  for (size_t i = 2; i < in.size(); ++i) in[i].dtype = all[i + 1].dtype;
  out[0].dtype = in[0].dtype;
}

bool Infer(const P& p, Specs& in, Specs& out) {
  Specs all = WithValue(p, in);
  if (!InferAttention(p, kName, all, nullptr)) return false;
  if (!all[0].shape.rank_known()) return true;
  in[0].shape = all[0].shape;
  in[1].shape = all[1].shape;
  for (size_t i = 2; i < in.size(); ++i) in[i].shape = all[i + 1].shape;
  const AttentionSizes s = SizesOf(p, in[0].shape, in[1].shape, in[1].shape);
  return Assign(out[0].shape, Shape{s.batch, s.heads, s.queries, s.keys});
}

// The views as ProblemOf takes them.
cpu::AttentionProblem Problem(const P& p, const KernelArgs& args,
                              std::vector<int64_t>& lengths) {
  std::vector<View> in;
  for (size_t i = 0; i < args.in.size(); ++i) {
    in.push_back(args.in[i]);
    if (i == 1) in.push_back(args.in[1]);
  }
  return ProblemOf(p, in, lengths);
}

void Plain(const P& p, const KernelArgs& args) {
  std::vector<int64_t> lengths;
  const std::vector<double> w =
      PlainAttentionWeights(Problem(p, args, lengths), nullptr);
  VisitFloat(args.out[0].dtype, [&]<typename T>() {
    std::transform(w.begin(), w.end(), args.out[0].data<T>(), [](double x) {
      return static_cast<T>(static_cast<Accumulate<T>>(x));
    });
  });
}

// The scores of a query, masked, become weights.
template <typename T>
void Normalize(const cpu::AttentionProblem& p, int64_t b, int64_t h, int64_t i, T* w) {
  constexpr T kHidden = -std::numeric_limits<T>::infinity();
  int64_t n = std::min(p.keys, p.Length(b, h, i));
  if (p.causal) n = std::clamp<int64_t>(i + p.keys - p.queries + 1, 0, n);
  if (const cpu::AttentionMask& m = p.mask; m.data != nullptr) {
    VisitDType(m.dtype, [&]<typename M>() {
      const M* mask =
          static_cast<const M*>(m.data) + b * m.batch + h * m.head + i * m.query;
      for (int64_t j = 0; j < n; ++j) {
        const auto v = static_cast<Accumulate<M>>(mask[j * m.key]);
        const bool adds = IsFloat(m.dtype);
        w[j] = adds ? w[j] + static_cast<T>(v) : (v != 0 ? w[j] : kHidden);
      }
    });
  }
  std::fill(w + n, w + p.keys, T(0));
  const T top = cpu::row::Max(w, n);
  if (top == kHidden) {
    std::fill_n(w, n, T(0));
  } else {
    const T sum = cpu::row::ExpMinus(w, top, w, n);
    cpu::row::Affine(w, 1 / sum, T(0), w, n);
  }
}

void Products(const P& p, const KernelArgs& args) {
  std::vector<int64_t> lengths;
  const cpu::AttentionProblem problem = Problem(p, args, lengths);
  const int64_t queries = problem.queries, keys = problem.keys;
  const auto run = [&]<typename T>() {
    ParallelFor(problem.batch * problem.heads, 1, [&](int64_t first, int64_t last) {
      const ScopedComputeThreads alone(1);
      for (int64_t head = first; head < last; ++head) {
        const int64_t b = head / problem.heads, h = head % problem.heads;
        const auto at = [&](const cpu::AttentionRows& x) {
          return static_cast<const T*>(x.data) + b * x.batch + h * x.head;
        };
        T* w = args.out[0].data<T>() + head * queries * keys;
        cpu::Gemm<T>(false, true, queries, keys, problem.size, problem.scale,
                     at(problem.q), problem.q.row, at(problem.k), problem.k.row, 0, w,
                     keys);
        for (int64_t i = 0; i < queries; ++i) Normalize(problem, b, h, i, w + i * keys);
      }
    });
  };
  if (problem.dtype == DType::kFloat64) {
    run.template operator()<double>();
  } else {
    run.template operator()<float>();
  }
}
const char* ProductsDecline(const P&, const Specs& in, const Specs&) {
  return IsHalf(in[0].dtype) ? "neither float32 nor float64" : nullptr;
}

Values Gradient(const P& p, const GradArgs& g) {
  const Shape shape = g.out_spec(0).shape;
  const Shape flat{shape[0] * shape[1], shape[2], shape[3]};
  const Value w = reshape(g.out(0), flat), dw = reshape(g.dout(0), flat);
  const Value ds = w * (dw - sum(w * dw, {{2}, true}));
  const Value q = HeadsOf(p, g.in(0)), k = HeadsOf(p, g.in(1));
  const double scale = AttentionScale(p, q.shape()[2]);
  Values dx(static_cast<size_t>(g.num_inputs()));
  dx[0] = FromHeads(p, batch_dot(ds, k) * scale, g.in_spec(0).shape);
  dx[1] = FromHeads(p, batch_dot(ds, q, true, false) * scale, g.in_spec(1).shape);
  if (p.use_mask && g.wants(2) && IsFloat(g.in_spec(2).dtype)) {
    dx[2] = Fit(reshape(ds, shape), g.in_spec(2));
  }
  return dx;
}

SampleInput Mask() {
  SampleInput s = Numbers({4, 2}, {1, 1, 0, 1, 0, 0, 1, 1});
  s.dtype = DType::kInt32;
  s.differentiable = false;
  return s;
}

const OpDef& weights = Register<P>({
    .name = "_contrib_dot_product_attention_weights",
    .doc =
        "The weights that dot_product_attention adds values up by, before dropout, as "
        "one array; to look at.",
    .inputs = {{"query", Types::kFloats, "As in dot_product_attention."},
               {"key", Types::kFloats, "As in dot_product_attention."},
               {"mask", Types::kAny, "As in dot_product_attention."},
               {"length", Types::kAny, "As in dot_product_attention."}},
    .outputs = {{"output", Types::kFloats, "(batch, heads, queries, keys)."}},
    .params = AttentionParamList(),
    .optional_inputs = [](const P& p) -> std::vector<bool> {
      return {true, true, p.use_mask, p.use_length};
    },
    .types = InferTypes,
    .infer = Infer,
    .gradient = Gradient,
    .uses = {.in = 0b11, .out = 0b1},
    .cpu = {{"products", Products, ProductsDecline}, {"plain", Plain}},
    .cost =
        [](const P&, const Specs& in, const Specs& out) {
          return 20.0 * static_cast<double>(out[0].shape.size()) *
                 static_cast<double>(in[0].shape[in[0].shape.rank() - 1]);
        },
    .samples = {{{Normal({1, 2, 3, 4}), Normal({1, 2, 5, 4})}},
                {{Normal({2, 3, 4}), Normal({2, 3, 4}), Normal({3, 3})},
                 {.causal = true, .heads = 2, .use_mask = true}},
                {{Normal({4, 2, 4}), Normal({2, 2, 4}), Mask()},
                 {.causal = true,
                  .layout = AttentionLayout::kTimeFirst,
                  .heads = 2,
                  .use_mask = true}}},
});

// ---------------------------------------------------------------- what dropout did

struct KeptParams {
  float dropout = 0;
  Shape shape;
};

SampleInput Stream() {
  SampleInput s = Numbers({2}, {3, 5});
  s.dtype = DType::kUint64;
  s.differentiable = false;
  return s;
}

const OpDef& kept = Register<KeptParams>({
    .name = "_attention_kept",
    .doc = "What dropout multiplied the weights of attention with.",
    .inputs = {{"stream", Types::kAny, "The hidden output of the attention."},
               {"like", Types::kFloats, "Of the dtype that is wanted."}},
    .params = {{"dropout", &KeptParams::dropout, "The chance of 0."},
               {"shape", &KeptParams::shape, "(batch * heads, queries, keys)."}},
    .types =
        [](const KeptParams&, Specs& in, Specs& out) {
          if (in[0].dtype == DType::kUnknown) in[0].dtype = DType::kUint64;
          Check(in[0].dtype == DType::kUint64, ErrorKind::kType,
                "_attention_kept: stream is ", in[0].dtype, "; uint64 was expected");
          UnifyDType(in[1].dtype, out[0].dtype);
          UnifyDType(out[0].dtype, in[1].dtype);
        },
    .infer =
        [](const KeptParams& p, Specs& in, Specs& out) {
          Check(p.shape.rank() == 3 && p.shape.known(), "_attention_kept: shape is ",
                p.shape, "; (batch * heads, queries, keys) was expected");
          Check(Assign(in[0].shape, {2}), "_attention_kept: stream is ", in[0].shape,
                "; (2,) was expected");
          return Assign(out[0].shape, p.shape);
        },
    .zero_gradient = true,
    .cpu = {{"plain",
             [](const KeptParams& p, const KernelArgs& args) {
               cpu::AttentionProblem problem{p.shape[0], 1, p.shape[1], p.shape[2]};
               problem.dropout = static_cast<double>(p.dropout);
               const auto* stream = args.in[0].data<const uint64_t>();
               problem.random = {stream[0], stream[1]};
               const std::vector<double> k = PlainAttentionKept(problem);
               VisitFloat(args.out[0].dtype, [&]<typename T>() {
                 std::transform(k.begin(), k.end(), args.out[0].data<T>(),
                                [](double x) {
                                  return static_cast<T>(static_cast<Accumulate<T>>(x));
                                });
               });
             }}},
    .samples = {{{Stream(), Normal({1})}, {.dropout = 0.4f, .shape = {2, 3, 5}}}},
});

}  // namespace

AttentionScores ScoresOf(const P& p, std::span<const Value> in, const Value& stream) {
  AttentionScores s;
  std::vector<Value> seen;
  for (size_t i = 0; i < in.size(); ++i)
    if (i != 2) seen.push_back(in[i]);
  const Value w = ApplyOne(weights, MakeParams(P(p)), seen);
  const Shape shape = w.shape();
  const Shape flat{shape[0] * shape[1], shape[2], shape[3]};
  s.weights = reshape(w, flat);
  if (p.dropout > 0) {
    const Value inputs[] = {stream, in[0]};
    s.kept = ApplyOne(kept, MakeParams(KeptParams{p.dropout, flat}), inputs);
  }
  s.q = HeadsOf(p, in[0]);
  s.k = HeadsOf(p, in[1]);
  s.v = HeadsOf(p, in[2]);
  s.scale = AttentionScale(p, s.q.shape()[2]);
  return s;
}

}  // namespace plait
