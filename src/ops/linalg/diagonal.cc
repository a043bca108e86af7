// Diagonals and triangles of matrices, taken out and put back.

#include <cmath>
#include <cstdlib>
#include <cstring>

#include "ops/infer.h"
#include "ops/linalg/matrices.h"

namespace plait {
namespace {

struct DiagParams {
  int offset = 0;
};
struct TrianParams {
  int offset = 0;
  bool lower = true;
};

// How many matrix elements there are and where: calls f(row, column) in their order.
template <typename F>
void ForEachElement(const DiagParams& p, int64_t n, F&& f) {
  const int64_t down = p.offset < 0 ? -p.offset : 0,
                right = p.offset > 0 ? p.offset : 0;
  for (int64_t i = 0; i + std::abs(p.offset) < n; ++i) f(i + down, i + right);
}
// Row by row of the lower triangle; the upper one is taken column by column.
template <typename F>
void ForEachElement(const TrianParams& p, int64_t n, F&& f) {
  const bool upper = p.offset > 0 || (p.offset == 0 && !p.lower);
  const int64_t shift = std::abs(p.offset);
  for (int64_t i = shift; i < n; ++i) {
    for (int64_t j = 0; j <= i - shift; ++j) upper ? f(j, i) : f(i, j);
  }
}

// Elements of a matrix of size n, and the size of the matrix that n elements make.
int64_t ElementsOf(const DiagParams& p, int64_t n) {
  return n - std::abs(p.offset);
}
int64_t ElementsOf(const TrianParams& p, int64_t n) {
  const int64_t m = n - std::abs(p.offset);
  return m > 0 ? m * (m + 1) / 2 : m;
}
int64_t SizeFor(const DiagParams& p, int64_t n) {
  return n + std::abs(p.offset);
}
int64_t SizeFor(const TrianParams& p, int64_t n) {
  const auto m = static_cast<int64_t>(
      std::floor((std::sqrt(8.0 * static_cast<double>(n) + 1) - 1) / 2 + 0.5));
  Check(m * (m + 1) / 2 == n, "_linalg_maketrian: ", n,
        " numbers make no triangle; 1, 3, 6, 10, ... were expected");
  return m + std::abs(p.offset);
}

template <typename P>
bool InferExtract(const P& p, Specs& in, Specs& out) {
  const Shape& a = in[0].shape;
  if (!CheckMatrices("_linalg_extract", a, true)) return true;
  const int64_t n = ElementsOf(p, a.back());
  Check(n > 0, "_linalg_extract: offset ", p.offset, " is outside of A ", a);
  Shape y = a;
  y.Erase(a.rank() - 1);
  y.back() = n;
  return Assign(out[0].shape, y);
}

template <typename P>
bool InferMake(const P& p, Specs& in, Specs& out) {
  const Shape& x = in[0].shape;
  if (!x.known()) return true;
  Check(x.rank() >= 1, "_linalg_make: x is a scalar; at least one axis was expected");
  Shape y = x;
  y.back() = SizeFor(p, x.back());
  y.Append(y.back());
  return Assign(out[0].shape, y);
}

template <typename P>
void Extract(const P& p, const KernelArgs& args) {
  const int64_t n = args.in[0].shape().back();
  const int64_t batch = args.in[0].size() / std::max<int64_t>(n * n, 1);
  VisitSize(args.out[0].dtype, [&]<typename T>() {
    T* y = args.out[0].data<T>();
    for (int64_t b = 0; b < batch; ++b) {
      const T* a = args.in[0].data<const T>() + b * n * n;
      ForEachElement(p, n, [&](int64_t i, int64_t j) { *y++ = a[i * n + j]; });
    }
  });
}

template <typename P>
void Put(const P& p, const KernelArgs& args) {
  const int64_t n = args.out[0].shape().back();
  const int64_t batch = args.out[0].size() / std::max<int64_t>(n * n, 1);
  std::memset(args.out[0].ptr, 0, static_cast<size_t>(args.out[0].bytes()));
  VisitSize(args.out[0].dtype, [&]<typename T>() {
    const T* x = args.in[0].data<const T>();
    for (int64_t b = 0; b < batch; ++b) {
      T* a = args.out[0].data<T>() + b * n * n;
      ForEachElement(p, n, [&](int64_t i, int64_t j) { a[i * n + j] = *x++; });
    }
  });
}

template <typename P, bool kMake>
Values Gradient(const P& p, const GradArgs& g);

const OpDef& extractdiag = Register<DiagParams>({
    .name = "_linalg_extractdiag",
    .aliases = {"linalg_extractdiag"},
    .doc = "A diagonal of square matrices.",
    .inputs = {{"A", Types::kFloats, "(..., n, n)."}},
    .params = {{"offset", &DiagParams::offset,
                "Above (positive) or below the main one."}},
    .infer = InferExtract<DiagParams>,
    .gradient = Gradient<DiagParams, true>,
    .cpu = {{"plain", Extract<DiagParams>}},
    .samples = {{{Normal({3, 3})}},
                {{Normal({2, 3, 3})}, {1}},
                {{Normal({3, 3})}, {-2}}},
});

const OpDef& makediag = Register<DiagParams>({
    .name = "_linalg_makediag",
    .aliases = {"linalg_makediag"},
    .doc = "Square matrices with a given diagonal and zeros elsewhere.",
    .inputs = {{"A", Types::kFloats, "(..., n)."}},
    .params = {{"offset", &DiagParams::offset,
                "Above (positive) or below the main one."}},
    .infer = InferMake<DiagParams>,
    .gradient = Gradient<DiagParams, false>,
    .cpu = {{"plain", Put<DiagParams>}},
    .samples = {{{Normal({3})}}, {{Normal({2, 3})}, {1}}, {{Normal({2})}, {-1}}},
});

std::vector<Param<TrianParams>> TrianParamList() {
  return {{"offset", &TrianParams::offset,
           "The triangle begins so many diagonals above or below the main one."},
          {"lower", &TrianParams::lower, "Which triangle, where offset is 0."}};
}

const OpDef& extracttrian = Register<TrianParams>({
    .name = "_linalg_extracttrian",
    .aliases = {"linalg_extracttrian"},
    .doc = "The elements of a triangle of square matrices.",
    .inputs = {{"A", Types::kFloats, "(..., n, n)."}},
    .params = TrianParamList(),
    .infer = InferExtract<TrianParams>,
    .gradient = Gradient<TrianParams, true>,
    .cpu = {{"plain", Extract<TrianParams>}},
    .samples = {{{Normal({3, 3})}},
                {{Normal({2, 3, 3})}, {.lower = false}},
                {{Normal({3, 3})}, {.offset = -1}},
                {{Normal({3, 3})}, {.offset = 1}}},
});

const OpDef& maketrian = Register<TrianParams>({
    .name = "_linalg_maketrian",
    .aliases = {"linalg_maketrian"},
    .doc = "Square matrices with a given triangle and zeros elsewhere.",
    .inputs = {{"A", Types::kFloats, "(..., n (n + 1) / 2)."}},
    .params = TrianParamList(),
    .infer = InferMake<TrianParams>,
    .gradient = Gradient<TrianParams, false>,
    .cpu = {{"plain", Put<TrianParams>}},
    .samples = {{{Normal({6})}},
                {{Normal({2, 3})}, {.lower = false}},
                {{Normal({3})}, {.offset = 1}}},
});

// Taking out and putting back are each other's transpose.
template <typename P, bool kMake>
Values Gradient(const P& p, const GradArgs& g) {
  constexpr bool kDiag = std::is_same_v<P, DiagParams>;
  const OpDef& op =
      kDiag ? (kMake ? makediag : extractdiag) : (kMake ? maketrian : extracttrian);
  const Value dy = g.dout(0);
  return {ApplyOne(op, MakeParams(P(p)), {&dy, 1})};
}

bool InferSum(const NoParams&, Specs& in, Specs& out) {
  const Shape& a = in[0].shape;
  if (!CheckMatrices("_linalg_sumlogdiag", a, true)) return true;
  Shape y(a.begin(), a.end() - 2);
  if (y.rank() == 0) y.Append(1);
  return Assign(out[0].shape, y);
}

void SumLogDiag(const NoParams&, const KernelArgs& args) {
  ForEachMatrix(args, 2, [&](const std::vector<Matrix>& in, std::vector<Matrix>& out) {
    double sum = 0;
    for (int64_t i = 0; i < in[0].rows; ++i) sum += std::log(in[0](i, i));
    out[0].v[0] = sum;
  });
}

Values SumLogDiagGradient(const NoParams&, const GradArgs& g) {
  const Value diagonal = ApplyOne(extractdiag, nullptr, std::span(&g.in(0), 1));
  Shape column = diagonal.shape();
  column.back() = 1;
  const Value d = reshape(g.dout(0), column) / diagonal;
  return {ApplyOne(makediag, nullptr, {&d, 1})};
}

const OpDef& sumlogdiag = Register<NoParams>({
    .name = "_linalg_sumlogdiag",
    .aliases = {"linalg_sumlogdiag"},
    .doc =
        "The sum of the logarithms of the diagonal: of a Cholesky factor, half of the "
        "determinant's logarithm.",
    .inputs = {{"A", Types::kFloats, "(..., n, n)."}},
    .infer = InferSum,
    .gradient = SumLogDiagGradient,
    .uses = {.in = 0b1},
    .cpu = {{"plain", SumLogDiag}},
    .samples = {{{Uniform({3, 3}, 0.5, 2)}}, {{Uniform({2, 2, 2}, 0.5, 2)}}},
});

}  // namespace
}  // namespace plait
