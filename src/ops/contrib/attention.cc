// _contrib_interleaved_matmul_*: the products of multihead attention.
//
// An interleaved array of shape (length, batch, heads * parts * size) holds `parts`
// projections side by side (queries, keys, values). Seen by batch and head, each is a
// matrix (length, size) with one stride.

#include <cmath>

#include "cpu/gemm.h"
#include "graph/math.h"
#include "ops/infer.h"
#include "ops/linalg/matrices.h"

namespace plait {
namespace {

// One projection of an interleaved array.
struct Part {
  int64_t heads = 1, parts = 1, index = 0;

  int64_t size(const Shape& x) const { return x[2] / (heads * parts); }
  int64_t stride(const Shape& x) const { return x[1] * x[2]; }
  int64_t at(const Shape& x, int64_t matrix) const {
    return (matrix * parts + index) * size(x);
  }
};

// y (matrices, length of a, length of b) = scale * a b^T, matrix by matrix.
void Scores(const View& a, const Part& pa, const View& b, const Part& pb, double scale,
            const View& y) {
  const Shape &sa = a.shape(), &sb = b.shape();
  const int64_t m = sa[0], n = sb[0], k = pa.size(sa);
  VisitFloat(y.dtype, [&]<typename T>() {
    ForEachMatrix(y.shape()[0], 2.0 * static_cast<double>(m * n * k), [&](int64_t i) {
      cpu::Gemm<T>(false, true, m, n, k, scale, a.data<const T>() + pa.at(sa, i),
                   pa.stride(sa), b.data<const T>() + pb.at(sb, i), pb.stride(sb), 0,
                   y.data<T>() + i * m * n, n);
    });
  });
}

// A part of y = scale * op(w) x, matrix by matrix; its other parts become zeros.
void Mix(const View& w, bool transposed, const View& x, const Part& px, double scale,
         const View& y, const Part& py) {
  const Shape &sx = x.shape(), &sy = y.shape();
  const int64_t m = sy[0], k = sx[0], n = py.size(sy), row = w.shape()[2];
  VisitFloat(y.dtype, [&]<typename T>() {
    if (py.parts > 1) std::fill_n(y.data<T>(), y.size(), T{});
    ForEachMatrix(w.shape()[0], 2.0 * static_cast<double>(m * n * k), [&](int64_t i) {
      cpu::Gemm<T>(transposed, false, m, n, k, scale, w.data<const T>() + i * m * k,
                   row, x.data<const T>() + px.at(sx, i), px.stride(sx), 0,
                   y.data<T>() + py.at(sy, i), py.stride(sy));
    });
  });
}

// ---------------------------------------------------------------- inner operators

struct AttentionParams {
  int64_t heads = 1;
  int64_t parts_a = 1, index_a = 0;  // of the first interleaved operand
  int64_t parts_b = 1, index_b = 0;  // of the second, or of the result
  bool transpose = false;
  double scale = 1;

  Part a() const { return {heads, parts_a, index_a}; }
  Part b() const { return {heads, parts_b, index_b}; }
};

std::vector<Param<AttentionParams>> ParamList() {
  using P = AttentionParams;
  return {{"heads", &P::heads, "Number of heads."},
          {"parts_a", &P::parts_a, "Projections side by side in one array."},
          {"index_a", &P::index_a, "Which of them counts."},
          {"parts_b", &P::parts_b, "The same of the other array, or of the result."},
          {"index_b", &P::index_b, "Which of them counts."},
          {"transpose", &P::transpose, "Weights are transposed."},
          {"scale", &P::scale, "A factor."}};
}

bool IsInterleaved(const Shape& x, const Part& p) {
  return x.rank() == 3 && p.heads > 0 && p.parts > p.index &&
         x[2] % (p.heads * p.parts) == 0;
}

Value ScoresOf(const Value& a, const Part& pa, const Value& b, const Part& pb,
               double scale) {
  return Make("_attention_scores", {a, b},
              {{"heads", Attr(pa.heads)},
               {"parts_a", Attr(pa.parts)},
               {"index_a", Attr(pa.index)},
               {"parts_b", Attr(pb.parts)},
               {"index_b", Attr(pb.index)},
               {"scale", Attr(scale)}});
}

Value MixOf(const Value& w, bool transposed, const Value& x, const Part& px,
            const Part& py, double scale) {
  return Make("_attention_mix", {w, x},
              {{"heads", Attr(px.heads)},
               {"parts_a", Attr(px.parts)},
               {"index_a", Attr(px.index)},
               {"parts_b", Attr(py.parts)},
               {"index_b", Attr(py.index)},
               {"transpose", Attr(transposed)},
               {"scale", Attr(scale)}});
}

double CostOf(const Specs& in, const Specs& out) {
  const double a = static_cast<double>(in[0].shape.size());
  return 2.0 * a * static_cast<double>(out[0].shape.size()) /
         std::max(1.0, static_cast<double>(in[0].shape[0]));
}

[[maybe_unused]] const OpDef& scores = Register<AttentionParams>({
    .name = "_attention_scores",
    .doc = "Products of the rows of two projections, for every batch and head.",
    .inputs = {{"a", Types::kFloats, "Interleaved."},
               {"b", Types::kFloats, "As well."}},
    .params = ParamList(),
    .infer =
        [](const AttentionParams& p, Specs& in, Specs& out) {
          const Shape &a = in[0].shape, &b = in[1].shape;
          if (!a.known() || !b.known()) return true;
          if (!IsInterleaved(a, p.a()) || !IsInterleaved(b, p.b())) return false;
          Shape y{a[1] * p.heads, a[0], b[0]};
          return a[1] == b[1] && p.a().size(a) == p.b().size(b) &&
                 Unify(y, out[0].shape);
        },
    .gradient = [](const AttentionParams& p, const GradArgs& g) -> Values {
      const Value dy = g.dout(0);
      Values dx(2);
      if (g.wants(0)) dx[0] = MixOf(dy, false, g.in(1), p.b(), p.a(), p.scale);
      if (g.wants(1)) dx[1] = MixOf(dy, true, g.in(0), p.a(), p.b(), p.scale);
      return dx;
    },
    .uses = {.in = 0b11},
    .cpu = {{"gemm",
             [](const AttentionParams& p, const KernelArgs& args) {
               Scores(args.in[0], p.a(), args.in[1], p.b(), p.scale, args.out[0]);
             }}},
    .cost = [](const AttentionParams&, const Specs& in,
               const Specs& out) { return CostOf(in, out); },
    .samples = {{{Normal({2, 2, 12}), Normal({3, 2, 8})},
                 {.heads = 2, .parts_a = 3, .index_a = 1, .parts_b = 2, .scale = 0.5}}},
});

[[maybe_unused]] const OpDef& mix = Register<AttentionParams>({
    .name = "_attention_mix",
    .doc = "Sums of a projection's rows by weights, for every batch and head.",
    .inputs = {{"weights", Types::kFloats, "(batch * heads, rows, columns)."},
               {"a", Types::kFloats, "Interleaved."}},
    .params = ParamList(),
    .infer =
        [](const AttentionParams& p, Specs& in, Specs& out) {
          const Shape &w = in[0].shape, &x = in[1].shape;
          if (!w.known() || !x.known()) return true;
          if (!IsInterleaved(x, p.a()) || w.rank() != 3 || p.parts_b <= p.index_b) {
            return false;
          }
          Shape y{w[p.transpose ? 2 : 1], x[1], p.heads * p.parts_b * p.a().size(x)};
          return w[0] == x[1] * p.heads && w[p.transpose ? 1 : 2] == x[0] &&
                 Unify(y, out[0].shape);
        },
    .gradient = [](const AttentionParams& p, const GradArgs& g) -> Values {
      const Value dy = g.dout(0);
      Values dx(2);
      if (g.wants(0)) {
        dx[0] = p.transpose ? ScoresOf(g.in(1), p.a(), dy, p.b(), p.scale)
                            : ScoresOf(dy, p.b(), g.in(1), p.a(), p.scale);
      }
      if (g.wants(1)) dx[1] = MixOf(g.in(0), !p.transpose, dy, p.b(), p.a(), p.scale);
      return dx;
    },
    .uses = {.in = 0b11},
    .cpu = {{"gemm",
             [](const AttentionParams& p, const KernelArgs& args) {
               Mix(args.in[0], p.transpose, args.in[1], p.a(), p.scale, args.out[0],
                   p.b());
             }}},
    .cost = [](const AttentionParams&, const Specs& in,
               const Specs& out) { return CostOf(in, out); },
    .samples = {{{Normal({4, 3, 2}), Normal({2, 2, 8})},
                 {.heads = 2, .parts_a = 2, .index_a = 1}},
                {{Normal({4, 2, 3}), Normal({2, 2, 8})},
                 {.heads = 2,
                  .parts_a = 2,
                  .parts_b = 3,
                  .index_b = 1,
                  .transpose = true,
                  .scale = 2}}},
});

// ---------------------------------------------------------------- MXNet's operators

struct HeadParams {
  int64_t heads = 0;
};

std::vector<Param<HeadParams>> HeadList() {
  return {Required<HeadParams>("heads", &HeadParams::heads, "The number of heads.")};
}

void CheckInterleaved(const Shape& x, const HeadParams& p, int64_t parts,
                      const char* op, const char* input) {
  Check(p.heads > 0, op, ": heads is ", p.heads, "; at least 1 was expected");
  if (!x.known()) return;
  Check(IsInterleaved(x, {p.heads, parts, 0}), op, ": ", input, " has shape ", x,
        "; (length, batch, ", p.heads, " heads * ", parts, " * size) was expected");
}

void CheckWeights(const Shape& w, const Shape& expected, const char* op) {
  bool fits = !w.rank_known() || w.rank() == 3;
  for (int i = 0; fits && w.rank_known() && i < 3; ++i) {
    fits = w[i] == expected[i] || w[i] == kUnknownSize || expected[i] == kUnknownSize;
  }
  Check(fits, op, ": attention has shape ", w, "; shape ", expected, " was expected");
}

double ScaleOf(const Shape& x, const Part& p) {
  return 1 / std::sqrt(static_cast<double>(p.size(x)));
}

[[maybe_unused]] const OpDef& selfatt_qk = Register<HeadParams>({
    .name = "_contrib_interleaved_matmul_selfatt_qk",
    .doc = "The scores of self attention: queries times keys, over the root of their "
           "size.",
    .inputs = {{"queries_keys_values", Types::kFloats,
                "(length, batch, heads * 3 * size)."}},
    .outputs = {{"output", Types::kFloats, "(batch * heads, length, length)."}},
    .params = HeadList(),
    .infer =
        [](const HeadParams& p, Specs& in, Specs& out) {
          const Shape& x = in[0].shape;
          CheckInterleaved(x, p, 3, "_contrib_interleaved_matmul_selfatt_qk",
                           "queries_keys_values");
          if (!x.known()) return true;
          Shape y{x[1] * p.heads, x[0], x[0]};
          return Unify(y, out[0].shape);
        },
    .gradient = [](const HeadParams& p, const GradArgs& g) -> Values {
      const Part q{p.heads, 3, 0}, k{p.heads, 3, 1};
      const double scale = ScaleOf(g.in_spec(0).shape, q);
      return {MixOf(g.dout(0), false, g.in(0), k, q, scale) +
              MixOf(g.dout(0), true, g.in(0), q, k, scale)};
    },
    .uses = {.in = 0b1},
    .cpu = {{"gemm",
             [](const HeadParams& p, const KernelArgs& args) {
               const View& x = args.in[0];
               const Part q{p.heads, 3, 0}, k{p.heads, 3, 1};
               Scores(x, q, x, k, ScaleOf(x.shape(), q), args.out[0]);
             }}},
    .cost = [](const HeadParams&, const Specs& in,
               const Specs& out) { return CostOf(in, out); },
    .samples = {{{Normal({3, 2, 12})}, {2}}},
});

[[maybe_unused]] const OpDef& selfatt_valatt = Register<HeadParams>({
    .name = "_contrib_interleaved_matmul_selfatt_valatt",
    .doc = "The result of self attention: values added up by weights.",
    .inputs = {{"queries_keys_values", Types::kFloats,
                "(length, batch, heads * 3 * size)."},
               {"attention", Types::kFloats, "(batch * heads, length, length)."}},
    .outputs = {{"output", Types::kFloats, "(length, batch, heads * size)."}},
    .params = HeadList(),
    .infer =
        [](const HeadParams& p, Specs& in, Specs& out) {
          constexpr const char* kOp = "_contrib_interleaved_matmul_selfatt_valatt";
          const Shape& x = in[0].shape;
          CheckInterleaved(x, p, 3, kOp, "queries_keys_values");
          if (!x.known()) return true;
          CheckWeights(in[1].shape, {x[1] * p.heads, x[0], x[0]}, kOp);
          Shape y{x[0], x[1], x[2] / 3};
          return Unify(y, out[0].shape);
        },
    .gradient = [](const HeadParams& p, const GradArgs& g) -> Values {
      const Part v{p.heads, 3, 2}, y{p.heads, 1, 0};
      Values dx(2);
      if (g.wants(0)) dx[0] = MixOf(g.in(1), true, g.dout(0), y, v, 1);
      if (g.wants(1)) dx[1] = ScoresOf(g.dout(0), y, g.in(0), v, 1);
      return dx;
    },
    .uses = {.in = 0b11},
    .cpu = {{"gemm",
             [](const HeadParams& p, const KernelArgs& args) {
               Mix(args.in[1], false, args.in[0], {p.heads, 3, 2}, 1, args.out[0],
                   {p.heads, 1, 0});
             }}},
    .cost = [](const HeadParams&, const Specs& in,
               const Specs& out) { return CostOf(in, out); },
    .samples = {{{Normal({3, 2, 12}), Normal({4, 3, 3})}, {2}}},
});

[[maybe_unused]] const OpDef& encdec_qk = Register<HeadParams>({
    .name = "_contrib_interleaved_matmul_encdec_qk",
    .doc = "The scores of attention to another sequence: queries times keys, over the "
           "root of their size.",
    .inputs = {{"queries", Types::kFloats, "(length, batch, heads * size)."},
               {"keys_values", Types::kFloats,
                "(length of the other, batch, heads * 2 * size)."}},
    .outputs = {{"output", Types::kFloats,
                 "(batch * heads, length, length of the other)."}},
    .params = HeadList(),
    .infer =
        [](const HeadParams& p, Specs& in, Specs& out) {
          constexpr const char* kOp = "_contrib_interleaved_matmul_encdec_qk";
          const Shape &q = in[0].shape, &kv = in[1].shape;
          CheckInterleaved(q, p, 1, kOp, "queries");
          CheckInterleaved(kv, p, 2, kOp, "keys_values");
          if (!q.known() || !kv.known()) return true;
          Check(q[1] == kv[1] && 2 * q[2] == kv[2], kOp, ": queries ", q,
                " and keys_values ", kv,
                " do not match; one batch, and twice as much "
                "in the last axis of keys_values were expected");
          Shape y{q[1] * p.heads, q[0], kv[0]};
          return Unify(y, out[0].shape);
        },
    .gradient = [](const HeadParams& p, const GradArgs& g) -> Values {
      const Part q{p.heads, 1, 0}, k{p.heads, 2, 0};
      const double scale = ScaleOf(g.in_spec(0).shape, q);
      Values dx(2);
      if (g.wants(0)) dx[0] = MixOf(g.dout(0), false, g.in(1), k, q, scale);
      if (g.wants(1)) dx[1] = MixOf(g.dout(0), true, g.in(0), q, k, scale);
      return dx;
    },
    .uses = {.in = 0b11},
    .cpu = {{"gemm",
             [](const HeadParams& p, const KernelArgs& args) {
               const Part q{p.heads, 1, 0}, k{p.heads, 2, 0};
               Scores(args.in[0], q, args.in[1], k, ScaleOf(args.in[0].shape(), q),
                      args.out[0]);
             }}},
    .cost = [](const HeadParams&, const Specs& in,
               const Specs& out) { return CostOf(in, out); },
    .samples = {{{Normal({3, 2, 4}), Normal({2, 2, 8})}, {2}}},
});

[[maybe_unused]] const OpDef& encdec_valatt = Register<HeadParams>({
    .name = "_contrib_interleaved_matmul_encdec_valatt",
    .doc = "The result of attention to another sequence: its values added up by "
           "weights.",
    .inputs = {{"keys_values", Types::kFloats,
                "(length of the other, batch, heads * 2 * size)."},
               {"attention", Types::kFloats,
                "(batch * heads, length, length of the other)."}},
    .outputs = {{"output", Types::kFloats, "(length, batch, heads * size)."}},
    .params = HeadList(),
    .infer =
        [](const HeadParams& p, Specs& in, Specs& out) {
          constexpr const char* kOp = "_contrib_interleaved_matmul_encdec_valatt";
          const Shape &kv = in[0].shape, &w = in[1].shape;
          CheckInterleaved(kv, p, 2, kOp, "keys_values");
          if (!kv.known()) return true;
          CheckWeights(w, {kv[1] * p.heads, kUnknownSize, kv[0]}, kOp);
          if (!w.known()) return true;
          Shape y{w[1], kv[1], kv[2] / 2};
          return Unify(y, out[0].shape);
        },
    .gradient = [](const HeadParams& p, const GradArgs& g) -> Values {
      const Part v{p.heads, 2, 1}, y{p.heads, 1, 0};
      Values dx(2);
      if (g.wants(0)) dx[0] = MixOf(g.in(1), true, g.dout(0), y, v, 1);
      if (g.wants(1)) dx[1] = ScoresOf(g.dout(0), y, g.in(0), v, 1);
      return dx;
    },
    .uses = {.in = 0b11},
    .cpu = {{"gemm",
             [](const HeadParams& p, const KernelArgs& args) {
               Mix(args.in[1], false, args.in[0], {p.heads, 2, 1}, 1, args.out[0],
                   {p.heads, 1, 0});
             }}},
    .cost = [](const HeadParams&, const Specs& in,
               const Specs& out) { return CostOf(in, out); },
    .samples = {{{Normal({2, 2, 8}), Normal({4, 3, 2})}, {2}}},
});

}  // namespace
}  // namespace plait
