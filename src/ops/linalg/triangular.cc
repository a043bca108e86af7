// Products with, and solutions of, triangular matrices.

#include "ops/infer.h"
#include "ops/linalg/matrices.h"

namespace plait {
namespace {

struct TriangularParams {
  bool transpose = false;
  bool rightside = false;
  bool lower = true;
  double alpha = 1;
};
using P = TriangularParams;

bool Infer(const P& p, Specs& in, Specs& out) {
  Shape &a = in[0].shape, &b = in[1].shape;
  if (!Unify(b, out[0].shape)) return false;
  if (!CheckMatrices("triangular product", a, true) ||
      !CheckMatrices("triangular product", b, false)) {
    return true;
  }
  bool fits = a.rank() == b.rank();
  for (int i = 0; fits && i < a.rank() - 2; ++i) fits = a[i] == b[i];
  Check(fits && a.back() == b[b.rank() - (p.rightside ? 1 : 2)],
        "triangular product: A ", a, " and B ", b, " do not match with rightside ",
        p.rightside, "; equal leading and contracted axes were expected");
  return true;
}

// op(A), with zeros in the other triangle.
Matrix Operand(const P& p, const Matrix& a) {
  Matrix t = a;
  for (int64_t i = 0; i < a.rows; ++i) {
    for (int64_t j = 0; j < a.cols; ++j) {
      if (p.lower ? j > i : j < i) t(i, j) = 0;
    }
  }
  return p.transpose ? Transposed(t) : t;
}

void Multiply(const P& p, const KernelArgs& args) {
  ForEachMatrix(args, 2, [&](const std::vector<Matrix>& in, std::vector<Matrix>& out) {
    const Matrix a = Operand(p, in[0]);
    out[0] = p.rightside ? Product(in[1], a) : Product(a, in[1]);
    for (double& v : out[0].v) v *= p.alpha;
  });
}

// Solves A X = B for X, in place, where A is lower or upper.
void SolveLeft(const Matrix& a, bool lower, Matrix& x) {
  const int64_t n = a.rows;
  for (int64_t step = 0; step < n; ++step) {
    const int64_t i = lower ? step : n - 1 - step;
    for (int64_t j = 0; j < x.cols; ++j) {
      double sum = x(i, j);
      for (int64_t k = lower ? 0 : i + 1; k < (lower ? i : n); ++k) {
        sum -= a(i, k) * x(k, j);
      }
      x(i, j) = sum / a(i, i);
    }
  }
}

// X op(A) = B is op(A)^T X^T = B^T.
void Solve(const P& p, const KernelArgs& args) {
  ForEachMatrix(args, 2, [&](const std::vector<Matrix>& in, std::vector<Matrix>& out) {
    const Matrix a = Operand(p, in[0]);
    const bool lower = p.lower != p.transpose;
    Matrix x = p.rightside ? Transposed(in[1]) : in[1];
    for (double& v : x.v) v *= p.alpha;
    SolveLeft(p.rightside ? Transposed(a) : a, lower != p.rightside, x);
    out[0] = p.rightside ? Transposed(x) : x;
  });
}

// Y = alpha op(A) B: dB = alpha op(A)^T dY, d op(A) = alpha dY B^T.
Values MultiplyGradient(const P& p, const GradArgs& g) {
  const Value &a = g.in(0), &b = g.in(1), &dy = g.dout(0);
  Values result(2);
  if (g.wants(0)) {
    const bool flip = p.transpose;
    const Value left = p.rightside ? (flip ? MatMulOf(dy, b, true, false, p.alpha)
                                           : MatMulOf(b, dy, true, false, p.alpha))
                                   : (flip ? MatMulOf(b, dy, false, true, p.alpha)
                                           : MatMulOf(dy, b, false, true, p.alpha));
    result[0] = Triangle(left, p.lower);
  }
  if (g.wants(1)) {
    result[1] = TriangularMultiply(a, dy, !p.transpose, p.rightside, p.lower, p.alpha);
  }
  return result;
}

// op(A) X = alpha B: with G = op(A)^-T dX, dB = alpha G and d op(A) = -G X^T.
Values SolveGradient(const P& p, const GradArgs& g) {
  const Value &a = g.in(0), &x = g.out(0);
  const Value solved =
      TriangularSolve(a, g.dout(0), !p.transpose, p.rightside, p.lower);
  Values result(2);
  if (g.wants(0)) {
    const bool flip = p.transpose;
    const Value d = p.rightside ? (flip ? MatMulOf(solved, x, true, false, -1)
                                        : MatMulOf(x, solved, true, false, -1))
                                : (flip ? MatMulOf(x, solved, false, true, -1)
                                        : MatMulOf(solved, x, false, true, -1));
    result[0] = Triangle(d, p.lower);
  }
  if (g.wants(1)) result[1] = p.alpha == 1 ? solved : solved * p.alpha;
  return result;
}

std::vector<Param<P>> ParamList() {
  return {{"transpose", &P::transpose, "Takes A transposed."},
          {"rightside", &P::rightside, "A stands to the right."},
          {"lower", &P::lower, "Which triangle of A counts."},
          {"alpha", &P::alpha, "Multiplies B."}};
}

SampleInput Solvable(Shape shape) {
  return Uniform(std::move(shape), 1, 2);
}

std::vector<Sample<P>> Samples() {
  return {{{Solvable({2, 2}), Normal({2, 3})}, {.alpha = 2}},
          {{Solvable({2, 2}), Normal({2, 3})}, {.transpose = true, .lower = false}},
          {{Solvable({2, 3, 3}), Normal({2, 2, 3})}, {.rightside = true, .alpha = 0.5}},
          {{Solvable({2, 2}), Normal({3, 2})},
           {.transpose = true, .rightside = true, .lower = false}}};
}

double Cost(const P&, const Specs& in, const Specs&) {
  return static_cast<double>(in[0].shape.size()) * in[1].shape.back();
}

const OpDef& trmm = Register<P>({
    .name = "_linalg_trmm",
    .aliases = {"linalg_trmm"},
    .doc = "alpha op(A) B, or alpha B op(A), with triangular A.",
    .inputs = {{"A", Types::kFloats, "Triangular, (..., n, n)."},
               {"B", Types::kFloats, "(..., n, m), or (..., m, n) with rightside."}},
    .params = ParamList(),
    .infer = Infer,
    .gradient = MultiplyGradient,
    .uses = {.in = 0b11},
    .cpu = {{"plain", Multiply}},
    .cost = Cost,
    .samples = Samples(),
});

const OpDef& trsm = Register<P>({
    .name = "_linalg_trsm",
    .aliases = {"linalg_trsm"},
    .doc = "X with op(A) X = alpha B, or X op(A) = alpha B, with triangular A.",
    .inputs = {{"A", Types::kFloats, "Triangular, (..., n, n)."},
               {"B", Types::kFloats, "(..., n, m), or (..., m, n) with rightside."}},
    .params = ParamList(),
    .infer = Infer,
    .gradient = SolveGradient,
    .uses = {.in = 0b1, .out = 0b1},
    .cpu = {{"plain", Solve}},
    .cost = Cost,
    .samples = Samples(),
});

struct TriangleParams {
  bool lower = true;
  double diagonal = 1;
};

void KeepTriangle(const TriangleParams& p, const KernelArgs& args) {
  ForEachMatrix(args, 2, [&](const std::vector<Matrix>& in, std::vector<Matrix>& out) {
    for (int64_t i = 0; i < in[0].rows; ++i) {
      for (int64_t j = 0; j < in[0].cols; ++j) {
        const double v = in[0](i, j);
        out[0](i, j) = i == j ? v * p.diagonal : (j < i) == p.lower ? v : 0;
      }
    }
  });
}

const OpDef& triangle = Register<TriangleParams>({
    .name = "_linalg_triangle",
    .doc = "A triangle of A, with its diagonal multiplied; zeros elsewhere.",
    .inputs = {{"A", Types::kFloats, "(..., n, n)."}},
    .params = {{"lower", &TriangleParams::lower, "Which triangle."},
               {"diagonal", &TriangleParams::diagonal, "Multiplies the diagonal."}},
    .infer =
        [](const TriangleParams&, Specs& in, Specs& out) {
          CheckMatrices("_linalg_triangle", in[0].shape, false);
          return Unify(in[0].shape, out[0].shape);
        },
    .gradient = [](const TriangleParams& p, const GradArgs& g) -> Values {
      return {Triangle(g.dout(0), p.lower, p.diagonal)};
    },
    .cpu = {{"plain", KeepTriangle}},
    .samples = {{{Normal({3, 3})}, {.diagonal = 0.5}},
                {{Normal({2, 3, 3})}, {.lower = false}}},
});

}  // namespace

Value Triangle(const Value& a, bool lower, double diagonal) {
  return ApplyOne(triangle, MakeParams(TriangleParams{lower, diagonal}), {&a, 1});
}
Value TriangularMultiply(const Value& a, const Value& b, bool transpose, bool rightside,
                         bool lower, double alpha) {
  const Value inputs[] = {a, b};
  return ApplyOne(trmm, MakeParams(P{transpose, rightside, lower, alpha}), inputs);
}
Value TriangularSolve(const Value& a, const Value& b, bool transpose, bool rightside,
                      bool lower, double alpha) {
  const Value inputs[] = {a, b};
  return ApplyOne(trsm, MakeParams(P{transpose, rightside, lower, alpha}), inputs);
}

}  // namespace plait
