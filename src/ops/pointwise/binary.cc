// Arithmetic of two arrays: broadcast_add, elemwise_add, ... and their relatives.
//
// The broadcast_ form stretches axes of size 1; the other form wants equal shapes. Both
// share one function and one gradient. Mixed dtypes are promoted as NumPy does.

#include "ops/gradients.h"
#include "ops/infer.h"

namespace plait {
namespace {

using V = const Value&;
using None = NoParams;

// The gradients of both inputs, computed where they are wanted.
template <Value (*Dx)(const GradArgs&), Value (*Dy)(const GradArgs&)>
Values Both(const None&, const GradArgs& g) {
  return {g.wants(0) ? Fit(Dx(g), g.in_spec(0)) : Value(),
          g.wants(1) ? Fit(Dy(g), g.in_spec(1)) : Value()};
}

Value PassOn(const GradArgs& g) {
  return g.dout(0);
}
Value Negated(const GradArgs& g) {
  return -g.dout(0);
}
Value TimesX(const GradArgs& g) {
  return g.dout(0) * g.in(0);
}
Value TimesY(const GradArgs& g) {
  return g.dout(0) * g.in(1);
}
Value OverY(const GradArgs& g) {
  return g.dout(0) / g.in(1);
}
Value DivDy(const GradArgs& g) {
  return -(g.dout(0) * g.in(0) / square(g.in(1)));
}
// x - floor(x / y) * y
Value ModDy(const GradArgs& g) {
  return -(g.dout(0) * Make("floor", {g.in(0) / g.in(1)}));
}
// y x^(y - 1), as y x^0 where y is 0: no 0 * inf.
Value PowerDx(const GradArgs& g) {
  V y = g.in(1);
  return g.dout(0) * y * power(g.in(0), y - 1.0 + equal(y, 0.0));
}
// x^y log(x); 0 where x is 0.
Value PowerDy(const GradArgs& g) {
  V x = g.in(0);
  return g.dout(0) * power(x, g.in(1)) * log(x + equal(x, 0.0));
}
Value MaximumDx(const GradArgs& g) {
  return g.dout(0) * greater_equal(g.in(0), g.in(1));
}
Value MaximumDy(const GradArgs& g) {
  return g.dout(0) * less(g.in(0), g.in(1));
}
Value MinimumDx(const GradArgs& g) {
  return g.dout(0) * less_equal(g.in(0), g.in(1));
}
Value MinimumDy(const GradArgs& g) {
  return g.dout(0) * greater(g.in(0), g.in(1));
}
Value HypotDx(const GradArgs& g) {
  return g.dout(0) * g.in(0) / g.out(0);
}
Value HypotDy(const GradArgs& g) {
  return g.dout(0) * g.in(1) / g.out(0);
}

struct Row {
  const char* broadcast;
  std::vector<const char*> broadcast_aliases;
  const char* same;
  std::vector<const char*> same_aliases;
  Fn fn;
  Rule<None> rule;
  double low, high;
  const char* doc;
};

constexpr Rule<None> kZero{};
constexpr Uses kInputs{.in = 3}, kInputsAndOutput{.in = 3, .out = 1};

const Row kRows[] = {
    {"broadcast_add",
     {"_sparse_broadcast_add", "_sparse_broadcast_plus", "broadcast_plus"},
     "elemwise_add",
     {"_Plus", "_add", "_plus", "_sparse_elemwise_add"},
     Fn::kAdd,
     {Both<PassOn, PassOn>, {}},
     -2,
     2,
     "x + y."},
    {"broadcast_sub",
     {"_sparse_broadcast_minus", "_sparse_broadcast_sub", "broadcast_minus"},
     "elemwise_sub",
     {"_Minus", "_minus", "_sparse_elemwise_sub", "_sub"},
     Fn::kSub,
     {Both<PassOn, Negated>, {}},
     -2,
     2,
     "x - y."},
    {"broadcast_mul",
     {"_sparse_broadcast_mul"},
     "elemwise_mul",
     {"_Mul", "_mul", "_sparse_elemwise_mul"},
     Fn::kMul,
     {Both<TimesY, TimesX>, kInputs},
     -2,
     2,
     "x * y."},
    {"broadcast_div",
     {"_sparse_broadcast_div"},
     "elemwise_div",
     {"_Div", "_div", "_sparse_elemwise_div"},
     Fn::kDiv,
     {Both<OverY, DivDy>, kInputs},
     0.5,
     3,
     "x / y; integers drop the fraction, and give 0 where y is 0."},
    {nullptr,
     {},
     "_scatter_elemwise_div",
     {},
     Fn::kDiv,
     {Both<OverY, DivDy>, kInputs},
     0.5,
     3,
     "x / y, of a sparse x where it has values only."},
    {"broadcast_mod",
     {},
     "_mod",
     {"_Mod"},
     Fn::kMod,
     {Both<PassOn, ModDy>, kInputs},
     0.5,
     3,
     "The remainder of x / y, with the sign of y; 0 where an integer y is 0."},
    {"broadcast_power",
     {},
     "_power",
     {"_Power"},
     Fn::kPower,
     {Both<PowerDx, PowerDy>, kInputs},
     0.5,
     2,
     "x to the power of y."},
    {"broadcast_maximum",
     {"_npi_maximum"},
     "_maximum",
     {"_Maximum"},
     Fn::kMaximum,
     {Both<MaximumDx, MaximumDy>, kInputs},
     -2,
     2,
     "The larger of x and y; NaN where either is."},
    {"broadcast_minimum",
     {"_npi_minimum"},
     "_minimum",
     {"_Minimum"},
     Fn::kMinimum,
     {Both<MinimumDx, MinimumDy>, kInputs},
     -2,
     2,
     "The smaller of x and y; NaN where either is."},
    {"broadcast_hypot",
     {},
     "_hypot",
     {"_Hypot"},
     Fn::kHypot,
     {Both<HypotDx, HypotDy>, kInputsAndOutput},
     0.3,
     2,
     "The length of the hypotenuse: sqrt(x^2 + y^2)."},

    {"broadcast_equal",
     {},
     "_equal",
     {"_Equal"},
     Fn::kEqual,
     kZero,
     0,
     3,
     "1 where x = y, else 0, in the dtype of x and y."},
    {"broadcast_not_equal",
     {},
     "_not_equal",
     {"_Not_Equal"},
     Fn::kNotEqual,
     kZero,
     0,
     3,
     "1 where x and y differ, else 0, in the dtype of x and y."},
    {"broadcast_greater",
     {},
     "_greater",
     {"_Greater"},
     Fn::kGreater,
     kZero,
     0,
     3,
     "1 where x > y, else 0, in the dtype of x and y."},
    {"broadcast_greater_equal",
     {},
     "_greater_equal",
     {"_Greater_Equal"},
     Fn::kGreaterEqual,
     kZero,
     0,
     3,
     "1 where x >= y, else 0, in the dtype of x and y."},
    {"broadcast_lesser",
     {},
     "_lesser",
     {"_Lesser"},
     Fn::kLess,
     kZero,
     0,
     3,
     "1 where x < y, else 0, in the dtype of x and y."},
    {"broadcast_lesser_equal",
     {},
     "_lesser_equal",
     {"_Lesser_Equal"},
     Fn::kLessEqual,
     kZero,
     0,
     3,
     "1 where x <= y, else 0, in the dtype of x and y."},
    {"broadcast_logical_and",
     {},
     "_logical_and",
     {"_Logical_And"},
     Fn::kLogicalAnd,
     kZero,
     0,
     2,
     "1 where neither x nor y is 0, else 0."},
    {"broadcast_logical_or",
     {},
     "_logical_or",
     {"_Logical_Or"},
     Fn::kLogicalOr,
     kZero,
     0,
     2,
     "1 where x or y is not 0, else 0."},
    {"broadcast_logical_xor",
     {},
     "_logical_xor",
     {"_Logical_Xor"},
     Fn::kLogicalXor,
     kZero,
     0,
     2,
     "1 where just one of x and y is 0, else 0."},
};

void Add(const Row& row) {
  const bool smooth = row.rule.gradient != nullptr;
  const auto sample = [&](Shape shape) {
    return smooth ? Uniform(std::move(shape), row.low, row.high)
                  : Integers(std::move(shape), static_cast<int64_t>(row.low),
                             static_cast<int64_t>(row.high));
  };
  OpSpec<None> spec = {
      .name = row.same,
      .aliases = row.same_aliases,
      .doc = row.doc,
      .inputs = {{"lhs", Types::kAny, "x, of any shape."},
                 {"rhs", Types::kAny, "y, of the same shape."}},
      .types = PromotedTypes<None>,
      .infer = SameShape<None>,
      .gradient = row.rule.gradient,
      .zero_gradient = !smooth,
      .uses = row.rule.uses,
      .fn = row.fn,
      .samples = {{{sample({2, 3}), sample({2, 3})}}, {{sample({0}), sample({0})}}},
  };
  Register(spec);
  if (row.broadcast == nullptr) return;
  spec.name = row.broadcast;
  spec.aliases = row.broadcast_aliases;
  spec.inputs[1].doc = "y, of a shape that broadcasts with that of x.";
  spec.infer = nullptr;
  spec.samples = {{{sample({2, 3}), sample({2, 3})}},
                  {{sample({2, 1, 3}), sample({4, 1})}},
                  {{sample({3}), sample({2, 3})}},
                  {{sample({1}), sample({0, 2})}}};
  Register(spec);
}

[[maybe_unused]] const bool kAdded = [] {
  for (const Row& row : kRows) Add(row);
  return true;
}();

}  // namespace
}  // namespace plait
