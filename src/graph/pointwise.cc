// The table of scalar functions: names, arities, and their meaning in C.

#include "graph/pointwise.h"

namespace plait {
namespace {

constexpr bool kFloatOnly = true, kAnyType = false;

// In the order of Fn. An expression that starts with plait_ calls a helper which every
// run-time compiler's prelude defines; the others are plain C of the compute type.
constexpr FnInfo kInfo[] = {
    {"copy", 1, kAnyType, "x"},
    {"cast", 1, kAnyType, "plait_cast(x)"},
    {"negative", 1, kAnyType, "-x"},
    {"abs", 1, kAnyType, "plait_abs(x)"},
    {"sign", 1, kAnyType, "(x > 0) - (x < 0)"},
    {"round", 1, kAnyType, "plait_round(x)"},
    {"rint", 1, kAnyType, "plait_rint(x)"},
    {"ceil", 1, kAnyType, "plait_ceil(x)"},
    {"floor", 1, kAnyType, "plait_floor(x)"},
    {"trunc", 1, kAnyType, "plait_trunc(x)"},
    {"square", 1, kAnyType, "x * x"},
    {"sqrt", 1, kFloatOnly, "sqrt(x)"},
    {"rsqrt", 1, kFloatOnly, "1 / sqrt(x)"},
    {"cbrt", 1, kFloatOnly, "cbrt(x)"},
    {"rcbrt", 1, kFloatOnly, "1 / cbrt(x)"},
    {"reciprocal", 1, kFloatOnly, "1 / x"},
    {"exp", 1, kFloatOnly, "exp(x)"},
    {"exp2", 1, kFloatOnly, "exp2(x)"},
    {"expm1", 1, kFloatOnly, "expm1(x)"},
    {"log", 1, kFloatOnly, "log(x)"},
    {"log2", 1, kFloatOnly, "log2(x)"},
    {"log10", 1, kFloatOnly, "log10(x)"},
    {"log1p", 1, kFloatOnly, "log1p(x)"},
    {"sin", 1, kFloatOnly, "sin(x)"},
    {"cos", 1, kFloatOnly, "cos(x)"},
    {"tan", 1, kFloatOnly, "tan(x)"},
    {"arcsin", 1, kFloatOnly, "asin(x)"},
    {"arccos", 1, kFloatOnly, "acos(x)"},
    {"arctan", 1, kFloatOnly, "atan(x)"},
    {"sinh", 1, kFloatOnly, "sinh(x)"},
    {"cosh", 1, kFloatOnly, "cosh(x)"},
    {"tanh", 1, kFloatOnly, "tanh(x)"},
    {"arcsinh", 1, kFloatOnly, "asinh(x)"},
    {"arccosh", 1, kFloatOnly, "acosh(x)"},
    {"arctanh", 1, kFloatOnly, "atanh(x)"},
    {"erf", 1, kFloatOnly, "erf(x)"},
    {"erfinv", 1, kFloatOnly, "erfinv(x)"},
    {"gamma", 1, kFloatOnly, "tgamma(x)"},
    {"gammaln", 1, kFloatOnly, "lgamma(x)"},
    {"digamma", 1, kFloatOnly, "plait_digamma(x)"},
    {"sigmoid", 1, kFloatOnly, "1 / (1 + exp(-x))"},
    {"log_sigmoid", 1, kFloatOnly, "(x < 0 ? x : 0) - log1p(exp(-fabs(x)))"},
    {"softrelu", 1, kFloatOnly, "(x > 20 ? x : log1p(exp(x)))"},
    {"softsign", 1, kFloatOnly, "x / (1 + fabs(x))"},
    {"relu", 1, kAnyType, "(x > 0 || x != x ? x : 0)"},
    {"logical_not", 1, kAnyType, "x == 0"},
    {"bitwise_not", 1, kAnyType, "plait_bitwise_not(x)"},
    {"isnan", 1, kAnyType, "x != x"},
    {"isinf", 1, kAnyType, "plait_isinf(x)"},
    {"isfinite", 1, kAnyType, "plait_isfinite(x)"},
    {"add", 2, kAnyType, "x + y"},
    {"sub", 2, kAnyType, "x - y"},
    {"mul", 2, kAnyType, "x * y"},
    {"div", 2, kAnyType, "plait_div(x, y)"},
    {"mod", 2, kAnyType, "plait_mod(x, y)"},
    {"power", 2, kAnyType, "plait_power(x, y)"},
    {"maximum", 2, kAnyType, "(x > y || x != x ? x : y)"},
    {"minimum", 2, kAnyType, "(x < y || x != x ? x : y)"},
    {"hypot", 2, kFloatOnly, "hypot(x, y)"},
    {"arctan2", 2, kFloatOnly, "atan2(x, y)"},
    {"copysign", 2, kFloatOnly, "copysign(x, y)"},
    {"ldexp", 2, kFloatOnly, "plait_ldexp(x, y)"},
    {"equal", 2, kAnyType, "x == y"},
    {"not_equal", 2, kAnyType, "x != y"},
    {"greater", 2, kAnyType, "x > y"},
    {"greater_equal", 2, kAnyType, "x >= y"},
    {"less", 2, kAnyType, "x < y"},
    {"less_equal", 2, kAnyType, "x <= y"},
    {"logical_and", 2, kAnyType, "x != 0 && y != 0"},
    {"logical_or", 2, kAnyType, "x != 0 || y != 0"},
    {"logical_xor", 2, kAnyType, "(x != 0) != (y != 0)"},
    {"bitwise_and", 2, kAnyType, "plait_bitwise_and(x, y)"},
    {"bitwise_or", 2, kAnyType, "plait_bitwise_or(x, y)"},
    {"bitwise_xor", 2, kAnyType, "plait_bitwise_xor(x, y)"},
    {"where", 3, kAnyType, "(x != 0 ? y : z)"},
};
static_assert(std::size(kInfo) == static_cast<size_t>(Fn::kCount));
static_assert(kInfo[static_cast<int>(Fn::kErf)].name == "erf");
static_assert(kInfo[static_cast<int>(Fn::kAdd)].name == "add");
static_assert(kInfo[static_cast<int>(Fn::kLessEqual)].name == "less_equal");
static_assert(kInfo[static_cast<int>(Fn::kWhere)].arity == 3);

}  // namespace

const FnInfo& Info(Fn fn) {
  return kInfo[static_cast<int>(fn)];
}

}  // namespace plait
