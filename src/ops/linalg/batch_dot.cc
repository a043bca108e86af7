// batch_dot: matrix products over the last two axes, for every index of the others.

#include "graph/math.h"
#include "graph/op.h"
#include "ops/infer.h"
#include "ops/linalg/matmul.h"

namespace plait {
namespace {

enum class SType { kNone, kCsr, kDefault, kRowSparse };

struct BatchDotParams {
  bool transpose_a = false;
  bool transpose_b = false;
  SType forward_stype = SType::kNone;
};

bool Infer(const BatchDotParams& p, Specs& in, Specs& out) {
  Shape &x = in[0].shape, &y = in[1].shape, &z = out[0].shape;
  // As MXNet: ranks, and what is contracted, must be known before anything follows.
  if (!x.rank_known() || !y.rank_known()) return true;
  const int rank = std::max(x.rank(), y.rank());
  for (const Shape* s : {&x, &y}) {
    Check(s->rank() == rank && rank >= 3, "batch_dot: x ", x, " and y ", y,
          " do not match; both must have the same rank, of at least 3");
  }
  const int r = rank - 2, c = rank - 1;
  if (x[p.transpose_a ? r : c] == kUnknownSize ||
      y[p.transpose_b ? c : r] == kUnknownSize)
    return true;
  Shape fact = Shape::Filled(rank, kUnknownSize);
  bool ok = Unify(z, fact);
  for (int i = 0; i < r; ++i) {
    ok = ok && UnifySize(x[i], y[i]) && UnifySize(x[i], z[i]) && UnifySize(x[i], y[i]);
  }
  int64_t &xk = x[p.transpose_a ? r : c], &xm = x[p.transpose_a ? c : r];
  int64_t &yk = y[p.transpose_b ? c : r], &yn = y[p.transpose_b ? r : c];
  ok = ok && UnifySize(xk, yk);
  Check(ok, "batch_dot: x ", x, " and y ", y, " do not match with transpose_a ",
        p.transpose_a, ", transpose_b ", p.transpose_b,
        "; leading axes and the contracted ones must be equal");
  return UnifySize(xm, z[r]) && UnifySize(yn, z[c]);
}

MatMul Problem(const BatchDotParams& p, const Shape& x, const Shape& z) {
  const int r = x.rank() - 2, c = x.rank() - 1;
  return {p.transpose_a, p.transpose_b, z[r], z[c], x[p.transpose_a ? r : c]};
}

Values Gradient(const BatchDotParams& p, const GradArgs& g) {
  const bool ta = p.transpose_a, tb = p.transpose_b;
  const Value dz = g.dout(0);
  Value dx, dy;
  if (g.wants(0)) {
    dx = ta ? batch_dot(g.in(1), dz, tb, true) : batch_dot(dz, g.in(1), false, !tb);
  }
  if (g.wants(1)) {
    dy = tb ? batch_dot(dz, g.in(0), true, ta) : batch_dot(g.in(0), dz, !ta, false);
  }
  return {InTypeOf(dx, g.in_spec(0)), InTypeOf(dy, g.in_spec(1))};
}

void Plain(const BatchDotParams& p, const KernelArgs& args) {
  const MatMul m = Problem(p, args.in[0].shape(), args.out[0].shape());
  const int64_t count = args.out[0].shape().size(0, args.out[0].shape().rank() - 2);
  VisitDType(args.out[0].dtype, [&]<typename T>() {
    for (int64_t i = 0; i < count; ++i) {
      PlainMatMul(m, args.in[0].data<const T>() + i * m.m * m.k,
                  args.in[1].data<const T>() + i * m.k * m.n,
                  args.out[0].data<T>() + i * m.m * m.n);
    }
  });
}

void Gemm(const BatchDotParams& p, const KernelArgs& args) {
  const MatMul m = Problem(p, args.in[0].shape(), args.out[0].shape());
  const int64_t count = args.out[0].shape().size(0, args.out[0].shape().rank() - 2);
  VisitNumber(args.out[0].dtype, [&]<typename T>() {
    FastMatMul(m, args.in[0].data<const T>(), args.in[1].data<const T>(),
               args.out[0].data<T>(), count);
  });
}

const char* GemmDeclines(const BatchDotParams&, const Specs&, const Specs& out) {
  return DeclineBool(out[0].dtype);
}

double Cost(const BatchDotParams& p, const Specs& in, const Specs& out) {
  const Shape& z = out[0].shape;
  return Problem(p, in[0].shape, z).flops() * z.size(0, z.rank() - 2);
}

const OpDef& batch_dot_op = Register<BatchDotParams>({
    .name = "batch_dot",
    .aliases = {"_npx_batch_dot"},
    .doc =
        "Matrix products over the last two axes, for every index of the leading ones.",
    .inputs = {{"lhs", Types::kAny, "x of shape (..., m, k)."},
               {"rhs", Types::kAny, "y of shape (..., k, n)."}},
    .outputs = {{"output", Types::kAny, "Of shape (..., m, n)."}},
    .params = {{"transpose_a", &BatchDotParams::transpose_a, "x is (..., k, m)."},
               {"transpose_b", &BatchDotParams::transpose_b, "y is (..., n, k)."},
               {"forward_stype",
                &BatchDotParams::forward_stype,
                {"None", "csr", "default", "row_sparse"},
                "Storage of the result; a hint."}},
    .types = PromotedTypes<BatchDotParams>,
    .infer = Infer,
    .gradient = Gradient,
    .uses = {.in = 0b11},
    .cpu = {{"gemm", InOneType<Gemm, BatchDotParams>, GemmDeclines},
            {"plain", InOneType<Plain, BatchDotParams>}},
    .cost = Cost,
    .samples = {{{Normal({2, 2, 3}), Normal({2, 3, 4})}},
                {{Normal({2, 3, 2}), Normal({2, 3, 4})}, {.transpose_a = true}},
                {{Normal({2, 2, 3}), Normal({2, 4, 3})}, {.transpose_b = true}},
                {{Normal({2, 3, 2}), Normal({2, 4, 3})},
                 {.transpose_a = true, .transpose_b = true}},
                {{Normal({2, 1, 2, 3}), Normal({2, 1, 3, 2})}}},
});

}  // namespace
}  // namespace plait
