// dot: the product of two arrays over the last axis of the first and the first axis of
// the second.

#include "graph/math.h"
#include "graph/op.h"
#include "ops/infer.h"
#include "ops/linalg/matmul.h"
#include "ops/reduce/kernel.h"

namespace plait {
namespace {

enum class SType { kNone, kCsr, kDefault, kRowSparse };

struct DotParams {
  bool transpose_a = false;
  bool transpose_b = false;
  SType forward_stype = SType::kNone;
};

// Where the contracted axis of x and y stands. A vector has no other.
int ContractedA(const DotParams& p, int rank) {
  return p.transpose_a ? 0 : rank - 1;
}
int ContractedB(const DotParams& p, int rank) {
  return p.transpose_b ? rank - 1 : 0;
}

bool Infer(const DotParams& p, Specs& in, Specs& out) {
  Shape &x = in[0].shape, &y = in[1].shape;
  if (!x.rank_known() || !y.rank_known()) return true;
  Check(x.rank() > 0 && y.rank() > 0, "dot: x ", x, " and y ", y,
        "; arrays of at least one axis were expected");
  Check(x.rank() > 1 || y.rank() > 1 || !(p.transpose_a || p.transpose_b), "dot: x ", x,
        " and y ", y, " are vectors; transposes need a matrix");
  const int a = ContractedA(p, x.rank()), b = ContractedB(p, y.rank());
  Check(UnifySize(x[a], y[b]), "dot: x ", x, " and y ", y, " do not match; x.shape[", a,
        "] must equal y.shape[", b, "]");
  Shape z;
  for (int i = 0; i < x.rank(); ++i) {
    if (i != a) z.Append(x[i]);
  }
  for (int i = 0; i < y.rank(); ++i) {
    if (i != b) z.Append(y[i]);
  }
  if (z.rank() == 0) z.Append(1);  // two vectors give one number, of shape (1,)
  return Unify(out[0].shape, z);
}

// Arrays of any rank are seen as matrices: all other axes are one.
MatMul Problem(const DotParams& p, const Shape& x, const Shape& y) {
  MatMul m{p.transpose_a && x.rank() > 1, p.transpose_b && y.rank() > 1};
  const int a = ContractedA(p, x.rank()), b = ContractedB(p, y.rank());
  m.k = x[a];
  m.m = a == 0 ? x.size(1, x.rank()) : x.size(0, a);
  m.n = b == 0 ? y.size(1, y.rank()) : y.size(0, b);
  return m;
}

Value Matrix(const Value& x, int64_t rows, int64_t columns) {
  const Shape shape{rows, columns};
  return x.shape() == shape ? x : reshape(x, shape);
}
Value Shaped(const Value& x, const Shape& shape) {
  return x.shape() == shape ? x : reshape(x, shape);
}

// z = op(x) op(y): d op(x) = dz op(y)^T, d op(y) = op(x)^T dz.
Values Gradient(const DotParams& p, const GradArgs& g) {
  const Shape &xs = g.in_spec(0).shape, &ys = g.in_spec(1).shape;
  const MatMul m = Problem(p, xs, ys);
  const Value dz = Matrix(g.dout(0), m.m, m.n);
  Value dx, dy;
  if (g.wants(0)) {
    const Value y = m.trans_b ? Matrix(g.in(1), m.n, m.k) : Matrix(g.in(1), m.k, m.n);
    dx = Shaped(m.trans_a ? dot(y, dz, m.trans_b, true) : dot(dz, y, false, !m.trans_b),
                xs);
  }
  if (g.wants(1)) {
    const Value x = m.trans_a ? Matrix(g.in(0), m.k, m.m) : Matrix(g.in(0), m.m, m.k);
    dy = Shaped(m.trans_b ? dot(dz, x, true, m.trans_a) : dot(x, dz, !m.trans_a, false),
                ys);
  }
  return {InTypeOf(dx, g.in_spec(0)), InTypeOf(dy, g.in_spec(1))};
}

void Plain(const DotParams& p, const KernelArgs& args) {
  const MatMul m = Problem(p, args.in[0].shape(), args.in[1].shape());
  VisitDType(args.out[0].dtype, [&]<typename T>() {
    PlainMatMul(m, args.in[0].data<const T>(), args.in[1].data<const T>(),
                args.out[0].data<T>());
  });
}

// Two long vectors: a sum at the speed of memory.
void LongVectors(const KernelArgs& args, int64_t n) {
  const Shape shape{n};
  const View &x = args.in[0], &y = args.in[1], &z = args.out[0];
  const auto product = [](std::span<const Pw> in) {
    const DType wide = SumDType(in[0].dtype());
    return Cast(in[0], wide) * Cast(in[1], wide);
  };
  ReduceInto({{x.ptr, x.dtype, &shape}, {y.ptr, y.dtype, &shape}}, product,
             Reduction::kSum, 1, 1, z.ptr, z.dtype);
}

void Gemm(const DotParams& p, const KernelArgs& args) {
  constexpr int64_t kLong = 4096;
  const MatMul m = Problem(p, args.in[0].shape(), args.in[1].shape());
  if (m.m == 1 && m.n == 1 && m.k >= kLong && IsFloat(args.out[0].dtype)) {
    LongVectors(args, m.k);
    return;
  }
  VisitNumber(args.out[0].dtype, [&]<typename T>() {
    FastMatMul(m, args.in[0].data<const T>(), args.in[1].data<const T>(),
               args.out[0].data<T>());
  });
}

const char* GemmDeclines(const DotParams&, const Specs&, const Specs& out) {
  return DeclineBool(out[0].dtype);
}

// Half types give float32.
void WideTypes(const DotParams& p, Specs& in, Specs& out) {
  Specs same(1);
  PromotedTypes(p, in, same);
  const DType x = same[0].dtype;
  out[0].dtype = IsHalf(x) ? DType::kFloat32 : x;
}

void WideGemm(const DotParams& p, const KernelArgs& args) {
  const MatMul m = Problem(p, args.in[0].shape(), args.in[1].shape());
  VisitNumber(args.in[0].dtype, [&]<typename T>() {
    const T *const a = args.in[0].data<const T>(), *const b =
                                                       args.in[1].data<const T>();
    if constexpr (std::is_arithmetic_v<T>) {
      FastMatMul(m, a, b, args.out[0].data<T>());
    } else {
      cpu::GemmToFloat(m.trans_a, m.trans_b, m.m, m.n, m.k, 1, a, m.lda(), b, m.ldb(),
                       0, args.out[0].data<float>(), m.n);
    }
  });
}

const char* WideDeclines(const DotParams&, const Specs& in, const Specs& out) {
  if (in[0].dtype != in[1].dtype) return "two dtypes";
  return DeclineBool(out[0].dtype);
}

double Cost(const DotParams& p, const Specs& in, const Specs&) {
  return Problem(p, in[0].shape, in[1].shape).flops();
}

const OpDef& dot_op = Register<DotParams>({
    .name = "dot",
    .aliases = {"_sparse_dot"},
    .doc = "The product over the last axis of x and the first axis of y; of matrices, "
           "the matrix product.",
    .inputs = {{"lhs", Types::kAny, "x, of any rank."},
               {"rhs", Types::kAny, "y, of any rank."}},
    .outputs = {{"output", Types::kAny, "The remaining axes of x, then those of y."}},
    .params = {{"transpose_a", &DotParams::transpose_a,
                "Contract the first axis of x instead."},
               {"transpose_b", &DotParams::transpose_b,
                "Contract the last axis of y instead."},
               {"forward_stype",
                &DotParams::forward_stype,
                {"None", "csr", "default", "row_sparse"},
                "Storage of the result; a hint."}},
    .types = PromotedTypes<DotParams>,
    .infer = Infer,
    .gradient = Gradient,
    .uses = {.in = 0b11},
    .cpu = {{"gemm", InOneType<Gemm, DotParams>, GemmDeclines},
            {"plain", InOneType<Plain, DotParams>}},
    .cost = Cost,
    .samples = {{{Normal({2, 3}), Normal({3, 4})}},
                {{Normal({3, 2}), Normal({3, 4})}, {.transpose_a = true}},
                {{Normal({2, 3}), Normal({4, 3})}, {.transpose_b = true}},
                {{Normal({3, 2}), Normal({4, 3})},
                 {.transpose_a = true, .transpose_b = true}},
                {{Normal({5}), Normal({5})}},
                {{Normal({2, 3, 4}), Normal({4})}},
                {{Normal({2, 3, 4}), Normal({4, 2, 2})}},
                {{Normal({2, 3, 4}), Normal({3, 1, 2})},
                 {.transpose_a = true, .transpose_b = true}}},
});

// What graphs make of a product of half types that only a cast to float32 reads.
[[maybe_unused]] const OpDef& dot_wide = Register<DotParams>({
    .name = "_dot_float32",
    .doc = "dot, of half types with the sums as they are: in float32.",
    .inputs = {{"lhs", Types::kAny, "x, of any rank."},
               {"rhs", Types::kAny, "y, of any rank."}},
    .outputs = {{"output", Types::kAny, "The remaining axes of x, then those of y."}},
    .params = {{"transpose_a", &DotParams::transpose_a, "As of dot."},
               {"transpose_b", &DotParams::transpose_b, "As of dot."},
               {"forward_stype",
                &DotParams::forward_stype,
                {"None", "csr", "default", "row_sparse"},
                "As of dot."}},
    .types = WideTypes,
    .infer = Infer,
    .cpu = {{"gemm", WideGemm, WideDeclines}, {"plain", InOneType<Plain, DotParams>}},
    .cost = Cost,
    .samples = {{{Normal({2, 3}), Normal({3, 4})}},
                {{Normal({3, 2}), Normal({3, 4})}, {.transpose_a = true}}},
});

}  // namespace
}  // namespace plait
