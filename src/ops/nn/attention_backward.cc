// The gradient of attention, and that gradient's own by arrays of all weights.

#include <algorithm>

#include "graph/math.h"
#include "ops/gradients.h"
#include "ops/infer.h"
#include "ops/nn/attention.h"

namespace plait {
namespace {

using P = AttentionParams;
constexpr const char* kName = "_backward_dot_product_attention";

// query, key, value, [mask], [length], y, log_sums, stream, dy.
int FirstOf(const P& p) {
  return 3 + p.use_mask + p.use_length;
}

void InferTypes(const P& p, Specs& in, Specs& out) {
  InferAttentionTypes(p, kName, in);
  for (int i = 0; i < 3; ++i) out[i].dtype = in[i].dtype;
  Spec* rest = in.data() + FirstOf(p);
  UnifyDType(rest[0].dtype, in[0].dtype);
  UnifyDType(rest[3].dtype, in[0].dtype);
  if (in[0].dtype == DType::kUnknown) return;
  const DType wide = in[0].dtype == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32;
  if (rest[1].dtype == DType::kUnknown) rest[1].dtype = wide;
  if (rest[2].dtype == DType::kUnknown) rest[2].dtype = DType::kUint64;
  Check(rest[0].dtype == in[0].dtype && rest[3].dtype == in[0].dtype &&
            rest[1].dtype == wide && rest[2].dtype == DType::kUint64,
        ErrorKind::kType, kName, ": y, log_sums, stream and dy are ", rest[0].dtype,
        ", ", rest[1].dtype, ", ", rest[2].dtype, " and ", rest[3].dtype, "; ",
        in[0].dtype, ", ", wide, ", uint64 and ", in[0].dtype, " were expected");
}

bool Infer(const P& p, Specs& in, Specs& out) {
  if (!InferAttention(p, kName, in, &in[FirstOf(p)].shape)) return false;
  if (!in[0].shape.rank_known()) return true;
  if (!Unify(in[FirstOf(p)].shape, in[FirstOf(p) + 3].shape)) return false;
  const AttentionSizes s = SizesOf(p, in[0].shape, in[1].shape, in[2].shape);
  for (int i = 0; i < 3; ++i)
    if (!Unify(out[i].shape, in[i].shape)) return false;
  return Assign(in[FirstOf(p) + 1].shape, Shape{s.batch, s.heads, s.queries});
}

cpu::AttentionProblem Problem(const P& p, const KernelArgs& args,
                              std::vector<int64_t>& lengths) {
  cpu::AttentionProblem problem = ProblemOf(p, args.in, lengths);
  problem.dropout = static_cast<double>(p.dropout);
  const auto* stream = args.in[FirstOf(p) + 2].data<const uint64_t>();
  problem.random = {stream[0], stream[1]};
  return problem;
}

void Blocks(const P& p, const KernelArgs& args) {
  std::vector<int64_t> lengths;
  const cpu::AttentionProblem problem = Problem(p, args, lengths);
  cpu::AttentionRows dx[3];
  for (int i = 0; i < 3; ++i) {
    dx[i] = RowsOf(p, args.out[i]);
    if (!args.wanted.empty() && !args.wanted[i]) dx[i].data = nullptr;
  }
  const View* rest = args.in.data() + FirstOf(p);
  cpu::AttentionBackward(problem, RowsOf(p, rest[0]), rest[1].ptr, RowsOf(p, rest[3]),
                         dx[0], dx[1], dx[2]);
}

// The same by the definition, in double.
class PlainBackward {
 public:
  PlainBackward(const P& p, const KernelArgs& args)
      : problem_(Problem(p, args, lengths_)),
        w_(PlainAttentionWeights(problem_, nullptr)),
        kept_(PlainAttentionKept(problem_)),
        dy_(RowsOf(p, args.in[FirstOf(p) + 3])) {
    for (int i = 0; i < 3; ++i) dx_[i] = RowsOf(p, args.out[i]);
  }
  void Run() {
    for (int64_t b = 0; b < problem_.batch; ++b) {
      for (int64_t h = 0; h < problem_.heads; ++h) Head(b, h);
    }
  }

 private:
  double Get(const cpu::AttentionRows& x, int64_t b, int64_t h, int64_t i,
             int64_t d) const {
    return VisitFloat(problem_.dtype, [&]<typename T>() {
      const T v =
          static_cast<const T*>(x.data)[b * x.batch + h * x.head + i * x.row + d];
      return static_cast<double>(static_cast<Accumulate<T>>(v));
    });
  }
  template <typename F>
  void Set(const cpu::AttentionRows& x, int64_t b, int64_t h, int64_t rows,
           int64_t size, F&& f) const {
    VisitFloat(problem_.dtype, [&]<typename T>() {
      for (int64_t i = 0; i < rows; ++i) {
        for (int64_t d = 0; d < size; ++d) {
          static_cast<T*>(x.data)[b * x.batch + h * x.head + i * x.row + d] =
              static_cast<T>(static_cast<Accumulate<T>>(f(i, d)));
        }
      }
    });
  }
  void Head(int64_t b, int64_t h) const {
    const int64_t queries = problem_.queries, keys = problem_.keys;
    const double* w = w_.data() + (b * problem_.heads + h) * queries * keys;
    const double* kept = kept_.data() + (w - w_.data());
    std::vector<double> ds(static_cast<size_t>(queries * keys));
    for (int64_t i = 0; i < queries; ++i) {
      double delta = 0;
      for (int64_t j = i * keys; j < (i + 1) * keys; ++j) {
        for (int64_t d = 0; d < problem_.value_size; ++d)
          ds[j] += Get(dy_, b, h, i, d) * Get(problem_.v, b, h, j - i * keys, d);
        ds[j] *= kept[j];
        delta += w[j] * ds[j];
      }
      for (int64_t j = i * keys; j < (i + 1) * keys; ++j)
        ds[j] = w[j] * (ds[j] - delta);
    }
    Set(dx_[0], b, h, queries, problem_.size, [&](int64_t i, int64_t d) {
      double sum = 0;
      for (int64_t j = 0; j < keys; ++j)
        sum += ds[i * keys + j] * Get(problem_.k, b, h, j, d);
      return sum * problem_.scale;
    });
    Set(dx_[1], b, h, keys, problem_.size, [&](int64_t j, int64_t d) {
      double sum = 0;
      for (int64_t i = 0; i < queries; ++i)
        sum += ds[i * keys + j] * Get(problem_.q, b, h, i, d);
      return sum * problem_.scale;
    });
    Set(dx_[2], b, h, keys, problem_.value_size, [&](int64_t j, int64_t d) {
      double sum = 0;
      for (int64_t i = 0; i < queries; ++i)
        sum += w[i * keys + j] * kept[i * keys + j] * Get(dy_, b, h, i, d);
      return sum;
    });
  }

  std::vector<int64_t> lengths_;
  const cpu::AttentionProblem problem_;
  const std::vector<double> w_, kept_;
  const cpu::AttentionRows dy_;
  cpu::AttentionRows dx_[3];
};

// With w the weights, m what dropout multiplied them with, dw = m (dy v^T),
// ds = w (dw - sum(w dw)), the gradients are dq = c ds k, dk = c ds^T q, dv = (m w)^T
// dy. Let a, b, e be gradients of these: that of ds is u = c (a k^T + q b^T), and
//   of dw:  t = w (u - sum(u w));
//   of w:   x = u (dw - sum(w dw)) - dw sum(u w) + m (dy e^T);
//   of the scores: z = w (x - sum(w x)).
Values Gradient(const P& p, const GradArgs& g) {
  const int first = FirstOf(p);
  std::vector<Value> in;
  for (int i = 0; i < first; ++i) in.push_back(g.in(i));
  const AttentionScores s = ScoresOf(p, in, g.in(first + 2));
  const auto total = [](const Value& x) { return sum(x, {{2}, true}); };
  const auto keep = [&](const Value& x) { return s.kept ? x * s.kept : x; };
  const Value &w = s.weights, dy = HeadsOf(p, g.in(first + 3));
  const Value dw = keep(batch_dot(dy, s.v, false, true));
  const Value slope = dw - total(w * dw), ds = w * slope;
  Value u, x, dq, dk, dv, ddy;
  const auto add = [](Value& sum, const Value& more) { sum = sum ? sum + more : more; };
  if (g.has_dout(0)) {
    const Value a = HeadsOf(p, g.dout(0));
    add(u, batch_dot(a, s.k, false, true) * s.scale);
    add(dk, batch_dot(ds, a, true, false) * s.scale);
  }
  if (g.has_dout(1)) {
    const Value b = HeadsOf(p, g.dout(1));
    add(u, batch_dot(s.q, b, false, true) * s.scale);
    add(dq, batch_dot(ds, b) * s.scale);
  }
  if (u) {
    const Value uw = total(u * w), t = keep(w * (u - uw));
    add(x, u * slope - dw * uw);
    add(ddy, batch_dot(t, s.v));
    add(dv, batch_dot(t, dy, true, false));
  }
  if (g.has_dout(2)) {
    const Value e = HeadsOf(p, g.dout(2));
    add(x, keep(batch_dot(dy, e, false, true)));
    add(ddy, batch_dot(keep(w), e));
  }
  Values dx(static_cast<size_t>(g.num_inputs()));
  if (!x) return dx;
  const Value z = w * (x - total(w * x));
  add(dq, batch_dot(z, s.k) * s.scale);
  add(dk, batch_dot(z, s.q, true, false) * s.scale);
  dx[0] = FromHeads(p, dq, g.in_spec(0).shape);
  dx[1] = FromHeads(p, dk, g.in_spec(1).shape);
  if (dv) dx[2] = FromHeads(p, dv, g.in_spec(2).shape);
  dx[first + 3] = FromHeads(p, ddy, g.in_spec(first + 3).shape);
  const int mask = MaskInput(p);
  if (mask >= 0 && g.wants(mask) && IsFloat(g.in_spec(mask).dtype)) {
    const AttentionSizes n =
        SizesOf(p, g.in_spec(0).shape, g.in_spec(1).shape, g.in_spec(2).shape);
    dx[mask] = Fit(reshape(z, {n.batch, n.heads, n.queries, n.keys}), g.in_spec(mask));
  }
  return dx;
}

SampleInput Given(Shape shape, std::vector<double> values,
                  DType dtype = DType::kFloat32) {
  SampleInput s = Numbers(std::move(shape), std::move(values));
  s.dtype = dtype;
  s.differentiable = false;
  return s;
}

const OpDef& backward = Register<P>({
    .name = "_backward_dot_product_attention",
    .doc = "The gradients of attention by query, key and value.",
    .inputs = {{"query", Types::kFloats},
               {"key", Types::kFloats},
               {"value", Types::kFloats},
               {"mask", Types::kAny},
               {"length", Types::kAny},
               {"y"},
               {"log_sums"},
               {"stream"},
               {"dy"}},
    .outputs = {{"dq", Types::kFloats}, {"dk", Types::kFloats}, {"dv", Types::kFloats}},
    .params = AttentionParamList(),
    .optional_inputs = [](const P& p) -> std::vector<bool> {
      return {true, true, true, p.use_mask, p.use_length, true, true, true, true};
    },
    .types = InferTypes,
    .infer = Infer,
    .gradient = Gradient,
    .uses_for =
        [](const P& p) {
          const int first = FirstOf(p);
          return Uses{.in = ((1u << first) - 1) | (0b1100u << first)};
        },
    .cpu = {{"blocks", Blocks},
            {"plain",
             [](const P& p, const KernelArgs& args) { PlainBackward(p, args).Run(); }}},
    .cost = [](const P& p, const Specs& in,
               const Specs&) { return 2.5 * AttentionFlops(p, in); },
    // Queries of zeros see all keys alike, so that y and log_sums are known.
    .samples = {{{Given({1, 2, 2}, {0, 0, 0, 0}), Given({1, 2, 2}, {1, 2, -1, 3}),
                  Given({1, 2, 2}, {1, 2, 3, 5}), Given({1, 2, 2}, {2, 3.5, 2, 3.5}),
                  Given({1, 1, 2}, {1, 1}), Given({2}, {0, 0}, DType::kUint64),
                  Given({1, 2, 2}, {1, -1, 2, 0.5})}}},
});

}  // namespace

Values AttentionBackward(const P& p, std::span<const Value> in, const Value& y,
                         const Value& log_sums, const Value& stream, const Value& dy) {
  std::vector<Value> all(in.begin(), in.end());
  for (const Value* v : {&y, &log_sums, &stream, &dy}) all.push_back(*v);
  return Apply(backward, MakeParams(P(p)), all);
}

}  // namespace plait
