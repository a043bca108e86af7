// _linalg_inverse, _linalg_det, _linalg_slogdet: by LU factors with pivots.

#include <cmath>

#include "ops/infer.h"
#include "ops/linalg/matrices.h"

namespace plait {
namespace {

double CubeOf(int64_t n) {
  return static_cast<double>(n) * static_cast<double>(n) * static_cast<double>(n);
}

double Cost(const Specs& in) {
  return 2.0 * static_cast<double>(in[0].shape.size()) *
         static_cast<double>(in[0].shape.back());
}

// ---------------------------------------------------------------- inverse

// Zeros instead of an error for a singular matrix: what the gradient of det wants.
void InvertAll(const KernelArgs& args, bool zeros_if_singular) {
  const Shape& shape = args.in[0].shape();
  const int64_t n = shape.back();
  if (shape.size() == 0) return;
  InFloats(args, [&]<typename T>(const Floats<T>& f) {
    ForEachMatrix(CountMatrices(shape), 2 * CubeOf(n), [&](int64_t i) {
      const cpu::Scratch factors(n * n * sizeof(T)), rows(n * sizeof(int64_t));
      const Matrix<T> lu{factors.As<T>(), n};
      T* y = f.out(0) + i * n * n;
      std::copy_n(f.in(0) + i * n * n, n * n, lu.data);
      if (FactorLU(n, lu, rows.As<int64_t>())) {
        InvertLU(n, lu, rows.As<int64_t>(), Matrix<T>{y, n});
      } else if (zeros_if_singular) {
        std::fill_n(y, n * n, T{0});
      } else {
        Fail(ErrorKind::kValue, "_linalg_inverse: matrix ", i, " of A ", shape,
             " is singular; invertible matrices were expected");
      }
    });
  });
}

// y = A^-1: dA = -y^T dy y^T.
Values InverseGradient(const NoParams&, const GradArgs& g) {
  const Value& y = g.out(0);
  return {mm(mm(y, g.dout(0), true), y, false, true, -1)};
}

bool InferInverse(const NoParams&, Specs& in, Specs& out) {
  CheckSquare(in[0].shape, "_linalg_inverse");
  return Unify(in[0].shape, out[0].shape);
}

SampleInput Regular(Shape shape) {
  std::vector<double> values;
  const int64_t n = shape.back();
  for (int64_t k = 0; k < shape.size(); ++k) {
    const int64_t i = k / n % n, j = k % n;
    values.push_back((i + 1) % n == j ? 2.0 + 0.5 * static_cast<double>(i)
                                      : 0.3 * std::sin(static_cast<double>(k)));
  }
  return Numbers(std::move(shape), std::move(values));
}

[[maybe_unused]] const OpDef& inverse = Register<NoParams>({
    .name = "_linalg_inverse",
    .aliases = {"linalg_inverse", "_npi_inv"},
    .doc = "The inverse of each matrix.",
    .inputs = {{"A", Types::kFloats, "Square matrices that are not singular."}},
    .infer = InferInverse,
    .gradient = InverseGradient,
    .uses = {.out = 0b1},
    .cpu = {{"blocks",
             [](const NoParams&, const KernelArgs& args) { InvertAll(args, false); }}},
    .may_fail = true,
    .cost = [](const NoParams&, const Specs& in, const Specs&) { return Cost(in); },
    .samples = {{{Regular({3, 3})}}, {{Regular({2, 4, 4})}}, {{Regular({0, 2, 2})}}},
});

[[maybe_unused]] const OpDef& inverse_or_zeros = Register<NoParams>({
    .name = "_linalg_inverse_or_zeros",
    .doc = "The inverse of each matrix, and zeros for a singular one.",
    .inputs = {{"A", Types::kFloats, "Square matrices."}},
    .infer = InferInverse,
    .gradient = InverseGradient,
    .uses = {.out = 0b1},
    .cpu = {{"blocks",
             [](const NoParams&, const KernelArgs& args) { InvertAll(args, true); }}},
    .cost = [](const NoParams&, const Specs& in, const Specs&) { return Cost(in); },
    .samples = {{{Regular({2, 3, 3})}}},
});

// ---------------------------------------------------------------- determinants

struct Determinant {
  double sign = 1, log = 0, value = 1;
};

template <typename T>
Determinant OfFactors(int64_t n, Matrix<T> lu, const int64_t* pivots) {
  Determinant d;
  for (int64_t i = 0; i < n; ++i) {
    const double diagonal = static_cast<double>(lu(i, i));
    const double swapped = pivots[i] == i ? 1 : -1;
    d.value *= swapped * diagonal;
    d.sign *= swapped * (diagonal > 0 ? 1 : diagonal < 0 ? -1 : diagonal);
    d.log += std::log(std::abs(diagonal));
  }
  return d;
}

// Outputs: one or two numbers a matrix (`store` puts them), then factors and pivots.
template <typename F>
void Determinants(const KernelArgs& args, int numbers, F&& store) {
  const Shape& shape = args.in[0].shape();
  const int64_t n = shape.back();
  int64_t* pivots = args.out[numbers + 1].data<int64_t>();
  InFloats(args, [&]<typename T>(const Floats<T>& f) {
    std::copy_n(f.in(0), shape.size(), f.out(numbers));
    ForEachMatrix(CountMatrices(shape), CubeOf(n), [&](int64_t i) {
      const Matrix<T> lu{f.out(numbers) + i * n * n, n};
      FactorLU(n, lu, pivots + i * n);
      store(f, i, OfFactors(n, lu, pivots + i * n));
    });
  });
}

bool InferDeterminant(Specs& in, Specs& out, int numbers, const char* op) {
  CheckSquare(in[0].shape, op);
  if (!in[0].shape.rank_known()) return true;
  Shape one = OneEach(in[0].shape), rows(in[0].shape.begin(), in[0].shape.end() - 1);
  bool ok = true;
  for (int i = 0; i < numbers; ++i) ok = ok && Unify(one, out[i].shape);
  return ok && Unify(in[0].shape, out[numbers].shape) &&
         Unify(rows, out[numbers + 1].shape);
}

void DeterminantTypes(Specs& in, Specs& out) {
  for (size_t i = 0; i + 1 < out.size(); ++i) UnifyDType(in[0].dtype, out[i].dtype);
  out.back().dtype = DType::kInt64;
}

// A number for each matrix, to be multiplied with matrices.
Value ForEach(const Value& x, const Shape& matrices) {
  Shape shape = matrices;
  shape[shape.rank() - 1] = shape[shape.rank() - 2] = 1;
  return reshape(x, shape);
}

// d log|det| / dA = A^-T.
Value LogGradient(const Value& a, const Value& factor) {
  return ForEach(factor, a.shape()) * transposed(Make("_linalg_inverse_or_zeros", {a}));
}

[[maybe_unused]] const OpDef& det = Register<NoParams>({
    .name = "_linalg_det",
    .aliases = {"linalg_det", "_npi_det"},
    .doc = "The determinant of each matrix. The gradient of a singular one is zero.",
    .inputs = {{"A", Types::kFloats, "Square matrices."}},
    .outputs = {{"output", Types::kFloats, "One number for each matrix."},
                {"lu", Types::kFloats, "The factors."},
                {"pivot", Types::kIntegers, "The rows that were swapped."}},
    .visible_outputs = [](const NoParams&) { return 1; },
    .types = [](const NoParams&, Specs& in, Specs& out) { DeterminantTypes(in, out); },
    .infer = [](const NoParams&, Specs& in,
                Specs& out) { return InferDeterminant(in, out, 1, "_linalg_det"); },
    .gradient = [](const NoParams&, const GradArgs& g) -> Values {
      return {LogGradient(g.in(0), g.dout(0) * g.out(0))};
    },
    .uses = {.in = 0b1, .out = 0b1},
    .cpu = {{"blocks",
             [](const NoParams&, const KernelArgs& args) {
               Determinants(
                   args, 1,
                   []<typename T>(const Floats<T>& f, int64_t i, const Determinant& d) {
                     f.out(0)[i] = static_cast<T>(d.value);
                   });
             }}},
    .cost = [](const NoParams&, const Specs& in, const Specs&) { return Cost(in); },
    .samples = {{{Regular({3, 3})}}, {{Regular({2, 2, 3, 3})}}},
});

[[maybe_unused]] const OpDef& slogdet = Register<NoParams>({
    .name = "_linalg_slogdet",
    .aliases = {"linalg_slogdet", "_npi_slogdet"},
    .doc = "The sign of the determinant of each matrix, and the logarithm of its "
           "magnitude. The gradient of a singular one is zero.",
    .inputs = {{"A", Types::kFloats, "Square matrices."}},
    .outputs = {{"sign", Types::kFloats, "1, -1, or 0 for a singular matrix."},
                {"logabsdet", Types::kFloats, "The logarithm."},
                {"lu", Types::kFloats, "The factors."},
                {"pivot", Types::kIntegers, "The rows that were swapped."}},
    .visible_outputs = [](const NoParams&) { return 2; },
    .types = [](const NoParams&, Specs& in, Specs& out) { DeterminantTypes(in, out); },
    .infer = [](const NoParams&, Specs& in,
                Specs& out) { return InferDeterminant(in, out, 2, "_linalg_slogdet"); },
    .gradient = [](const NoParams&, const GradArgs& g) -> Values {
      if (!g.has_dout(1)) return {zeros(g.in_spec(0))};
      return {LogGradient(g.in(0), g.dout(1))};
    },
    .uses = {.in = 0b1},
    .cpu = {{"blocks",
             [](const NoParams&, const KernelArgs& args) {
               Determinants(
                   args, 2,
                   []<typename T>(const Floats<T>& f, int64_t i, const Determinant& d) {
                     f.out(0)[i] = static_cast<T>(d.sign);
                     f.out(1)[i] = static_cast<T>(d.log);
                   });
             }}},
    .cost = [](const NoParams&, const Specs& in, const Specs&) { return Cost(in); },
    .samples = {{{Regular({3, 3})}}, {{Regular({2, 4, 4})}}},
});

}  // namespace
}  // namespace plait
