// Smooth functions of one array, element by element: exp, sin, sqrt, ...

#include <numbers>

#include "ops/gradients.h"

namespace plait {
namespace {

using V = const Value&;
using None = NoParams;

// Gradients from the input, from the output, and from both.
template <Value (*F)(V x, V dy)>
Values CallX(const None&, const GradArgs& g) {
  return {F(g.in(0), g.dout(0))};
}
template <Value (*F)(V y, V dy)>
Values CallY(const None&, const GradArgs& g) {
  return {F(g.out(0), g.dout(0))};
}
template <Value (*F)(V x, V y, V dy)>
Values CallXY(const None&, const GradArgs& g) {
  return {F(g.in(0), g.out(0), g.dout(0))};
}
template <Value (*F)(V, V)>
constexpr Rule<None> kOfX{CallX<F>, {.in = 1}};
template <Value (*F)(V, V)>
constexpr Rule<None> kOfY{CallY<F>, {.out = 1}};
template <Value (*F)(V, V, V)>
constexpr Rule<None> kOfXY{CallXY<F>, {.in = 1, .out = 1}};

using std::numbers::inv_sqrtpi;
using std::numbers::ln10;
using std::numbers::ln2;

Value Digamma(V x) {
  return Make("_digamma", {x});
}

Value AbsDx(V x, V dy) {
  return dy * sign(x);
}
Value ArccosDx(V x, V dy) {
  return -(dy * rsqrt(1.0 - square(x)));
}
Value ArccoshDx(V x, V dy) {
  return dy * rsqrt(square(x) - 1.0);
}
Value ArcsinDx(V x, V dy) {
  return dy * rsqrt(1.0 - square(x));
}
Value ArcsinhDx(V x, V dy) {
  return dy * rsqrt(square(x) + 1.0);
}
Value ArctanDx(V x, V dy) {
  return dy / (square(x) + 1.0);
}
Value ArctanhDx(V x, V dy) {
  return dy / (1.0 - square(x));
}
Value CbrtDx(V y, V dy) {
  return dy / (square(y) * 3.0);
}
Value CosDx(V x, V dy) {
  return -(dy * sin(x));
}
Value CoshDx(V x, V dy) {
  return dy * sinh(x);
}
Value DigammaDx(V x, V dy) {
  return dy * Make("_polygamma", {x}, {{"n", Attr(1)}});
}
Value ErfDx(V x, V dy) {
  return dy * exp(-square(x)) * (2 * inv_sqrtpi);
}
Value ErfinvDx(V y, V dy) {
  return dy * exp(square(y)) * (0.5 / inv_sqrtpi);
}
// 0 where dy is 0, also where y overflows: a branch of `where` that was not taken.
Value Times(V dy, V y) {
  return where(equal(dy, 0.0), dy, dy * y);
}
Value ExpDx(V y, V dy) {
  return Times(dy, y);
}
Value Expm1Dx(V y, V dy) {
  return Times(dy, y + 1.0);
}
Value GammaDx(V x, V y, V dy) {
  return dy * y * Digamma(x);
}
Value GammalnDx(V x, V dy) {
  return dy * Digamma(x);
}
Value LogDx(V x, V dy) {
  return dy / x;
}
Value Log10Dx(V x, V dy) {
  return dy / (x * ln10);
}
Value Log1pDx(V x, V dy) {
  return dy / (x + 1.0);
}
Value Log2Dx(V x, V dy) {
  return dy / (x * ln2);
}
Values NegativeDx(const None&, const GradArgs& g) {
  return {-g.dout(0)};
}
Value RcbrtDx(V y, V dy) {
  return dy * square(square(y)) * (-1.0 / 3);
}
Value ReciprocalDx(V y, V dy) {
  return -(dy * square(y));
}
// Where y is not positive it is 0, or NaN, which is passed on.
Value ReluDx(V y, V dy) {
  return where(y > 0.0, dy, y);
}
Value RsqrtDx(V y, V dy) {
  return dy * y * square(y) * -0.5;
}
Value SigmoidDx(V y, V dy) {
  return dy * y * (1.0 - y);
}
Value SinDx(V x, V dy) {
  return dy * cos(x);
}
Value SinhDx(V x, V dy) {
  return dy * cosh(x);
}
Value SoftsignDx(V x, V dy) {
  return dy / square(abs(x) + 1.0);
}
Value SqrtDx(V y, V dy) {
  return dy * 0.5 / y;
}
Value SquareDx(V x, V dy) {
  return dy * x * 2.0;
}
Value TanDx(V y, V dy) {
  return dy * (square(y) + 1.0);
}
Value TanhDx(V y, V dy) {
  return dy * (1.0 - square(y));
}

struct Row {
  const char* name;
  std::vector<const char*> aliases;
  Fn fn;
  double low, high;  // samples are drawn from here
  Rule<None> rule;
  const char* doc;
};

const Row kRows[] = {
    {"abs", {"_sparse_abs"}, Fn::kAbs, 0.2, 2, kOfX<AbsDx>, "The absolute value."},
    {"arccos",
     {"_sparse_arccos"},
     Fn::kArccos,
     -0.8,
     0.8,
     kOfX<ArccosDx>,
     "The inverse cosine, in [0, pi]; NaN outside [-1, 1]."},
    {"arccosh",
     {"_sparse_arccosh"},
     Fn::kArccosh,
     1.5,
     4,
     kOfX<ArccoshDx>,
     "The inverse hyperbolic cosine; NaN below 1."},
    {"arcsin",
     {"_sparse_arcsin"},
     Fn::kArcsin,
     -0.8,
     0.8,
     kOfX<ArcsinDx>,
     "The inverse sine, in [-pi/2, pi/2]; NaN outside [-1, 1]."},
    {"arcsinh",
     {"_sparse_arcsinh"},
     Fn::kArcsinh,
     -3,
     3,
     kOfX<ArcsinhDx>,
     "The inverse hyperbolic sine."},
    {"arctan",
     {"_sparse_arctan"},
     Fn::kArctan,
     -3,
     3,
     kOfX<ArctanDx>,
     "The inverse tangent, in [-pi/2, pi/2]."},
    {"arctanh",
     {"_sparse_arctanh"},
     Fn::kArctanh,
     -0.8,
     0.8,
     kOfX<ArctanhDx>,
     "The inverse hyperbolic tangent; NaN outside [-1, 1]."},
    {"cbrt", {"_sparse_cbrt"}, Fn::kCbrt, 0.3, 3, kOfY<CbrtDx>, "The cube root."},
    {"cos",
     {"_sparse_cos"},
     Fn::kCos,
     -4,
     4,
     kOfX<CosDx>,
     "The cosine of an angle in radians."},
    {"cosh",
     {"_sparse_cosh"},
     Fn::kCosh,
     -3,
     3,
     kOfX<CoshDx>,
     "The hyperbolic cosine."},
    {"_digamma",
     {},
     Fn::kDigamma,
     0.5,
     4,
     kOfX<DigammaDx>,
     "The logarithmic derivative of the gamma function."},
    {"erf", {"_npx_erf"}, Fn::kErf, -2, 2, kOfX<ErfDx>, "The error function."},
    {"erfinv",
     {"_npx_erfinv"},
     Fn::kErfinv,
     -0.8,
     0.8,
     kOfY<ErfinvDx>,
     "The inverse of the error function; NaN outside [-1, 1]."},
    {"exp", {"_sparse_exp"}, Fn::kExp, -2, 2, kOfY<ExpDx>, "e to the power of x."},
    {"expm1",
     {"_sparse_expm1"},
     Fn::kExpm1,
     -2,
     2,
     kOfY<Expm1Dx>,
     "exp(x) - 1, exact for small x too."},
    {"gamma",
     {"_npx_gamma", "_sparse_gamma"},
     Fn::kGamma,
     0.6,
     4,
     kOfXY<GammaDx>,
     "The gamma function, which extends the factorial: gamma(n + 1) = n!."},
    {"gammaln",
     {"_npx_gammaln", "_sparse_gammaln"},
     Fn::kGammaln,
     0.6,
     6,
     kOfX<GammalnDx>,
     "The logarithm of the absolute value of the gamma function."},
    {"log",
     {"_sparse_log"},
     Fn::kLog,
     0.3,
     5,
     kOfX<LogDx>,
     "The natural logarithm; NaN below 0."},
    {"log10",
     {"_sparse_log10"},
     Fn::kLog10,
     0.3,
     5,
     kOfX<Log10Dx>,
     "The logarithm to base 10; NaN below 0."},
    {"log1p",
     {"_sparse_log1p"},
     Fn::kLog1p,
     -0.5,
     4,
     kOfX<Log1pDx>,
     "log(1 + x), exact for small x too."},
    {"log2",
     {"_sparse_log2"},
     Fn::kLog2,
     0.3,
     5,
     kOfX<Log2Dx>,
     "The logarithm to base 2; NaN below 0."},
    {"negative",
     {"_sparse_negative"},
     Fn::kNegative,
     -2,
     2,
     {NegativeDx, {}},
     "x with the opposite sign."},
    {"rcbrt", {}, Fn::kRcbrt, 0.5, 3, kOfY<RcbrtDx>, "One over the cube root."},
    {"reciprocal", {}, Fn::kReciprocal, 0.5, 3, kOfY<ReciprocalDx>, "One over x."},
    {"relu",
     {"_sparse_relu"},
     Fn::kRelu,
     0.2,
     2,
     kOfY<ReluDx>,
     "x where it is positive, else 0."},
    {"rsqrt",
     {"_sparse_rsqrt"},
     Fn::kRsqrt,
     0.5,
     3,
     kOfY<RsqrtDx>,
     "One over the square root."},
    {"sigmoid",
     {"_sparse_sigmoid"},
     Fn::kSigmoid,
     -3,
     3,
     kOfY<SigmoidDx>,
     "1 / (1 + exp(-x)), between 0 and 1."},
    {"sin",
     {"_sparse_sin"},
     Fn::kSin,
     -4,
     4,
     kOfX<SinDx>,
     "The sine of an angle in radians."},
    {"sinh", {"_sparse_sinh"}, Fn::kSinh, -3, 3, kOfX<SinhDx>, "The hyperbolic sine."},
    {"softsign",
     {},
     Fn::kSoftsign,
     0.2,
     3,
     kOfX<SoftsignDx>,
     "x / (1 + |x|), between -1 and 1."},
    {"sqrt",
     {"_sparse_sqrt"},
     Fn::kSqrt,
     0.3,
     4,
     kOfY<SqrtDx>,
     "The square root; NaN below 0."},
    {"square", {"_sparse_square"}, Fn::kSquare, -2, 2, kOfX<SquareDx>, "x times x."},
    {"tan",
     {"_sparse_tan"},
     Fn::kTan,
     -1,
     1,
     kOfY<TanDx>,
     "The tangent of an angle in radians."},
    {"tanh",
     {"_sparse_tanh"},
     Fn::kTanh,
     -2,
     2,
     kOfY<TanhDx>,
     "The hyperbolic tangent, between -1 and 1."},
};

void Add(const Row& row) {
  Register<NoParams>({
      .name = row.name,
      .aliases = row.aliases,
      .doc = row.doc,
      .inputs = {{"data", Types::kAny, "Numbers, of any shape."}},
      .gradient = row.rule.gradient,
      .uses = row.rule.uses,
      .fn = row.fn,
      .samples = {{{Uniform({2, 3}, row.low, row.high)}},
                  {{Uniform({17}, row.low, row.high)}},
                  {{Uniform({2, 0, 3}, row.low, row.high)}}},
  });
}

[[maybe_unused]] const bool kAdded = [] {
  for (const Row& row : kRows) Add(row);
  return true;
}();

}  // namespace
}  // namespace plait
