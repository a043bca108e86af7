// _linalg_gemm, _linalg_gemm2 and _linalg_syrk: products of batches of matrices.

#include "ops/infer.h"
#include "ops/linalg/matmul.h"
#include "ops/linalg/matrices.h"

namespace plait {
namespace {

struct GemmParams {
  bool transpose_a = false, transpose_b = false;
  double alpha = 1, beta = 1;
  int64_t axis = -2;  // where the rows are; columns are always last
};
using P = GemmParams;

int RowAxis(const P& p, int rank, const char* op) {
  const int axis = NormalizeAxis(p.axis, rank, op);
  Check(axis < rank - 1, op, ": axis is ", p.axis, " for matrices of ", rank,
        " axes; the rows cannot be the last axis");
  return axis;
}

bool Infer(const P& p, Specs& in, Specs& out) {
  const char* op = in.size() == 3 ? "_linalg_gemm" : "_linalg_gemm2";
  const Shape &a = in[0].shape, &b = in[1].shape;
  if (!CheckMatrices(op, a, false) || !CheckMatrices(op, b, false)) return true;
  Check(a.rank() == b.rank(), op, ": A ", a, " and B ", b,
        " do not match; equal numbers of axes were expected");
  const int row = RowAxis(p, a.rank(), op), last = a.rank() - 1;
  Shape c = a;
  for (int i = 0; i < last; ++i) {
    Check(i == row || a[i] == b[i], op, ": A ", a, " and B ", b,
          " do not match; leading axes must be equal");
  }
  Check(a[p.transpose_a ? row : last] == b[p.transpose_b ? last : row], op, ": A ", a,
        " and B ", b, " do not match with transpose_a ", p.transpose_a,
        ", transpose_b ", p.transpose_b, "; the contracted axes must be equal");
  c[row] = a[p.transpose_a ? last : row];
  c[last] = b[p.transpose_b ? row : last];
  if (in.size() == 3) {
    Check(Assign(in[2].shape, c), op, ": C ", in[2].shape, " does not fit; ", c,
          " was expected");
  }
  return Assign(out[0].shape, c);
}

// Between leading and trailing batches, the rows of a matrix are `step` elements apart.
void Forward(const P& p, const KernelArgs& args) {
  const Shape &a = args.in[0].shape(), &b = args.in[1].shape(),
              &c = args.out[0].shape();
  const int rank = a.rank(), row = RowAxis(p, rank, "_linalg_gemm"), last = rank - 1;
  const int64_t outer = c.size(0, row), inner = c.size(row + 1, last);
  const int64_t m = c[row], n = c[last], k = a[p.transpose_a ? row : last];
  const bool add = args.in.size() == 3;
  VisitFloat(args.out[0].dtype, [&]<typename T>() {
    T* y = args.out[0].data<T>();
    if (add) std::copy_n(args.in[2].data<const T>(), args.out[0].size(), y);
    for (int64_t i = 0; i < outer; ++i) {
      cpu::GemmBatch(
          inner, p.transpose_a, p.transpose_b, m, n, k, p.alpha,
          args.in[0].data<const T>() + i * a.size(row, rank), inner * a[last], a[last],
          args.in[1].data<const T>() + i * b.size(row, rank), inner * b[last], b[last],
          add ? p.beta : 0, y + i * c.size(row, rank), inner * n, n);
    }
  });
}

Value Gemm2(const Value& a, const Value& b, bool ta, bool tb, double alpha,
            int64_t axis);

Values Gradient(const P& p, const GradArgs& g) {
  const bool ta = p.transpose_a, tb = p.transpose_b;
  const Value& dc = g.dout(0);
  Values result(g.num_inputs());
  if (g.wants(0)) {
    result[0] = ta ? Gemm2(g.in(1), dc, tb, true, p.alpha, p.axis)
                   : Gemm2(dc, g.in(1), false, !tb, p.alpha, p.axis);
  }
  if (g.wants(1)) {
    result[1] = tb ? Gemm2(dc, g.in(0), true, ta, p.alpha, p.axis)
                   : Gemm2(g.in(0), dc, !ta, false, p.alpha, p.axis);
  }
  if (g.num_inputs() == 3 && g.wants(2)) {
    result[2] = p.beta == 1 ? dc : dc * p.beta;
  }
  return result;
}

double Cost(const P& p, const Specs& in, const Specs& out) {
  const Shape& a = in[0].shape;
  return 2.0 * static_cast<double>(out[0].shape.size()) *
         a[p.transpose_a ? (p.axis < 0 ? a.rank() + p.axis : p.axis) : a.rank() - 1];
}

std::vector<Param<P>> ParamList(bool add) {
  std::vector<Param<P>> rows = {{"transpose_a", &P::transpose_a, "A is transposed."},
                                {"transpose_b", &P::transpose_b, "B is transposed."},
                                {"alpha", &P::alpha, "Multiplies the product."}};
  if (add) rows.push_back({"beta", &P::beta, "Multiplies C."});
  rows.push_back({"axis", &P::axis, "The axis of the rows; columns are the last."});
  return rows;
}

const OpDef& gemm = Register<P>({
    .name = "_linalg_gemm",
    .aliases = {"linalg_gemm"},
    .doc = "alpha op(A) op(B) + beta C, for batches of matrices.",
    .inputs = {{"A", Types::kFloats, "(..., m, k)."},
               {"B", Types::kFloats, "(..., k, n)."},
               {"C", Types::kFloats, "(..., m, n)."}},
    .params = ParamList(true),
    .infer = Infer,
    .gradient = Gradient,
    .uses = {.in = 0b11},
    .cpu = {{"plain", Forward}},
    .cost = Cost,
    .samples = {{{Normal({2, 3}), Normal({3, 4}), Normal({2, 4})},
                 {.alpha = 2, .beta = 0.5}},
                {{Normal({2, 3, 2}), Normal({2, 4, 3}), Normal({2, 2, 4})},
                 {.transpose_a = true, .transpose_b = true}},
                {{Normal({2, 3, 4}), Normal({4, 3, 2}), Normal({2, 3, 2})},
                 {.axis = 0}}},
});

const OpDef& gemm2 = Register<P>({
    .name = "_linalg_gemm2",
    .aliases = {"linalg_gemm2"},
    .doc = "alpha op(A) op(B), for batches of matrices.",
    .inputs = {{"A", Types::kFloats, "(..., m, k)."},
               {"B", Types::kFloats, "(..., k, n)."}},
    .params = ParamList(false),
    .infer = Infer,
    .gradient = Gradient,
    .uses = {.in = 0b11},
    .cpu = {{"plain", Forward}},
    .cost = Cost,
    .samples = {{{Normal({2, 3}), Normal({3, 4})}, {.alpha = 2}},
                {{Normal({2, 2, 3}), Normal({2, 4, 3})}, {.transpose_b = true}},
                {{Normal({3, 2, 4}), Normal({3, 2, 4})},
                 {.transpose_a = true, .axis = 0}}},
});

Value Gemm2(const Value& a, const Value& b, bool ta, bool tb, double alpha,
            int64_t axis) {
  const Value inputs[] = {a, b};
  return ApplyOne(
      gemm2,
      MakeParams(P{.transpose_a = ta, .transpose_b = tb, .alpha = alpha, .axis = axis}),
      inputs);
}

struct SyrkParams {
  bool transpose = false;
  double alpha = 1;
};

bool InferSyrk(const SyrkParams& p, Specs& in, Specs& out) {
  const Shape& a = in[0].shape;
  if (!CheckMatrices("_linalg_syrk", a, false)) return true;
  Shape c = a;
  c[a.rank() - 1] = c[a.rank() - 2] = a[a.rank() - (p.transpose ? 1 : 2)];
  return Assign(out[0].shape, c);
}

void Syrk(const SyrkParams& p, const KernelArgs& args) {
  const Shape &a = args.in[0].shape(), &c = args.out[0].shape();
  const int rank = a.rank();
  const int64_t batch = a.size(0, rank - 2), n = c.back();
  const int64_t k = a[rank - (p.transpose ? 2 : 1)];
  VisitFloat(args.out[0].dtype, [&]<typename T>() {
    const T* src = args.in[0].data<const T>();
    cpu::GemmBatch(batch, p.transpose, !p.transpose, n, n, k, p.alpha, src, a.back(),
                   n * k, src, a.back(), n * k, 0, args.out[0].data<T>(), n, n * n);
  });
}

// dA = alpha (dC + dC^T) A.
Values SyrkGradient(const SyrkParams& p, const GradArgs& g) {
  const Value both = g.dout(0) + TransposedMatrices(g.dout(0));
  return {p.transpose ? MatMulOf(g.in(0), both, false, false, p.alpha)
                      : MatMulOf(both, g.in(0), false, false, p.alpha)};
}

const OpDef& syrk = Register<SyrkParams>({
    .name = "_linalg_syrk",
    .aliases = {"linalg_syrk"},
    .doc = "alpha A A^T, or alpha A^T A, for batches of matrices.",
    .inputs = {{"A", Types::kFloats, "(..., m, n)."}},
    .params = {{"transpose", &SyrkParams::transpose, "Gives A^T A."},
               {"alpha", &SyrkParams::alpha, "Multiplies the product."}},
    .infer = InferSyrk,
    .gradient = SyrkGradient,
    .uses = {.in = 0b1},
    .cpu = {{"plain", Syrk}},
    .samples = {{{Normal({2, 3})}, {.alpha = 2}},
                {{Normal({2, 2, 3})}, {.transpose = true}}},
});

}  // namespace

Value MatMulOf(const Value& a, const Value& b, bool transpose_a, bool transpose_b,
               double alpha) {
  return Gemm2(a, b, transpose_a, transpose_b, alpha, -2);
}

Value TransposedMatrices(const Value& a) {
  Shape axes = a.shape();
  for (int i = 0; i < axes.rank(); ++i) axes[i] = i;
  std::swap(axes[axes.rank() - 1], axes[axes.rank() - 2]);
  return transpose(a, axes);
}

}  // namespace plait
