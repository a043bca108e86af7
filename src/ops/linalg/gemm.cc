// _linalg_gemm, _linalg_gemm2, _linalg_syrk: products of matrices with factors.

#include "cpu/gemm.h"

#include <cstring>

#include "ops/infer.h"
#include "ops/linalg/matrices.h"

namespace plait {
namespace {

struct GemmParams {
  bool transpose_a = false;
  bool transpose_b = false;
  double alpha = 1;
  double beta = 1;
  int axis = -2;
};

// Row indices are those of `axis`, columns those of the last one.
bool InferGemm(const GemmParams& p, Specs& in, Specs& out, const char* op) {
  const Shape a = in[0].shape, b = in[1].shape;
  if (!a.rank_known() || !b.rank_known()) return true;
  CheckMatrices(a, op);
  Check(a.rank() == b.rank(), op, ": A ", a, " and B ", b,
        " do not match; arrays of one rank were expected");
  const int axis = NormalizeAxis(p.axis, a.rank(), op), last = a.rank() - 1;
  Check(axis < last, op, ": axis is ", p.axis, ", the last one of A ", a,
        "; another one was expected");
  Shape y = a;
  bool fits = true;
  for (int i = 0; i < last; ++i) fits &= i == axis || UnifySize(y[i], in[1].shape[i]);
  int64_t ak = a[p.transpose_a ? axis : last], bk = b[p.transpose_b ? last : axis];
  Check(fits && UnifySize(ak, bk), op, ": A ", a, " and B ", b,
        " do not match with transpose_a ", p.transpose_a, ", transpose_b ",
        p.transpose_b, "; the contracted axes and all others were expected equal");
  y[axis] = a[p.transpose_a ? last : axis];
  y[last] = b[p.transpose_b ? axis : last];
  if (in.size() > 2) {
    const Shape c = in[2].shape;
    Check(Unify(y, in[2].shape), op, ": C has shape ", c, "; shape ", y,
          " of the product was expected");
  }
  return Unify(y, out[0].shape);
}

// An array as (outer, rows, mid, columns).
struct Layout {
  int64_t outer, rows, mid, columns;
  int64_t stride() const { return mid * columns; }
  int64_t at(int64_t o, int64_t m) const { return (o * rows * mid + m) * columns; }
};
Layout LayoutOf(const Shape& x, int given) {
  const int axis = given < 0 ? given + x.rank() : given;
  return {x.size(0, axis), x[axis], x.size(axis + 1, x.rank() - 1), x.back()};
}

// y = alpha op(a) op(b) + beta y.
template <typename T>
void Multiply(const GemmParams& p, double beta, const Shape& a_shape,
              const Shape& b_shape, const Shape& y_shape, const T* a, const T* b,
              T* y) {
  const Layout la = LayoutOf(a_shape, p.axis), lb = LayoutOf(b_shape, p.axis);
  const Layout ly = LayoutOf(y_shape, p.axis);
  const int64_t k = p.transpose_a ? la.rows : la.columns;
  if (ly.mid == 1) {
    cpu::GemmBatch<T>(ly.outer, p.transpose_a, p.transpose_b, ly.rows, ly.columns, k,
                      p.alpha, a, la.columns, la.rows * la.columns, b, lb.columns,
                      lb.rows * lb.columns, beta, y, ly.columns, ly.rows * ly.columns);
    return;
  }
  const double work = 2.0 * static_cast<double>(ly.rows) * ly.columns * k;
  ForEachMatrix(ly.outer * ly.mid, work, [&](int64_t i) {
    const int64_t o = i / ly.mid, m = i % ly.mid;
    cpu::Gemm<T>(p.transpose_a, p.transpose_b, ly.rows, ly.columns, k, p.alpha,
                 a + la.at(o, m), la.stride(), b + lb.at(o, m), lb.stride(), beta,
                 y + ly.at(o, m), ly.stride());
  });
}

// The product of two of a, b and dy in the layout of p.
Value Product(const GemmParams& p, const Value& a, const Value& b, bool ta, bool tb) {
  return Make("_linalg_gemm2", {a, b},
              {{"transpose_a", Attr(ta)},
               {"transpose_b", Attr(tb)},
               {"alpha", Attr(p.alpha)},
               {"axis", Attr(p.axis)}});
}

Values ProductGradient(const GemmParams& p, const GradArgs& g) {
  const bool ta = p.transpose_a, tb = p.transpose_b;
  const Value dy = g.dout(0);
  Values dx(static_cast<size_t>(g.num_inputs()));
  if (g.wants(0)) {
    dx[0] =
        ta ? Product(p, g.in(1), dy, tb, true) : Product(p, dy, g.in(1), false, !tb);
  }
  if (g.wants(1)) {
    dx[1] =
        tb ? Product(p, dy, g.in(0), true, ta) : Product(p, g.in(0), dy, !ta, false);
  }
  if (g.num_inputs() > 2 && g.wants(2)) dx[2] = dy * p.beta;
  return dx;
}

double Cost(const GemmParams& p, const Specs& in, const Specs& out) {
  const Shape& a = in[0].shape;
  const int axis = p.axis < 0 ? p.axis + a.rank() : p.axis;
  return 2.0 * static_cast<double>(out[0].shape.size()) *
         static_cast<double>(p.transpose_a ? a[axis] : a.back());
}

std::vector<Param<GemmParams>> ParamList(bool has_c) {
  std::vector<Param<GemmParams>> list = {
      {"transpose_a", &GemmParams::transpose_a, "A is transposed."},
      {"transpose_b", &GemmParams::transpose_b, "B is transposed."},
      {"alpha", &GemmParams::alpha, "Factor of the product."}};
  if (has_c) list.push_back({"beta", &GemmParams::beta, "Factor of C."});
  list.push_back({"axis", &GemmParams::axis, "The axis of rows."});
  return list;
}

[[maybe_unused]] const OpDef& gemm2 = Register<GemmParams>({
    .name = "_linalg_gemm2",
    .aliases = {"linalg_gemm2"},
    .doc = "alpha A B, matrix by matrix; A and B may be transposed.",
    .inputs = {{"A", Types::kFloats, "Of shape (..., m, k)."},
               {"B", Types::kFloats, "Of shape (..., k, n)."}},
    .outputs = {{"output", Types::kFloats, "Of shape (..., m, n)."}},
    .params = ParamList(false),
    .infer = [](const GemmParams& p, Specs& in,
                Specs& out) { return InferGemm(p, in, out, "_linalg_gemm2"); },
    .gradient = ProductGradient,
    .uses = {.in = 0b11},
    .cpu = {{"gemm",
             [](const GemmParams& p, const KernelArgs& args) {
               InFloats(args, [&]<typename T>(const Floats<T>& f) {
                 Multiply<T>(p, 0, args.in[0].shape(), args.in[1].shape(),
                             args.out[0].shape(), f.in(0), f.in(1), f.out(0));
               });
             }}},
    .cost = Cost,
    .samples = {{{Normal({2, 3}), Normal({3, 4})}},
                {{Normal({2, 3, 2}), Normal({2, 4, 3})},
                 {.transpose_a = true, .transpose_b = true, .alpha = -0.5}},
                {{Normal({2, 3, 2, 4}), Normal({2, 4, 2, 3})}, {.axis = 1}},
                {{Normal({0, 2, 3}), Normal({0, 3, 4})}}},
});

[[maybe_unused]] const OpDef& gemm = Register<GemmParams>({
    .name = "_linalg_gemm",
    .aliases = {"linalg_gemm"},
    .doc = "alpha A B + beta C, matrix by matrix; A and B may be transposed.",
    .inputs = {{"A", Types::kFloats, "Of shape (..., m, k)."},
               {"B", Types::kFloats, "Of shape (..., k, n)."},
               {"C", Types::kFloats, "Of shape (..., m, n)."}},
    .outputs = {{"output", Types::kFloats, "Of shape (..., m, n)."}},
    .params = ParamList(true),
    .infer = [](const GemmParams& p, Specs& in,
                Specs& out) { return InferGemm(p, in, out, "_linalg_gemm"); },
    .gradient = ProductGradient,
    .uses = {.in = 0b11},
    .cpu = {{"gemm",
             [](const GemmParams& p, const KernelArgs& args) {
               InFloats(args, [&]<typename T>(const Floats<T>& f) {
                 if (f.in(2) != f.out(0)) {
                   std::copy_n(f.in(2), args.out[0].size(), f.out(0));
                 }
                 Multiply<T>(p, p.beta, args.in[0].shape(), args.in[1].shape(),
                             args.out[0].shape(), f.in(0), f.in(1), f.out(0));
               });
             }}},
    .cost = Cost,
    .in_place = {{2, 0}},
    .samples = {{{Normal({2, 3}), Normal({3, 4}), Normal({2, 4})}},
                {{Normal({2, 1, 2}), Normal({2, 1, 2}), Normal({2, 1, 1})},
                 {.transpose_b = true, .alpha = 2, .beta = 10}},
                {{Normal({2, 4, 3}), Normal({2, 4, 4}), Normal({3, 4, 4})},
                 {.transpose_a = true, .alpha = -1, .beta = 0.5, .axis = 0}}},
});

// ---------------------------------------------------------------- syrk

struct SyrkParams {
  bool transpose = false;
  double alpha = 1;
};

[[maybe_unused]] const OpDef& syrk = Register<SyrkParams>({
    .name = "_linalg_syrk",
    .aliases = {"linalg_syrk"},
    .doc = "alpha A A^T, matrix by matrix, or alpha A^T A.",
    .inputs = {{"A", Types::kFloats, "Of shape (..., m, n)."}},
    .outputs = {{"output", Types::kFloats, "Of shape (..., m, m), or (..., n, n)."}},
    .params = {{"transpose", &SyrkParams::transpose, "A^T A is computed."},
               {"alpha", &SyrkParams::alpha, "A factor."}},
    .infer =
        [](const SyrkParams& p, Specs& in, Specs& out) {
          Shape y = in[0].shape;
          CheckMatrices(y, "_linalg_syrk");
          if (!y.rank_known()) return true;
          (p.transpose ? y[y.rank() - 2] : y.back()) =
              p.transpose ? y.back() : y[y.rank() - 2];
          return Unify(y, out[0].shape);
        },
    .gradient = [](const SyrkParams& p, const GradArgs& g) -> Values {
      const Value dy = g.dout(0), both = dy + transposed(dy);
      return {p.transpose ? mm(g.in(0), both, false, false, p.alpha)
                          : mm(both, g.in(0), false, false, p.alpha)};
    },
    .uses = {.in = 0b1},
    .cpu = {{"gemm",
             [](const SyrkParams& p, const KernelArgs& args) {
               const Shape &a = args.in[0].shape(), &y = args.out[0].shape();
               InFloats(args, [&]<typename T>(const Floats<T>& f) {
                 Multiply<T>({p.transpose, !p.transpose, p.alpha}, 0, a, a, y, f.in(0),
                             f.in(0), f.out(0));
               });
             }}},
    .cost =
        [](const SyrkParams& p, const Specs& in, const Specs& out) {
          const Shape& a = in[0].shape;
          return 2.0 * static_cast<double>(out[0].shape.size()) *
                 static_cast<double>(p.transpose ? a[a.rank() - 2] : a.back());
        },
    .samples = {{{Normal({2, 3})}},
                {{Normal({2, 3, 2})}, {.transpose = true, .alpha = 0.5}},
                {{Normal({3, 1, 2})}, {.alpha = -2}}},
});

}  // namespace
}  // namespace plait
