// _linalg_potrf, _linalg_potri, _linalg_sumlogdiag: Cholesky's factors and their uses.

#include <cmath>

#include "cpu/gemm.h"
#include "ops/infer.h"
#include "ops/linalg/matrices.h"

namespace plait {
namespace {

struct CholeskyParams {
  bool lower = true;
};

std::vector<Param<CholeskyParams>> ParamList() {
  return {{"lower", &CholeskyParams::lower,
           "The factor is a lower triangle L, of A = L L^T; else an upper one U, of "
           "A = U^T U."}};
}

double Cost(const CholeskyParams&, const Specs& in, const Specs&) {
  return static_cast<double>(in[0].shape.size()) *
         static_cast<double>(in[0].shape.back());
}

double CubeOf(int64_t n) {
  return static_cast<double>(n) * static_cast<double>(n) * static_cast<double>(n);
}

template <typename T>
void Transpose(int64_t n, const T* x, T* y) {
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j < n; ++j) y[j * n + i] = x[i * n + j];
  }
}

// Symmetric, positive definite.
SampleInput Definite(Shape shape) {
  std::vector<double> values;
  const int64_t n = shape.back();
  for (int64_t k = 0; k < shape.size(); ++k) {
    const int64_t matrix = k / n / n, i = k / n % n, j = k % n;
    values.push_back(i == j ? 2.0 + static_cast<double>(i + matrix)
                            : 0.5 / static_cast<double>(1 + i + j));
  }
  SampleInput s = Numbers(std::move(shape), std::move(values));
  // Elements come in pairs, of which one is read: differences of single ones mean
  // nothing.
  s.differentiable = false;
  return s;
}
SampleInput Factor(Shape shape) {
  SampleInput s = Definite(std::move(shape));
  s.differentiable = true;
  return s;
}

// ---------------------------------------------------------------- potrf

// For an upper factor the upper triangle is read, and all is done on the transpose.
void FactorAll(const CholeskyParams& p, const KernelArgs& args) {
  const Shape& shape = args.in[0].shape();
  const int64_t n = shape.back();
  if (shape.size() == 0) return;
  InFloats(args, [&]<typename T>(const Floats<T>& f) {
    ForEachMatrix(CountMatrices(shape), CubeOf(n) / 3, [&](int64_t i) {
      const cpu::Scratch scratch(p.lower ? 0 : n * n * sizeof(T));
      const T* x = f.in(0) + i * n * n;
      T* y = f.out(0) + i * n * n;
      T* work = p.lower ? y : scratch.As<T>();
      if (!p.lower) {
        Transpose(n, x, work);
      } else if (x != y) {
        std::copy_n(x, n * n, work);
      }
      if (!FactorCholesky(n, Matrix<T>{work, n})) {
        Fail(ErrorKind::kValue, "_linalg_potrf: matrix ", i, " of A ", shape,
             " is not positive definite; symmetric positive definite matrices were "
             "expected");
      }
      ClearTriangle(false, n, Matrix<T>{work, n});
      if (!p.lower) Transpose(n, work, y);
    });
  });
}

// With P = the lower triangle of L^T dL, its diagonal halved: dA = the symmetric part
// of L^-T P L^-1.
Values FactorGradient(const CholeskyParams& p, const GradArgs& g) {
  const Value &l = g.out(0), dl = g.dout(0);
  // U is L^T: the same with U for L^T wherever it stands.
  const Value product = p.lower ? mm(l, dl, true, false) : mm(dl, l, false, true);
  // For U, mm(dU, U^T) is (L^T dL)^T with dL = dU^T: its upper triangle counts.
  const Value both = mirrored(product, p.lower) * 0.5;
  const Value half = solve(l, both, {p.lower, !p.lower, true});
  return {solve(l, half, {p.lower, p.lower, false})};
}

[[maybe_unused]] const OpDef& potrf = Register<CholeskyParams>({
    .name = "_linalg_potrf",
    .aliases = {"linalg_potrf"},
    .doc = "Cholesky's factors of symmetric positive definite matrices. One triangle "
           "of A is read; the gradient is symmetric.",
    .inputs = {{"A", Types::kFloats, "Symmetric positive definite matrices."}},
    .params = ParamList(),
    .infer =
        [](const CholeskyParams&, Specs& in, Specs& out) {
          CheckSquare(in[0].shape, "_linalg_potrf");
          return Unify(in[0].shape, out[0].shape);
        },
    .gradient = FactorGradient,
    .uses = {.out = 0b1},
    .cpu = {{"blocks", FactorAll}},
    .may_fail = true,
    .cost = Cost,
    .in_place = {{0, 0}},
    .samples = {{{Definite({3, 3})}},
                {{Definite({2, 4, 4})}, {.lower = false}},
                {{Definite({0, 2, 2})}}},
});

// ---------------------------------------------------------------- potri

// With W = A^-1: W^T W for a lower factor, W W^T for an upper one.
void InvertAll(const CholeskyParams& p, const KernelArgs& args) {
  const Shape& shape = args.in[0].shape();
  const int64_t n = shape.back();
  if (shape.size() == 0) return;
  InFloats(args, [&]<typename T>(const Floats<T>& f) {
    ForEachMatrix(CountMatrices(shape), 2 * CubeOf(n), [&](int64_t i) {
      const cpu::Scratch scratch(n * n * sizeof(T));
      const Matrix<T> w{scratch.As<T>(), n};
      std::fill_n(w.data, n * n, T{0});
      for (int64_t k = 0; k < n; ++k) w(k, k) = 1;
      SolveTriangle({.lower = p.lower}, n, n, Matrix<T>{f.in(0) + i * n * n, n}, w);
      cpu::Gemm<T>(p.lower, !p.lower, n, n, n, 1, w.data, n, w.data, n, 0,
                   f.out(0) + i * n * n, n);
    });
  });
}

// y is the inverse of L L^T, so the gradient of L is minus the lower triangle of
// y (dy + dy^T) y L. For U^T U it is minus the upper triangle of U y (dy + dy^T) y.
Values InvertGradient(const CholeskyParams& p, const GradArgs& g) {
  const Value a = triangle(g.in(0), p.lower), y = g.out(0), dy = g.dout(0);
  const Value inner = mm(y, dy + transposed(dy));
  return {p.lower ? triangle(mm(inner, mm(y, a), false, false, -1), true)
                  : triangle(mm(mm(a, inner), y, false, false, -1), false)};
}

[[maybe_unused]] const OpDef& potri = Register<CholeskyParams>({
    .name = "_linalg_potri",
    .aliases = {"linalg_potri"},
    .doc = "The inverses of matrices, from their Cholesky factors.",
    .inputs = {{"A", Types::kFloats, "Factors; only their triangle is read."}},
    .params = ParamList(),
    .infer =
        [](const CholeskyParams&, Specs& in, Specs& out) {
          CheckSquare(in[0].shape, "_linalg_potri");
          return Unify(in[0].shape, out[0].shape);
        },
    .gradient = InvertGradient,
    .uses = {.in = 0b1, .out = 0b1},
    .cpu = {{"blocks", InvertAll}},
    .cost = Cost,
    .samples = {{{Factor({3, 3})}}, {{Factor({2, 3, 3})}, {.lower = false}}},
});

// ---------------------------------------------------------------- sumlogdiag

[[maybe_unused]] const OpDef& sumlogdiag = Register<NoParams>({
    .name = "_linalg_sumlogdiag",
    .aliases = {"linalg_sumlogdiag"},
    .doc = "The sum of the logarithms of each matrix's diagonal.",
    .inputs = {{"A", Types::kFloats, "Square matrices with positive diagonals."}},
    .outputs = {{"output", Types::kFloats, "One number for each matrix."}},
    .infer =
        [](const NoParams&, Specs& in, Specs& out) {
          CheckSquare(in[0].shape, "_linalg_sumlogdiag");
          if (!in[0].shape.rank_known()) return true;
          Shape y = OneEach(in[0].shape);
          return Unify(y, out[0].shape);
        },
    .gradient = [](const NoParams&, const GradArgs& g) -> Values {
      Shape each = OneEach(g.in_spec(0).shape);
      if (g.in_spec(0).shape.rank() > 2) each.Append(1);
      const Value diagonal = Make("_linalg_extractdiag", {g.in(0)});
      return {Make("_linalg_makediag", {reshape(g.dout(0), each) / diagonal})};
    },
    .uses = {.in = 0b1},
    .cpu = {{"plain",
             [](const NoParams&, const KernelArgs& args) {
               const int64_t n = args.in[0].shape().back();
               VisitFloat(args.in[0].dtype, [&]<typename T>() {
                 for (int64_t i = 0; i < args.out[0].size(); ++i) {
                   double sum = 0;
                   for (int64_t k = 0; k < n; ++k) {
                     sum += std::log(static_cast<double>(static_cast<Accumulate<T>>(
                         args.in[0].data<const T>()[(i * n + k) * n + k])));
                   }
                   args.out[0].data<T>()[i] =
                       static_cast<T>(static_cast<Accumulate<T>>(sum));
                 }
               });
             }}},
    .samples = {{{Factor({3, 3})}}, {{Factor({2, 2, 2})}}},
});

}  // namespace
}  // namespace plait
