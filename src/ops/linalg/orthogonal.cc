// _linalg_gelqf, _linalg_syevd: factors with orthonormal rows.

#include "ops/infer.h"
#include "ops/linalg/matrices.h"

namespace plait {
namespace {

// ---------------------------------------------------------------- gelqf

bool InferLQ(const NoParams&, Specs& in, Specs& out) {
  const Shape& a = in[0].shape;
  CheckMatrices(a, "_linalg_gelqf");
  if (!a.rank_known()) return true;
  const int64_t m = a[a.rank() - 2], n = a.back();
  Check(m <= n || n == kUnknownSize, "_linalg_gelqf: A has shape ", a,
        "; matrices of no more rows than columns were expected");
  Shape l = a;
  l.back() = m;
  return Unify(in[0].shape, out[0].shape) && Unify(l, out[1].shape);
}

void RunLQ(const NoParams&, const KernelArgs& args) {
  const Shape& shape = args.in[0].shape();
  const int64_t m = shape[shape.rank() - 2], n = shape.back();
  if (shape.size() == 0) return;
  InFloats(args, [&]<typename T>(const Floats<T>& f) {
    if (f.in(0) != f.out(0)) std::copy_n(f.in(0), shape.size(), f.out(0));
    ForEachMatrix(CountMatrices(shape), 4.0 * static_cast<double>(m * m * n),
                  [&](int64_t i) {
                    FactorLQ(m, n, Matrix<T>{f.out(0) + i * m * n, n},
                             Matrix<T>{f.out(1) + i * m * m, m});
                  });
  });
}

// dA = L^-T (dQ + S Q), where S mirrors the lower triangle of L^T dL - dQ Q^T.
Values LQGradient(const NoParams&, const GradArgs& g) {
  const Value &q = g.out(0), &l = g.out(1), dq = g.dout(0), dl = g.dout(1);
  const Value s = mirrored(mm(l, dl, true) - mm(dq, q, false, true), true);
  return {solve(l, dq + mm(s, q), {.lower = true, .transposed = true})};
}

[[maybe_unused]] const OpDef& gelqf = Register<NoParams>({
    .name = "_linalg_gelqf",
    .aliases = {"linalg_gelqf"},
    .doc = "A = L Q, matrix by matrix: L a lower triangle, Q with orthonormal rows.",
    .inputs = {{"A", Types::kFloats,
                "Of shape (..., m, n), m <= n; of full rank for a gradient."}},
    .outputs = {{"Q", Types::kFloats, "Of shape (..., m, n)."},
                {"L", Types::kFloats, "Of shape (..., m, m)."}},
    .infer = InferLQ,
    .gradient = LQGradient,
    .uses = {.out = 0b11},
    .cpu = {{"reflections", RunLQ}},
    .cost =
        [](const NoParams&, const Specs& in, const Specs&) {
          const Shape& a = in[0].shape;
          return 4.0 * static_cast<double>(a.size()) *
                 static_cast<double>(a[a.rank() - 2]);
        },
    .in_place = {{0, 0}},
    .samples = {{{Normal({2, 3})}}, {{Normal({2, 3, 3})}}, {{Normal({0, 2, 2})}}},
});

// ---------------------------------------------------------------- syevd

bool InferEigen(const NoParams&, Specs& in, Specs& out) {
  CheckSquare(in[0].shape, "_linalg_syevd");
  if (!in[0].shape.rank_known()) return true;
  Shape values(in[0].shape.begin(), in[0].shape.end() - 1);
  return Unify(in[0].shape, out[0].shape) && Unify(values, out[1].shape);
}

void RunEigen(const NoParams&, const KernelArgs& args) {
  const Shape& shape = args.in[0].shape();
  const int64_t n = shape.back();
  if (shape.size() == 0) return;
  InFloats(args, [&]<typename T>(const Floats<T>& f) {
    if (f.in(0) != f.out(0)) std::copy_n(f.in(0), shape.size(), f.out(0));
    ForEachMatrix(
        CountMatrices(shape), 9.0 * static_cast<double>(n * n * n), [&](int64_t i) {
          if (EigenSymmetric(n, Matrix<T>{f.out(0) + i * n * n, n}, f.out(1) + i * n)) {
            return;
          }
          Fail(ErrorKind::kValue, "_linalg_syevd: matrix ", i, " of A ", shape,
               " has no eigenvalues that can be found; finite "
               "symmetric matrices were expected");
        });
  });
}

// With X = dU U^T: dA = U^T Y U, where Y is dL on its diagonal and elsewhere
// (X_ij - X_ji) / (2 (L_i - L_j)); equal eigenvalues have no gradient there.
Values EigenGradient(const NoParams&, const GradArgs& g) {
  const Value &u = g.out(0), &l = g.out(1);
  Shape rows = l.shape(), columns = l.shape();
  rows.Append(1);
  columns.Insert(columns.rank() - 1, 1);
  const Value gap = reshape(l, rows) - reshape(l, columns), same = equal(gap, 0.0);
  const Value x = mm(g.dout(0), u, false, true);
  const Value y = (x - transposed(x)) * 0.5 / where(same, ones_like(gap), gap);
  const Value middle =
      where(same, zeros_like(y), y) + Make("_linalg_makediag", {g.dout(1)});
  return {mm(mm(u, middle, true), u)};
}

SampleInput Symmetric(Shape shape) {
  std::vector<double> values;
  const int64_t n = shape.back();
  for (int64_t k = 0; k < shape.size(); ++k) {
    const int64_t i = k / n % n, j = k % n;
    values.push_back(i == j ? static_cast<double>(i + k / n / n)
                            : 0.5 / static_cast<double>(1 + i + j));
  }
  SampleInput s = Numbers(std::move(shape), std::move(values));
  // Elements come in pairs, of which one is read: differences of single ones mean
  // nothing.
  s.differentiable = false;
  return s;
}

[[maybe_unused]] const OpDef& syevd = Register<NoParams>({
    .name = "_linalg_syevd",
    .doc = "Eigenvectors and eigenvalues of symmetric matrices: U A = diag(L) U. The "
           "lower triangle of A is read; the gradient is symmetric, and defined where "
           "all eigenvalues of a matrix differ.",
    .inputs = {{"A", Types::kFloats, "Symmetric matrices."}},
    .outputs = {{"U", Types::kFloats,
                 "Eigenvectors, one a row; the largest element is positive."},
                {"L", Types::kFloats, "Eigenvalues, ascending."}},
    .infer = InferEigen,
    .gradient = EigenGradient,
    .uses = {.out = 0b11},
    .cpu = {{"reflections", RunEigen}},
    .may_fail = true,
    .cost =
        [](const NoParams&, const Specs& in, const Specs&) {
          return 9.0 * static_cast<double>(in[0].shape.size()) *
                 static_cast<double>(in[0].shape.back());
        },
    .in_place = {{0, 0}},
    .samples = {{{Symmetric({3, 3})}}, {{Symmetric({2, 4, 4})}}},
});

}  // namespace
}  // namespace plait
