// Factorizations: Cholesky, LQ, eigenvalues of symmetric matrices.

#include <algorithm>
#include <cmath>
#include <numeric>

#include "ops/infer.h"
#include "ops/linalg/matrices.h"

namespace plait {
namespace {

struct CholeskyParams {
  bool lower = true;
};

bool InferSquare(const char* op, Specs& in, Specs& out) {
  if (!Unify(in[0].shape, out[0].shape)) return false;
  CheckMatrices(op, in[0].shape, true);
  return true;
}

// The mean of A and A^T: what a symmetric A is, and smooth in every element.
Matrix Symmetric(const Matrix& a) {
  Matrix s = a;
  for (int64_t i = 0; i < a.rows; ++i)
    for (int64_t j = 0; j < a.cols; ++j) s(i, j) = (a(i, j) + a(j, i)) / 2;
  return s;
}

// Lower L with L L^T = a.
Matrix Cholesky(const Matrix& a) {
  const int64_t n = a.rows;
  Matrix l(n, n);
  for (int64_t j = 0; j < n; ++j) {
    double d = a(j, j);
    for (int64_t k = 0; k < j; ++k) d -= l(j, k) * l(j, k);
    Check(d > 0, "_linalg_potrf: pivot ", j, " is ", d,
          "; a positive definite matrix was expected");
    l(j, j) = std::sqrt(d);
    for (int64_t i = j + 1; i < n; ++i) {
      double sum = a(i, j);
      for (int64_t k = 0; k < j; ++k) sum -= l(i, k) * l(j, k);
      l(i, j) = sum / l(j, j);
    }
  }
  return l;
}

void Potrf(const CholeskyParams& p, const KernelArgs& args) {
  ForEachMatrix(args, 2, [&](const std::vector<Matrix>& in, std::vector<Matrix>& out) {
    const Matrix l = Cholesky(Symmetric(in[0]));
    out[0] = p.lower ? l : Transposed(l);
  });
}

// With F(M) the lower triangle of M and half its diagonal:
// dA = L^-T F(L^T dL) L^-1, made symmetric.
Values PotrfGradient(const CholeskyParams& p, const GradArgs& g) {
  const Value l = p.lower ? g.out(0) : TransposedMatrices(g.out(0));
  const Value dl = p.lower ? g.dout(0) : TransposedMatrices(g.dout(0));
  const Value inner = Triangle(MatMulOf(l, dl, true, false), true, 0.5);
  const Value half = TriangularSolve(l, inner, true, false, true);
  const Value s = TriangularSolve(l, half, false, true, true);
  return {(s + TransposedMatrices(s)) * 0.5};
}

SampleInput Definite() {
  return Numbers({2, 2}, {2, 0.5, 0.5, 1});
}
SampleInput DefiniteBatch() {
  return Numbers({2, 3, 3}, {4, 1, 0, 1, 3, -1, 0, -1, 2,  //
                             2, 0, .5, 0, 1, 0, .5, 0, 3});
}

const OpDef& potrf = Register<CholeskyParams>({
    .name = "_linalg_potrf",
    .aliases = {"linalg_potrf"},
    .doc = "Cholesky's factor: L with L L^T = A, or the upper U with U^T U = A.",
    .inputs = {{"A", Types::kFloats, "Positive definite, (..., n, n)."}},
    .params = {{"lower", &CholeskyParams::lower, "Gives the lower factor."}},
    .infer = [](const CholeskyParams&, Specs& in,
                Specs& out) { return InferSquare("_linalg_potrf", in, out); },
    .gradient = PotrfGradient,
    .uses = {.out = 0b1},
    .cpu = {{"plain", Potrf}},
    .may_fail = true,
    .samples = {{{Definite()}}, {{DefiniteBatch()}, {.lower = false}}},
});

// inverse(L L^T) = L^-T L^-1.
void Potri(const CholeskyParams& p, const KernelArgs& args) {
  ForEachMatrix(args, 2, [&](const std::vector<Matrix>& in, std::vector<Matrix>& out) {
    const Matrix l = p.lower ? in[0] : Transposed(in[0]);
    const int64_t n = l.rows;
    Matrix inverse(n, n);
    for (int64_t j = 0; j < n; ++j) {
      for (int64_t i = j; i < n; ++i) {
        double sum = i == j ? 1 : 0;
        for (int64_t k = j; k < i; ++k) sum -= l(i, k) * inverse(k, j);
        inverse(i, j) = sum / l(i, i);
      }
    }
    out[0] = Product(Transposed(inverse), inverse);
  });
}

// B = (L L^T)^-1: dL is the triangle of -B (dB + dB^T) B L.
Values PotriGradient(const CholeskyParams& p, const GradArgs& g) {
  const Value& b = g.out(0);
  const Value both = g.dout(0) + TransposedMatrices(g.dout(0));
  const Value m = MatMulOf(MatMulOf(b, both), b);
  return {
      p.lower
          ? Triangle(MatMulOf(m, Triangle(g.in(0), true), false, false, -1), true)
          : Triangle(MatMulOf(Triangle(g.in(0), false), m, false, false, -1), false)};
}

const OpDef& potri = Register<CholeskyParams>({
    .name = "_linalg_potri",
    .aliases = {"linalg_potri"},
    .doc = "The inverse of L L^T (or U^T U) from its Cholesky factor.",
    .inputs = {{"A", Types::kFloats, "The factor, (..., n, n)."}},
    .params = {{"lower", &CholeskyParams::lower, "A is the lower factor."}},
    .infer = [](const CholeskyParams&, Specs& in,
                Specs& out) { return InferSquare("_linalg_potri", in, out); },
    .gradient = PotriGradient,
    .uses = {.in = 0b1, .out = 0b1},
    .cpu = {{"plain", Potri}},
    .samples = {{{Uniform({3, 3}, 1, 2)}},
                {{Uniform({2, 2, 2}, 1, 2)}, {.lower = false}}},
});

// ---------------------------------------------------------------- LQ

bool InferLq(const NoParams&, Specs& in, Specs& out) {
  const Shape& a = in[0].shape;
  if (!Unify(in[0].shape, out[0].shape)) return false;
  if (!CheckMatrices("_linalg_gelqf", a, false)) return true;
  const int64_t m = a[a.rank() - 2], n = a.back();
  Check(m <= n, "_linalg_gelqf: A ", a, " has more rows than columns; at most as many ",
        "were expected");
  Shape l = a;
  l.back() = m;
  return Assign(out[1].shape, l);
}

// Rows are made orthonormal one after the other, twice for exactness.
void Gelqf(const NoParams&, const KernelArgs& args) {
  ForEachMatrix(args, 2, [&](const std::vector<Matrix>& in, std::vector<Matrix>& out) {
    Matrix &q = out[0], &l = out[1];
    q = in[0];
    for (int64_t i = 0; i < q.rows; ++i) {
      for (int round = 0; round < 2; ++round) {
        for (int64_t k = 0; k < i; ++k) {
          double along = 0;
          for (int64_t j = 0; j < q.cols; ++j) along += q(i, j) * q(k, j);
          for (int64_t j = 0; j < q.cols; ++j) q(i, j) -= along * q(k, j);
          l(i, k) += along;
        }
      }
      double norm = 0;
      for (int64_t j = 0; j < q.cols; ++j) norm += q(i, j) * q(i, j);
      l(i, i) = std::sqrt(norm);
      for (int64_t j = 0; j < q.cols; ++j) q(i, j) /= l(i, i);
    }
  });
}

// dA = L^-T (dQ + C(L^T dL - dQ Q^T) Q), where C copies the lower triangle up.
Values GelqfGradient(const NoParams&, const GradArgs& g) {
  const Value &q = g.out(0), &l = g.out(1);
  Value dq = g.dout(0);
  const Value m = MatMulOf(l, g.dout(1), true, false) - MatMulOf(dq, q, false, true);
  const Value c = Triangle(m, true) + TransposedMatrices(Triangle(m, true, 0));
  return {TriangularSolve(l, dq + MatMulOf(c, q), true, false, true)};
}

const OpDef& gelqf = Register<NoParams>({
    .name = "_linalg_gelqf",
    .aliases = {"linalg_gelqf"},
    .doc =
        "Q and L with A = L Q, orthonormal rows of Q and a lower triangular L with a "
        "positive diagonal.",
    .inputs = {{"A", Types::kFloats, "(..., m, n) with m <= n."}},
    .outputs = {{"Q", Types::kFloats, "(..., m, n)."},
                {"L", Types::kFloats, "(..., m, m)."}},
    .infer = InferLq,
    .gradient = GelqfGradient,
    .uses = {.out = 0b11},
    .cpu = {{"plain", Gelqf}},
    .samples = {{{Numbers({2, 3}, {1, 2, 0, -1, 0.5, 2})}},
                {{Numbers({2, 2, 2}, {1, 0.5, -1, 2, 3, 1, 0, 2})}}},
});

// ---------------------------------------------------------------- eigenvalues

bool InferEigen(const NoParams&, Specs& in, Specs& out) {
  if (!InferSquare("_linalg_syevd", in, out)) return false;
  Shape l = in[0].shape;
  if (!l.rank_known()) return true;
  l.Erase(l.rank() - 1);
  return Assign(out[1].shape, l);
}

// One rotation of Jacobi's method: makes a(p, q) zero.
void Rotate(Matrix& a, Matrix& u, int64_t p, int64_t q) {
  const double theta = (a(q, q) - a(p, p)) / (2 * a(p, q));
  const double t =
      (theta < 0 ? -1 : 1) / (std::abs(theta) + std::sqrt(theta * theta + 1));
  const double c = 1 / std::sqrt(t * t + 1), s = t * c;
  const int64_t n = a.rows;
  for (int64_t k = 0; k < n; ++k) {
    const double x = a(k, p), y = a(k, q);
    a(k, p) = c * x - s * y;
    a(k, q) = s * x + c * y;
  }
  for (int64_t k = 0; k < n; ++k) {
    const double x = a(p, k), y = a(q, k);
    a(p, k) = c * x - s * y;
    a(q, k) = s * x + c * y;
    const double v = u(p, k), w = u(q, k);
    u(p, k) = c * v - s * w;
    u(q, k) = s * v + c * w;
  }
}

// Cyclic Jacobi; the rows of u become eigenvectors, ascending, the largest element of
// each being positive.
void Eigen(Matrix a, Matrix& vectors, Matrix& values) {
  const int64_t n = a.rows;
  Matrix u(n, n);
  for (int64_t i = 0; i < n; ++i) u(i, i) = 1;
  for (int sweep = 0; sweep < 60; ++sweep) {
    double off = 0, all = 0;
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t j = 0; j < n; ++j) {
        all += a(i, j) * a(i, j);
        if (i != j) off += a(i, j) * a(i, j);
      }
    }
    if (off <= 1e-32 * all) break;
    for (int64_t p = 0; p < n; ++p) {
      for (int64_t q = p + 1; q < n; ++q) {
        if (a(p, q) != 0) Rotate(a, u, p, q);
      }
    }
  }
  std::vector<int64_t> order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), int64_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](int64_t i, int64_t j) { return a(i, i) < a(j, j); });
  for (int64_t i = 0; i < n; ++i) {
    const int64_t from = order[static_cast<size_t>(i)];
    values(0, i) = a(from, from);
    double largest = 0;
    for (int64_t k = 0; k < n; ++k) {
      if (std::abs(u(from, k)) > std::abs(largest) + 1e-12) largest = u(from, k);
    }
    for (int64_t k = 0; k < n; ++k) vectors(i, k) = u(from, k) * (largest < 0 ? -1 : 1);
  }
}

void Syevd(const NoParams&, const KernelArgs& args) {
  ForEachMatrix(args, 2, [&](const std::vector<Matrix>& in, std::vector<Matrix>& out) {
    Eigen(Symmetric(in[0]), out[0], out[1]);
  });
}

// A = U^T diag(l) U: dA = U^T (K + K^T) / 2 U with K = dU U^T / (l_i - l_j) outside of
// the diagonal and dl on it. Equal eigenvalues have no derivative; they count as zero.
Values SyevdGradient(const NoParams&, const GradArgs& g) {
  const Value &u = g.out(0), &l = g.out(1);
  Shape column = l.shape(), row = l.shape();
  column.Append(1);
  row.Insert(row.rank() - 1, 1);
  const Value difference = reshape(l, column) - reshape(l, row);
  const Value safe = where(difference, difference, ones_like(difference));
  const Value k = where(difference, MatMulOf(g.dout(0), u, false, true) / safe,
                        zeros_like(difference));
  Value inner = (k + TransposedMatrices(k)) * 0.5;
  if (g.has_dout(1)) inner = inner + Make("_linalg_makediag", {g.dout(1)});
  return {MatMulOf(MatMulOf(u, inner, true, false), u)};
}

const OpDef& syevd = Register<NoParams>({
    .name = "_linalg_syevd",
    .doc =
        "U and L with A = U^T diag(L) U for symmetric A: eigenvectors are rows of U, "
        "eigenvalues ascend.",
    .inputs = {{"A", Types::kFloats, "Symmetric, (..., n, n)."}},
    .outputs = {{"U", Types::kFloats, "(..., n, n)."},
                {"L", Types::kFloats, "(..., n)."}},
    .infer = InferEigen,
    .gradient = SyevdGradient,
    .uses = {.out = 0b11},
    .cpu = {{"plain", Syevd}},
    .samples = {{{Definite()}},
                {{Numbers({2, 3, 3}, {4, 1, .2, 1, 3, -1, .2, -1, 1.5,  //
                                      2, .3, .5, .3, 1, .1, .5, .1, 3})}}},
});

}  // namespace
}  // namespace plait
