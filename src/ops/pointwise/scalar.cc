// Arithmetic of an array and a number: _plus_scalar, _rminus_scalar, ...

#include "ops/gradients.h"
#include "ops/infer.h"
#include "ops/pointwise/numbers.h"

namespace plait {
namespace {

// A number beside an integer array is truncated unless it says that it is no integer;
// then the result is float64. A bool array counts as int64.
struct ScalarParams {
  double scalar = 1;
  bool is_int = true;
};

DType ResultType(const ScalarParams& p, DType x) {
  if (x == DType::kUnknown || IsFloat(x)) return x;
  if (!p.is_int) return DType::kFloat64;
  return x == DType::kBool ? DType::kInt64 : x;
}

void ScalarTypes(const ScalarParams& p, Specs& in, Specs& out) {
  if (in[0].dtype == DType::kUnknown && IsFloat(out[0].dtype)) {
    in[0].dtype = out[0].dtype;
  }
  if (in[0].dtype != DType::kUnknown) out[0].dtype = ResultType(p, in[0].dtype);
}

template <Fn F, bool kReversed = false>
void Arithmetic(const ScalarParams& p, PwCall& c) {
  const Pw x = Cast(c.in(0), ResultType(p, c.in(0).dtype()));
  const Pw number = IsFloat(x.dtype()) ? p.scalar : std::trunc(p.scalar);
  c.Return(kReversed ? Call(F, number, x) : Call(F, x, number));
}

// Compares by value: a fraction beside integers is not truncated.
template <Fn F>
void Compare(const ScalarParams& p, PwCall& c) {
  const Pw& x = c.in(0);
  const bool exact = IsFloat(x.dtype()) || Saturate(p.scalar, x.dtype()) == p.scalar;
  const Pw y = Call(F, exact ? x : Cast(x, DType::kFloat64), p.scalar);
  c.Return(Cast(y, ResultType(p, x.dtype())));
}

using P = ScalarParams;
template <Value (*F)(const P&, const GradArgs&)>
Values One(const P& p, const GradArgs& g) {
  return {FitDType(F(p, g), g.in_spec(0))};
}

Value PassOn(const P&, const GradArgs& g) {
  return g.dout(0);
}
Value Negated(const P&, const GradArgs& g) {
  return -g.dout(0);
}
Value MulDx(const P& p, const GradArgs& g) {
  return g.dout(0) * p.scalar;
}
Value DivDx(const P& p, const GradArgs& g) {
  return g.dout(0) / p.scalar;
}
Value RdivDx(const P& p, const GradArgs& g) {
  return g.dout(0) * -p.scalar / square(g.in(0));
}
Value RmodDx(const P& p, const GradArgs& g) {
  return -(g.dout(0) * Make("floor", {p.scalar / g.in(0)}));
}
Value PowerDx(const P& p, const GradArgs& g) {
  if (p.scalar == 0) return zeros(g.in_spec(0));
  if (p.scalar == 1) return g.dout(0);
  if (p.scalar == 2) return g.dout(0) * g.in(0) * 2.0;
  return g.dout(0) * power(g.in(0), p.scalar - 1) * p.scalar;
}
Value RpowerDx(const P& p, const GradArgs& g) {
  return g.dout(0) * g.out(0) * (p.scalar == 0 ? 0 : std::log(p.scalar));
}
Value MaximumDx(const P& p, const GradArgs& g) {
  return g.dout(0) * (g.in(0) >= p.scalar);
}
Value MinimumDx(const P& p, const GradArgs& g) {
  return g.dout(0) * (g.in(0) <= p.scalar);
}
Value HypotDx(const P&, const GradArgs& g) {
  return g.dout(0) * g.in(0) / g.out(0);
}

struct Row {
  const char* name;
  std::vector<const char*> aliases;
  void (*pointwise)(const P&, PwCall&);
  Rule<P> rule;
  double scalar;  // of the samples
  const char* doc;
};

constexpr Rule<P> kZero{};

const Row kRows[] = {
    {"_plus_scalar",
     {"_PlusScalar"},
     Arithmetic<Fn::kAdd>,
     {One<PassOn>, {}},
     1.5,
     "x + scalar."},
    {"_scatter_plus_scalar",
     {},
     Arithmetic<Fn::kAdd>,
     {One<PassOn>, {}},
     1.5,
     "x + scalar, of a sparse x where it has values only."},
    {"_minus_scalar",
     {"_MinusScalar"},
     Arithmetic<Fn::kSub>,
     {One<PassOn>, {}},
     1.5,
     "x - scalar."},
    {"_scatter_minus_scalar",
     {},
     Arithmetic<Fn::kSub>,
     {One<PassOn>, {}},
     1.5,
     "x - scalar, of a sparse x where it has values only."},
    {"_rminus_scalar",
     {"_RMinusScalar"},
     Arithmetic<Fn::kSub, true>,
     {One<Negated>, {}},
     1.5,
     "scalar - x."},
    {"_mul_scalar",
     {"_MulScalar"},
     Arithmetic<Fn::kMul>,
     {One<MulDx>, {}},
     1.5,
     "x * scalar."},
    {"_div_scalar",
     {"_DivScalar"},
     Arithmetic<Fn::kDiv>,
     {One<DivDx>, {}},
     2,
     "x / scalar; integers drop the fraction."},
    {"_rdiv_scalar",
     {"_RDivScalar"},
     Arithmetic<Fn::kDiv, true>,
     {One<RdivDx>, {.in = 1}},
     2.5,
     "scalar / x; integers drop the fraction."},
    {"_mod_scalar",
     {"_ModScalar"},
     Arithmetic<Fn::kMod>,
     {One<PassOn>, {}},
     5,
     "The remainder of x / scalar, with the sign of scalar."},
    {"_rmod_scalar",
     {"_RModScalar"},
     Arithmetic<Fn::kMod, true>,
     {One<RmodDx>, {.in = 1}},
     5,
     "The remainder of scalar / x, with the sign of x."},
    {"_power_scalar",
     {"_PowerScalar"},
     Arithmetic<Fn::kPower>,
     {One<PowerDx>, {.in = 1}},
     2.5,
     "x to the power of scalar."},
    {"_rpower_scalar",
     {"_RPowerScalar"},
     Arithmetic<Fn::kPower, true>,
     {One<RpowerDx>, {.out = 1}},
     2.5,
     "scalar to the power of x."},
    {"_maximum_scalar",
     {"_MaximumScalar", "_npi_maximum_scalar"},
     Arithmetic<Fn::kMaximum>,
     {One<MaximumDx>, {.in = 1}},
     1.2,
     "The larger of x and scalar; NaN where x is."},
    {"_minimum_scalar",
     {"_MinimumScalar", "_npi_minimum_scalar"},
     Arithmetic<Fn::kMinimum>,
     {One<MinimumDx>, {.in = 1}},
     1.2,
     "The smaller of x and scalar; NaN where x is."},
    {"_hypot_scalar",
     {"_HypotScalar", "_npi_hypot_scalar"},
     Arithmetic<Fn::kHypot>,
     {One<HypotDx>, {.in = 1, .out = 1}},
     1.5,
     "sqrt(x^2 + scalar^2)."},

    {"_equal_scalar",
     {"_EqualScalar"},
     Compare<Fn::kEqual>,
     kZero,
     1,
     "1 where x = scalar, else 0, in the dtype of x."},
    {"_not_equal_scalar",
     {"_NotEqualScalar"},
     Compare<Fn::kNotEqual>,
     kZero,
     1,
     "1 where x is not scalar, else 0, in the dtype of x."},
    {"_greater_scalar",
     {"_GreaterScalar"},
     Compare<Fn::kGreater>,
     kZero,
     1,
     "1 where x > scalar, else 0, in the dtype of x."},
    {"_greater_equal_scalar",
     {"_GreaterEqualScalar"},
     Compare<Fn::kGreaterEqual>,
     kZero,
     1,
     "1 where x >= scalar, else 0, in the dtype of x."},
    {"_lesser_scalar",
     {"_LesserScalar"},
     Compare<Fn::kLess>,
     kZero,
     1,
     "1 where x < scalar, else 0, in the dtype of x."},
    {"_lesser_equal_scalar",
     {"_LesserEqualScalar"},
     Compare<Fn::kLessEqual>,
     kZero,
     1,
     "1 where x <= scalar, else 0, in the dtype of x."},
    {"_logical_and_scalar",
     {"_LogicalAndScalar"},
     Compare<Fn::kLogicalAnd>,
     kZero,
     1,
     "1 where neither x nor scalar is 0, else 0."},
    {"_logical_or_scalar",
     {"_LogicalOrScalar"},
     Compare<Fn::kLogicalOr>,
     kZero,
     0,
     "1 where x or scalar is not 0, else 0."},
    {"_logical_xor_scalar",
     {"_LogicalXorScalar"},
     Compare<Fn::kLogicalXor>,
     kZero,
     1,
     "1 where just one of x and scalar is 0, else 0."},
};

void Add(const Row& row) {
  const bool smooth = row.rule.gradient != nullptr;
  const auto x = [&](Shape shape) {
    return smooth ? Uniform(std::move(shape), 0.4, 2)
                  : Integers(std::move(shape), 0, 3);
  };
  Register<P>({
      .name = row.name,
      .aliases = row.aliases,
      .doc = row.doc,
      .inputs = {{"data", Types::kAny, "x, of any shape."}},
      .params = {{"scalar", &P::scalar, "The number."},
                 {"is_int", &P::is_int,
                  "Whether an integer array stays one; else it becomes float64."}},
      .types = ScalarTypes,
      .gradient = row.rule.gradient,
      .zero_gradient = !smooth,
      .uses = row.rule.uses,
      .pointwise = row.pointwise,
      .samples = {{{x({2, 3})}, {.scalar = row.scalar}},
                  {{x({5})}, {.scalar = row.scalar, .is_int = false}},
                  {{x({0, 2})}, {.scalar = row.scalar}}},
  });
}

[[maybe_unused]] const bool kAdded = [] {
  for (const Row& row : kRows) Add(row);
  return true;
}();

}  // namespace
}  // namespace plait
