// Updates of optimizers: single steps by hand, in place, and the multi-tensor forms.

#include <cmath>
#include <limits>

#include "ops/call_for_test.h"

namespace plait::testing {
namespace {

// One step with out = weight, as optimizers call it; returns the weight.
NDArray Step(std::string_view name, std::vector<NDArray> arrays, const Attrs& attrs) {
  Call(name, arrays, attrs, {arrays[0]});
  return arrays[0];
}

TEST(Sgd, DecayWithoutGradient) {
  ExpectNear(Step("sgd_update", {Array({1}, {1}), Array({1}, {0})},
                  {{"lr", "0.1"}, {"wd", "0.1"}}),
             {.99});
}

TEST(Sgd, ClippingActsOnTheScaledGradientOnly) {
  ExpectNear(Step("sgd_update", {Array({2}, {1}), Array({2}, {10, -10})},
                  {{"lr", "0.1"},
                   {"wd", "0.5"},
                   {"rescale_grad", "0.5"},
                   {"clip_gradient", "2"}}),
             {.75, 1.15});
}

TEST(Sgd, MomentumIsUpdatedInPlace) {
  const NDArray w = Array({2}, {1, 2}), g = Array({2}, {1}), m = Array({2}, {.5});
  Step("sgd_mom_update", {w, g, m}, {{"lr", "0.1"}, {"momentum", "0.9"}});
  ExpectNear(m, {.35, .35});
  ExpectNear(w, {1.35, 2.35});
}

TEST(Sgd, TheMasterCopyKeepsWhatHalfPrecisionLoses) {
  const NDArray w = Array({1}, {1}, DType::kFloat16),
                g = Array({1}, {1}, DType::kFloat16);
  const NDArray master = Array({1}, {1});
  for (int i = 0; i < 10; ++i) Step("mp_sgd_update", {w, g, master}, {{"lr", "1e-4"}});
  ExpectNear(master, {.999});
  EXPECT_EQ(Numbers(w)[0], Numbers(Array({1}, {.999}, DType::kFloat16))[0]);
}

TEST(Nag, TheMomentumSeesTheUpdatedWeight) {
  const NDArray w = Array({1}, {1}), g = Array({1}, {.5}), m = Array({1}, {.2});
  Step("nag_mom_update", {w, g, m},
       {{"lr", "0.1"}, {"momentum", "0.9"}, {"wd", "0.1"}});
  const double half = .9 * .2;
  const double updated = 1 - half + 1.9 * (half - .1 * (.5 + .1));
  ExpectNear(w, {updated});
  ExpectNear(m, {half - .1 * (.5 + .1 * updated)});
}

TEST(Adam, FirstStep) {
  const double lr = .001 * std::sqrt(1 - .999) / (1 - .9);
  const NDArray w = Array({1}, {1});
  Step("adam_update", {w, Array({1}, {.1}), Array({1}, {0}), Array({1}, {0})},
       {{"lr", std::to_string(lr)}});
  EXPECT_NEAR(Numbers(w)[0], .99900000316, 2e-6);
}

TEST(AdamW, AScaleThatIsNotANumberSkipsTheStep) {
  for (double scale : {0.0, std::numeric_limits<double>::infinity(),
                       std::numeric_limits<double>::quiet_NaN()}) {
    const NDArray w = Array({2}, {1}), m = Array({2}, {.5}), v = Array({2}, {.25});
    Step("_adamw_update", {w, Array({2}, {3}), m, v, Array({1}, {scale})},
         {{"lr", "0.1"}, {"eta", "1"}, {"wd", "0.1"}});
    ExpectNear(w, {1, 1});
    ExpectNear(m, {.5, .5});
    ExpectNear(v, {.25, .25});
  }
}

TEST(Ftrl, SmallSumsGiveZeroWeights) {
  const NDArray w = Array({2}, {.1}), z = Array({2}, {0}), n = Array({2}, {0});
  Step("ftrl_update", {w, Array({2}, {.1, 2}), z, n}, {{"lr", "0.5"}, {"lamda1", "1"}});
  const auto after = Numbers(w);
  EXPECT_EQ(after[0], 0);
  EXPECT_NE(after[1], 0);
}

TEST(MultiSgd, EqualsSingleSteps) {
  const Attrs one = {{"lr", "0.1"}, {"momentum", "0.9"}, {"wd", "0.01"}};
  const Attrs two = {{"lr", "0.2"}, {"momentum", "0.9"}, {"wd", "0"}};
  const Attrs both = {{"lrs", "(0.1, 0.2)"},
                      {"wds", "(0.01, 0)"},
                      {"momentum", "0.9"},
                      {"num_weights", "2"}};
  const Shape a{3, 2}, b{4};
  std::vector<NDArray> x, y;
  for (auto* list : {&x, &y}) {
    for (const Shape& s : {a, b}) {
      for (double first : {1.0, -1.0, 0.5}) list->push_back(Ramp(s, .1, first));
    }
  }
  Step("sgd_mom_update", {x[0], x[1], x[2]}, one);
  Step("sgd_mom_update", {x[3], x[4], x[5]}, two);
  Call("multi_sgd_mom_update", y, both, {y[0], y[3]});
  for (size_t i = 0; i < x.size(); ++i) EXPECT_EQ(Numbers(x[i]), Numbers(y[i])) << i;
}

TEST(MultiSgd, PreloadedRatesEqualGivenOnes) {
  std::vector<NDArray> x = {Ramp({3}), Ramp({3}, .1)}, y = {Ramp({3}), Ramp({3}, .1)};
  Call("multi_sgd_update", x, {{"lrs", "(0.5,)"}, {"wds", "(0.25,)"}}, {x[0]});
  Call("preloaded_multi_sgd_update", {y[0], y[1], Array({1}, {.5}), Array({1}, {.25})},
       {}, {y[0]});
  EXPECT_EQ(Numbers(x[0]), Numbers(y[0]));
}

TEST(MultiSgd, CountsMustFit) {
  ExpectError(
      [] {
        Call("multi_sgd_update", {Ramp({3}), Ramp({3})},
             {{"lrs", "(0.5, 0.5)"}, {"wds", "(0, 0)"}, {"num_weights", "1"}});
      },
      ErrorKind::kValue, {"multi_sgd_update", "2 lrs"});
}

TEST(Lamb, TwoPhasesEqualTheMultiForm) {
  const auto make = [] {
    return std::vector<NDArray>{Ramp({4}, .5, 1), Ramp({4}, .1, -.2), Ramp({4}, .1),
                                Ramp({4}, .2, .1)};
  };
  const std::vector<NDArray> x = make(), y = make();
  const NDArray r1 = Array(
      {1},
      {std::sqrt(Numbers(Call1("multi_sum_sq", {x[0]}, {{"num_arrays", "1"}}))[0])});
  const NDArray g = Call1("lamb_update_phase1", x, {{"t", "2"}, {"wd", "0.1"}});
  const NDArray r2 = Array(
      {1}, {std::sqrt(Numbers(Call1("multi_sum_sq", {g}, {{"num_arrays", "1"}}))[0])});
  Step("lamb_update_phase2", {x[0], g, r1, r2}, {{"lr", "0.1"}});
  Call("_multi_lamb_update", y,
       {{"learning_rates", "(0.1,)"}, {"wds", "(0.1,)"}, {"step_count", "(2,)"}},
       {y[0]});
  ExpectNear(y[0], Numbers(x[0]));
  ExpectNear(y[2], Numbers(x[2]));
}

TEST(AllFinite, FindsOneBadNumberAmongMany) {
  NDArray x = Array({1000}, {1});
  ExpectNear(Call1("all_finite", {x}), {1});
  x.data<float>()[777] = NAN;
  ExpectNear(Call1("all_finite", {x}), {0});
  ExpectNear(Call1("multi_all_finite", {Array({2}, {1}), x}, {{"num_arrays", "2"}}),
             {0});
}

TEST(AllFinite, MayBeCombinedWithAnEarlierResult) {
  const NDArray result = Array({1}, {0});
  Call("all_finite", {Array({2}, {1})}, {{"init_output", "False"}}, {result});
  ExpectNear(result, {0});
}

TEST(ResetArrays, FillsWithZeros) {
  const NDArray a = Ramp({3}), b = Ramp({2, 2}, 1, 1, DType::kInt32);
  Call("reset_arrays", {a, b}, {{"num_arrays", "2"}});
  ExpectNear(a, {0, 0, 0});
  ExpectNear(b, {0, 0, 0, 0});
}

TEST(MultiLars, NormsOfZeroKeepTheRate) {
  ExpectNear(Call1("multi_lars",
                   {Array({2}, {.5}), Array({2}, {4, 0}), Array({2}, {9, 9}),
                    Array({2}, {.1})},
                   {{"eta", "0.1"}, {"eps", "0"}}),
             {.5 * .1 * 2 / (3 + .1 * 2), .5});
}

}  // namespace
}  // namespace plait::testing
