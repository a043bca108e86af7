// Inverses and determinants of square matrices.

#include <cmath>
#include <limits>

#include "ops/infer.h"
#include "ops/linalg/matrices.h"

namespace plait {
namespace {

// Gauss-Jordan elimination with row exchanges. Returns the sign of the determinant and
// the logarithm of its size; `inverse`, if not null, gets the inverse.
struct Determinant {
  double sign = 1, log_size = 0;
  double value() const { return sign == 0 ? 0 : sign * std::exp(log_size); }
};
Determinant Eliminate(Matrix a, Matrix* inverse) {
  const int64_t n = a.rows;
  Determinant d;
  if (inverse) {
    *inverse = Matrix(n, n);
    for (int64_t i = 0; i < n; ++i) (*inverse)(i, i) = 1;
  }
  for (int64_t c = 0; c < n; ++c) {
    int64_t pivot = c;
    for (int64_t i = c + 1; i < n; ++i) {
      if (std::abs(a(i, c)) > std::abs(a(pivot, c))) pivot = i;
    }
    if (a(pivot, c) == 0) {
      Check(inverse == nullptr,
            "_linalg_inverse: the matrix is singular; a regular one "
            "was expected");
      return {0, -std::numeric_limits<double>::infinity()};
    }
    if (pivot != c) d.sign = -d.sign;
    for (int64_t j = 0; j < n; ++j) {
      std::swap(a(c, j), a(pivot, j));
      if (inverse) std::swap((*inverse)(c, j), (*inverse)(pivot, j));
    }
    const double p = a(c, c);
    if (p < 0) d.sign = -d.sign;
    d.log_size += std::log(std::abs(p));
    for (int64_t i = inverse ? 0 : c + 1; i < n; ++i) {
      if (i == c) continue;
      const double f = a(i, c) / p;
      for (int64_t j = 0; j < n; ++j) {
        a(i, j) -= f * a(c, j);
        if (inverse) (*inverse)(i, j) -= f * (*inverse)(c, j);
      }
    }
    if (!inverse) continue;
    for (int64_t j = 0; j < n; ++j) {
      a(c, j) /= p;
      (*inverse)(c, j) /= p;
    }
  }
  return d;
}

// The determinant as a product, so that small integer matrices have exact ones.
double Product(Matrix a) {
  double d = 1;
  const int64_t n = a.rows;
  for (int64_t c = 0; c < n; ++c) {
    int64_t pivot = c;
    for (int64_t i = c + 1; i < n; ++i) {
      if (std::abs(a(i, c)) > std::abs(a(pivot, c))) pivot = i;
    }
    if (a(pivot, c) == 0) return 0;
    if (pivot != c) d = -d;
    for (int64_t j = 0; j < n; ++j) std::swap(a(c, j), a(pivot, j));
    d *= a(c, c);
    for (int64_t i = c + 1; i < n; ++i) {
      const double f = a(i, c) / a(c, c);
      for (int64_t j = c; j < n; ++j) a(i, j) -= f * a(c, j);
    }
  }
  return d;
}

bool InferInverse(const NoParams&, Specs& in, Specs& out) {
  if (!Unify(in[0].shape, out[0].shape)) return false;
  CheckMatrices("_linalg_inverse", in[0].shape, true);
  return true;
}

bool InferNumbers(const NoParams&, Specs& in, Specs& out) {
  const Shape& a = in[0].shape;
  if (!CheckMatrices("_linalg_det", a, true)) return true;
  Shape y(a.begin(), a.end() - 2);
  if (y.rank() == 0) y.Append(1);
  for (Spec& s : out) {
    if (!Assign(s.shape, y)) return false;
  }
  return true;
}

void Inverse(const NoParams&, const KernelArgs& args) {
  ForEachMatrix(args, 2, [&](const std::vector<Matrix>& in, std::vector<Matrix>& out) {
    Eliminate(in[0], &out[0]);
  });
}
void Det(const NoParams&, const KernelArgs& args) {
  ForEachMatrix(args, 2, [&](const std::vector<Matrix>& in, std::vector<Matrix>& out) {
    out[0].v[0] = Product(in[0]);
  });
}
void SlogDet(const NoParams&, const KernelArgs& args) {
  ForEachMatrix(args, 2, [&](const std::vector<Matrix>& in, std::vector<Matrix>& out) {
    const Determinant d = Eliminate(in[0], nullptr);
    out[0].v[0] = d.sign;
    out[1].v[0] = d.log_size;
  });
}

Value InverseOf(const Value& a);

// B = A^-1: dA = -B^T dB B^T.
Values InverseGradient(const NoParams&, const GradArgs& g) {
  const Value& b = g.out(0);
  return {MatMulOf(MatMulOf(b, g.dout(0), true, false), b, false, true, -1)};
}

// One number a matrix, as (..., 1, 1).
Value Wide(const Value& x, const Shape& a) {
  Shape s = a;
  s[a.rank() - 2] = s[a.rank() - 1] = 1;
  return reshape(x, s);
}

// dA = det dy A^-T.
Values DetGradient(const NoParams&, const GradArgs& g) {
  const Shape& a = g.in_spec(0).shape;
  return {Wide(g.out(0) * g.dout(0), a) * TransposedMatrices(InverseOf(g.in(0)))};
}
Values SlogDetGradient(const NoParams&, const GradArgs& g) {
  if (!g.has_dout(1)) return {Value()};
  const Shape& a = g.in_spec(0).shape;
  return {Wide(g.dout(1), a) * TransposedMatrices(InverseOf(g.in(0)))};
}

SampleInput Regular() {
  return Numbers({2, 2}, {2, -1, 0.5, 1});
}
SampleInput RegularBatch() {
  return Numbers({2, 3, 3}, {0, 1, 2, 1, 0, 1, -1, 2, 0.5,  //
                             2, 0, 1, 0, -1, 1, 1, 0, 3});
}

const OpDef& inverse = Register<NoParams>({
    .name = "_linalg_inverse",
    .aliases = {"_npi_inv", "linalg_inverse"},
    .doc = "The inverse of square matrices.",
    .inputs = {{"A", Types::kFloats, "Regular, (..., n, n)."}},
    .infer = InferInverse,
    .gradient = InverseGradient,
    .uses = {.out = 0b1},
    .cpu = {{"plain", Inverse}},
    .may_fail = true,
    .samples = {{{Regular()}}, {{RegularBatch()}}},
});

const OpDef& det = Register<NoParams>({
    .name = "_linalg_det",
    .aliases = {"_npi_det", "linalg_det"},
    .doc = "The determinant of square matrices.",
    .inputs = {{"A", Types::kFloats, "(..., n, n)."}},
    .infer = InferNumbers,
    .gradient = DetGradient,
    .uses = {.in = 0b1, .out = 0b1},
    .cpu = {{"plain", Det}},
    .samples = {{{Regular()}}, {{RegularBatch()}}},
});

const OpDef& slogdet = Register<NoParams>({
    .name = "_linalg_slogdet",
    .aliases = {"_npi_slogdet", "linalg_slogdet"},
    .doc = "The sign of the determinant and the logarithm of its absolute value.",
    .inputs = {{"A", Types::kFloats, "(..., n, n)."}},
    .outputs = {{"sign", Types::kFloats, "1, -1 or 0."},
                {"logabsdet", Types::kFloats, "-inf for a singular matrix."}},
    .infer = InferNumbers,
    .gradient = SlogDetGradient,
    .uses = {.in = 0b1},
    .cpu = {{"plain", SlogDet}},
    .samples = {{{Regular()}}, {{RegularBatch()}}},
});

Value InverseOf(const Value& a) {
  return ApplyOne(inverse, nullptr, {&a, 1});
}

}  // namespace
}  // namespace plait
