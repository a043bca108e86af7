// _linalg_trmm, _linalg_trsm: products with triangular matrices, and their inverses.

#include "cpu/gemm.h"
#include "ops/infer.h"
#include "ops/linalg/matrices.h"

namespace plait {
namespace {

struct TriangleParams {
  bool transpose = false;
  bool rightside = false;
  bool lower = true;
  double alpha = 1;

  Triangle triangle() const { return {lower, transpose, rightside, false}; }
};

bool InferTriangle(Specs& in, Specs& out, bool right, const char* op) {
  if (!Unify(in[1].shape, out[0].shape)) return false;
  const Shape &a = in[0].shape, &b = in[1].shape;
  CheckSquare(a, op);
  CheckMatrices(b, op);
  if (!a.known() || !b.known()) return true;
  Shape expected = b;
  const int64_t n = right ? b.back() : b[b.rank() - 2];
  expected.back() = expected[b.rank() - 2] = n;
  Check(a == expected, op, ": A ", a, " and B ", b, " do not match with rightside ",
        right, "; A of shape ", expected, " was expected");
  return true;
}

std::vector<Param<TriangleParams>> ParamList() {
  return {{"transpose", &TriangleParams::transpose, "A is transposed."},
          {"rightside", &TriangleParams::rightside, "A stands to the right."},
          {"lower", &TriangleParams::lower,
           "A is a lower triangle; only that part of it is read."},
          {"alpha", &TriangleParams::alpha, "A factor."}};
}

// Operations: B times A's size.
double Cost(const TriangleParams&, const Specs& in, const Specs&) {
  return static_cast<double>(in[1].shape.size()) *
         static_cast<double>(in[0].shape.back());
}

// Calls f(a, b, y) for each matrix; `a` is the triangle alone when `cleared`.
template <typename F>
void Run(const TriangleParams& p, const KernelArgs& args, bool cleared, F&& f) {
  const Shape &a = args.in[0].shape(), &b = args.in[1].shape();
  const int64_t n = a.back(), rows = b[b.rank() - 2], columns = b.back();
  if (args.out[0].size() == 0) return;
  const double work = static_cast<double>(rows) * columns * n;
  InFloats(args, [&]<typename T>(const Floats<T>& arrays) {
    ForEachMatrix(CountMatrices(a), work, [&](int64_t i) {
      Matrix<T> ai{arrays.in(0) + i * n * n, n};
      cpu::Scratch copy(cleared ? n * n * sizeof(T) : 0);
      if (cleared) {
        std::copy_n(ai.data, n * n, copy.As<T>());
        ai.data = copy.As<T>();
        ClearTriangle(!p.lower, n, ai);
      }
      const int64_t at = i * rows * columns;
      f(rows, columns, ai, Matrix<T>{arrays.in(1) + at, columns},
        Matrix<T>{arrays.out(0) + at, columns});
    });
  });
}

// ---------------------------------------------------------------- trmm

void Multiply(const TriangleParams& p, const KernelArgs& args) {
  Run(p, args, true,
      [&]<typename T>(int64_t m, int64_t n, Matrix<T> a, Matrix<T> b, Matrix<T> y) {
        if (p.rightside) {
          cpu::Gemm<T>(false, p.transpose, m, n, n, p.alpha, b.data, n, a.data, n, 0,
                       y.data, n);
        } else {
          cpu::Gemm<T>(p.transpose, false, m, n, m, p.alpha, a.data, m, b.data, n, 0,
                       y.data, n);
        }
      });
}

// y = alpha op(A) B: dB = alpha op(A)^T dy, d op(A) = alpha dy B^T.
Values MultiplyGradient(const TriangleParams& p, const GradArgs& g) {
  const Value dy = g.dout(0);
  Values dx(2);
  if (g.wants(0)) {
    const Value &x = p.rightside ? g.in(1) : dy, &y = p.rightside ? dy : g.in(1);
    // d op(A) is x^T y to the right and x y^T to the left.
    const bool tx = p.rightside, ty = !p.rightside;
    dx[0] = triangle(
        p.transpose ? mm(y, x, !ty, !tx, p.alpha) : mm(x, y, tx, ty, p.alpha), p.lower);
  }
  if (g.wants(1)) {
    dx[1] = Make("_linalg_trmm", {g.in(0), dy},
                 {{"transpose", Attr(!p.transpose)},
                  {"rightside", Attr(p.rightside)},
                  {"lower", Attr(p.lower)},
                  {"alpha", Attr(p.alpha)}});
  }
  return dx;
}

[[maybe_unused]] const OpDef& trmm = Register<TriangleParams>({
    .name = "_linalg_trmm",
    .aliases = {"linalg_trmm"},
    .doc = "alpha A B for triangular matrices A, or alpha B A.",
    .inputs = {{"A", Types::kFloats, "Triangular matrices."},
               {"B", Types::kFloats, "Matrices."}},
    .outputs = {{"output", Types::kFloats, "Of the shape of B."}},
    .params = ParamList(),
    .infer =
        [](const TriangleParams& p, Specs& in, Specs& out) {
          return InferTriangle(in, out, p.rightside, "_linalg_trmm");
        },
    .gradient = MultiplyGradient,
    .uses = {.in = 0b11},
    .cpu = {{"gemm", Multiply}},
    .cost = Cost,
    .samples = {{{Normal({3, 3}), Normal({3, 2})}},
                {{Normal({2, 3, 3}), Normal({2, 3, 2})},
                 {.transpose = true, .alpha = 2}},
                {{Normal({2, 3, 3}), Normal({2, 2, 3})}, {.rightside = true}},
                {{Normal({3, 3}), Normal({2, 3})},
                 {.transpose = true, .rightside = true, .lower = false}},
                {{Normal({3, 3}), Normal({3, 2})}, {.lower = false, .alpha = -1}}},
});

// ---------------------------------------------------------------- trsm

void Solve(const TriangleParams& p, const KernelArgs& args) {
  Run(p, args, false,
      [&]<typename T>(int64_t m, int64_t n, Matrix<T> a, Matrix<T> b, Matrix<T> y) {
        const T alpha = static_cast<T>(p.alpha);
        for (int64_t i = 0; i < m * n; ++i) y.data[i] = alpha * b.data[i];
        SolveTriangle(p.triangle(), m, n, a, y);
      });
}

// op(A) X = alpha B: with G = op(A)^-T dX, dB = alpha G and d op(A) = -G X^T.
Values SolveGradient(const TriangleParams& p, const GradArgs& g) {
  Triangle back = p.triangle();
  back.transposed = !back.transposed;
  const Value gradient = solve(g.in(0), g.dout(0), back);
  Values dx(2);
  if (g.wants(0)) {
    const Value& x = p.rightside ? g.out(0) : gradient;
    const Value& y = p.rightside ? gradient : g.out(0);
    const bool tx = p.rightside, ty = !p.rightside;
    dx[0] =
        triangle(p.transpose ? mm(y, x, !ty, !tx, -1) : mm(x, y, tx, ty, -1), p.lower);
  }
  if (g.wants(1)) dx[1] = p.alpha == 1 ? gradient : gradient * p.alpha;
  return dx;
}

SampleInput Factors(Shape shape) {
  std::vector<double> values;
  const int64_t n = shape.back();
  for (int64_t i = 0; i < shape.size(); ++i) {
    const int64_t row = i / n % n, column = i % n;
    values.push_back(row == column ? 1.5 + 0.25 * static_cast<double>(row)
                                   : 0.1 * static_cast<double>(i % 7) - 0.3);
  }
  return Numbers(std::move(shape), std::move(values));
}

[[maybe_unused]] const OpDef& trsm = Register<TriangleParams>({
    .name = "_linalg_trsm",
    .aliases = {"linalg_trsm"},
    .doc = "The X of A X = alpha B for triangular matrices A, or of X A = alpha B.",
    .inputs = {{"A", Types::kFloats, "Triangular matrices."},
               {"B", Types::kFloats, "Matrices."}},
    .outputs = {{"output", Types::kFloats, "Of the shape of B."}},
    .params = ParamList(),
    .infer =
        [](const TriangleParams& p, Specs& in, Specs& out) {
          return InferTriangle(in, out, p.rightside, "_linalg_trsm");
        },
    .gradient = SolveGradient,
    .uses = {.in = 0b1, .out = 0b1},
    .cpu = {{"blocks", Solve}},
    .cost = Cost,
    .in_place = {{1, 0}},
    .samples = {{{Factors({3, 3}), Normal({3, 2})}},
                {{Factors({2, 3, 3}), Normal({2, 3, 2})},
                 {.transpose = true, .alpha = 2}},
                {{Factors({2, 3, 3}), Normal({2, 2, 3})}, {.rightside = true}},
                {{Factors({3, 3}), Normal({2, 3})},
                 {.transpose = true, .rightside = true, .lower = false, .alpha = 0.5}},
                {{Factors({3, 3}), Normal({3, 2})}, {.lower = false, .alpha = -1}}},
});

// ---------------------------------------------------------------- the triangle alone

struct PartParams {
  bool lower = true;
  double diagonal = 1;
};

[[maybe_unused]] const OpDef& part = Register<PartParams>({
    .name = "_linalg_triangle",
    .doc = "Matrices with zeros outside of a triangle, and a factor on the diagonal.",
    .inputs = {{"A", Types::kFloats, "Square matrices."}},
    .params = {{"lower", &PartParams::lower, "The lower triangle stays."},
               {"diagonal", &PartParams::diagonal, "The diagonal's factor."}},
    .infer =
        [](const PartParams&, Specs& in, Specs& out) {
          CheckSquare(in[0].shape, "_linalg_triangle");
          return Unify(in[0].shape, out[0].shape);
        },
    .gradient = [](const PartParams& p, const GradArgs& g) -> Values {
      return {triangle(g.dout(0), p.lower, p.diagonal)};
    },
    .cpu = {{"plain",
             [](const PartParams& p, const KernelArgs& args) {
               const int64_t n = args.out[0].shape().back();
               VisitFloat(args.out[0].dtype, [&]<typename T>() {
                 const T* x = args.in[0].data<const T>();
                 T* y = args.out[0].data<T>();
                 for (int64_t r = 0; n > 0 && r < args.out[0].size() / n; ++r) {
                   const int64_t i = r % n, first = p.lower ? 0 : i;
                   const int64_t last = p.lower ? i + 1 : n;
                   std::fill_n(y + r * n, n, T{});
                   std::copy(x + r * n + first, x + r * n + last, y + r * n + first);
                   y[r * n + i] =
                       static_cast<T>(static_cast<Accumulate<T>>(p.diagonal) *
                                      static_cast<Accumulate<T>>(x[r * n + i]));
                 }
               });
             }}},
    .samples = {{{Normal({3, 3})}},
                {{Normal({2, 3, 3})}, {.lower = false, .diagonal = 0.5}}},
});

}  // namespace
}  // namespace plait
