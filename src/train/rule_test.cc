// Every rule trains a small least-squares model; the known ones follow a plain loop.

#include "train/rule.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/testing.h"
#include "run/testing.h"

namespace plait {
namespace {

using testing::Make;
using testing::ValuesOf;

// Rows of inputs and what they should give: y = X w_true.
struct LeastSquares {
  static constexpr int kRows = 8, kColumns = 3;
  double x[kRows][kColumns];
  double y[kRows];

  LeastSquares() {
    const double truth[kColumns] = {1, -2, 0.5};
    for (int i = 0; i < kRows; ++i) {
      y[i] = 0;
      for (int j = 0; j < kColumns; ++j) {
        x[i][j] = std::sin(1.7 * i + 2.3 * j + 1);
        y[i] += x[i][j] * truth[j];
      }
    }
  }
  double Loss(const std::vector<double>& w) const {
    double loss = 0;
    for (int i = 0; i < kRows; ++i) loss += 0.5 * Error(i, w) * Error(i, w);
    return loss / kRows;
  }
  std::vector<double> Gradient(const std::vector<double>& w) const {
    std::vector<double> g(kColumns);
    for (int i = 0; i < kRows; ++i) {
      for (int j = 0; j < kColumns; ++j) g[j] += Error(i, w) * x[i][j] / kRows;
    }
    return g;
  }

 private:
  double Error(int i, const std::vector<double>& w) const {
    double e = -y[i];
    for (int j = 0; j < kColumns; ++j) e += x[i][j] * w[j];
    return e;
  }
};

struct Trained {
  std::vector<double> weights;
  State state;
};

// Trains from w = 0.1 with a constant rate.
Trained Train(const std::string& name, double lr, int steps, double wd = 0,
              std::vector<NamedAttr> attrs = {}, DType dtype = DType::kFloat32) {
  const LeastSquares problem;
  const auto rule = CreateNamed<Rule>(name, attrs);
  const Shape shape{1, LeastSquares::kColumns};
  const NDArray w = Make(shape, {0.1, 0.1, 0.1}, dtype);
  const State state = rule->NewState(w);
  for (int64_t t = 1; t <= steps; ++t) {
    const NDArray g = Make(shape, problem.Gradient(ValuesOf(w)), dtype);
    rule->Apply({.weights = {&w, 1},
                 .grads = {&g, 1},
                 .states = {&state, 1},
                 .lrs = {&lr, 1},
                 .wds = {&wd, 1},
                 .counts = {&t, 1},
                 .base_lr = lr});
  }
  return {ValuesOf(w), state};
}

struct Case {
  const char* name;
  double lr;
  std::vector<NamedAttr> attrs;
};

class EveryRule : public ::testing::TestWithParam<Case> {};

TEST_P(EveryRule, Learns) {
  const Case& c = GetParam();
  const LeastSquares problem;
  const double before = problem.Loss({0.1, 0.1, 0.1});
  const double after = problem.Loss(Train(c.name, c.lr, 300, 0, c.attrs).weights);
  EXPECT_LT(after, 0.1 * before) << c.name;
}

INSTANTIATE_TEST_SUITE_P(
    , EveryRule,
    ::testing::Values(
        Case{"sgd", 0.5, {}}, Case{"sgd", 0.1, {{"momentum", {0.9}}}},
        Case{"nag", 0.1, {{"momentum", {0.9}}}}, Case{"signum", 0.02, {}},
        Case{"dcasgd", 0.1, {{"momentum", {0.9}}}},
        Case{"sgld", 1e-3, {{"rescale_grad", {1000.0}}}}, Case{"adam", 0.1, {}},
        Case{"adamax", 0.1, {}}, Case{"nadam", 0.1, {}}, Case{"ftml", 0.1, {}},
        Case{"adagrad", 0.5, {}}, Case{"rmsprop", 0.02, {}},
        Case{"rmsprop", 0.02, {{"centered", {true}}}},
        Case{"adadelta", 1, {{"epsilon", {0.01}}}}, Case{"ftrl", 1, {}},
        Case{"groupadagrad", 0.5, {}}, Case{"lamb", 0.02, {}},
        Case{"lars", 1, {{"eta", {0.02}}}},
        Case{"lbsgd", 0.3, {{"batch_scale", {2.0}}, {"warmup_epochs", {1.0}}}}),
    [](const auto& info) {
      return std::string(info.param.name) + "_" + std::to_string(info.index);
    });

TEST(Rule, SgdWithMomentumFollowsAPlainLoop) {
  const LeastSquares problem;
  std::vector<double> w(3, 0.1), m(3);
  for (int t = 0; t < 20; ++t) {
    const std::vector<double> g = problem.Gradient(w);
    for (int j = 0; j < 3; ++j) {
      m[j] = 0.9 * m[j] - 0.1 * (g[j] + 0.01 * w[j]);
      w[j] += m[j];
    }
  }
  const Trained run = Train("sgd", 0.1, 20, 0.01, {{"momentum", {0.9}}});
  for (int j = 0; j < 3; ++j) EXPECT_NEAR(run.weights[j], w[j], 1e-5);
}

TEST(Rule, AdamFollowsAPlainLoop) {
  const LeastSquares problem;
  std::vector<double> w(3, 0.1), m(3), v(3);
  for (int t = 1; t <= 20; ++t) {
    const std::vector<double> g = problem.Gradient(w);
    for (int j = 0; j < 3; ++j) {
      const double decayed = g[j] + 0.01 * w[j];
      m[j] = 0.9 * m[j] + 0.1 * decayed;
      v[j] = 0.999 * v[j] + 0.001 * decayed * decayed;
      const double mean = m[j] / (1 - std::pow(0.9, t));
      const double root = std::sqrt(v[j] / (1 - std::pow(0.999, t)));
      w[j] -= 0.05 * mean / (root + 1e-8);
    }
  }
  const Trained run = Train("adam", 0.05, 20, 0.01);
  for (int j = 0; j < 3; ++j) EXPECT_NEAR(run.weights[j], w[j], 2e-5);
}

TEST(Rule, AdamWDecaysOutsideOfTheGradient) {
  const auto rule = CreateNamed<Rule>(
      "adamw", std::vector<NamedAttr>{{"rescale_grad", {0.5}}, {"epsilon", {0.0}}});
  const NDArray w = Make({1}, {1}), g = Make({1}, {3});
  const State state = rule->NewState(w);
  const double lr = 0.1, wd = 0.2;
  const int64_t t = 1;
  rule->Apply({{&w, 1}, {&g, 1}, {&state, 1}, {&lr, 1}, {&wd, 1}, {&t, 1}, {}, lr});
  // The first step has the length lr_t m / sqrt(v), which is lr, and lr_t wd of decay.
  const double rate = 0.1 * std::sqrt(1 - 0.999) / (1 - 0.9);
  EXPECT_NEAR(ValuesOf(w)[0], 1 - 0.1 - rate * 0.2, 1e-6);
  EXPECT_NEAR(ValuesOf(state[0])[0], 0.1 * 1.5, 1e-6);
}

TEST(Rule, MasterCopiesKeepSmallSteps) {
  for (const char* name : {"sgd", "nag", "adam", "rmsprop", "lamb", "groupadagrad"}) {
    const Trained run =
        Train(name, 1e-5, 30, 0, {{"multi_precision", {true}}}, DType::kFloat16);
    const bool last = name == std::string("sgd") || name == std::string("nag");
    const NDArray& master = last ? run.state[run.state.size() - 1] : run.state[0];
    ASSERT_EQ(master.dtype(), DType::kFloat32) << name;
    const double moved = std::abs(ValuesOf(master)[0] - 0.1);
    EXPECT_GT(moved, 3e-6) << name;  // a float16 step at 0.1 is 6e-5
    EXPECT_NEAR(run.weights[0], ValuesOf(master)[0], 1e-4) << name;
  }
}

TEST(Rule, ClippedAndScaledGradients) {
  const auto rule = CreateNamed<Rule>(
      "SGD", std::vector<NamedAttr>{{"rescale_grad", {0.5}}, {"clip_gradient", {0.2}}});
  const NDArray w = Make({2}, {1, 1}), g = Make({2}, {0.1, 10});
  const State state = rule->NewState(w);
  const double lr = 1, wd = 0;
  const int64_t t = 1;
  rule->Apply({{&w, 1}, {&g, 1}, {&state, 1}, {&lr, 1}, {&wd, 1}, {&t, 1}, {}, 1});
  EXPECT_NEAR(ValuesOf(w)[0], 0.95, 1e-6);
  EXPECT_NEAR(ValuesOf(w)[1], 0.8, 1e-6);
}

TEST(Rule, SaysWhatIsWrong) {
  EXPECT_EQ(ErrorOf([] { CreateNamed<Rule>("adm"); }).substr(0, 42),
            "optimizer: 'adm' is not known; one of adad");
  EXPECT_EQ(ErrorOf([] {
              CreateNamed<Rule>("sgd", std::vector<NamedAttr>{{"beta", {1.0}}});
            }),
            "sgd: 'beta' is not an attribute of this optimizer; one of momentum, "
            "rescale_grad, clip_gradient, multi_precision was expected");
  const auto rule = CreateNamed<Rule>("adam");
  const NDArray w = Make({2}, {1, 1});
  const State state = rule->NewState(w), other{};
  const double lr = 1, wd = 0;
  const int64_t t = 1;
  const auto apply = [&](const NDArray& g, const State& s) {
    return ErrorOf([&] {
      rule->Apply({{&w, 1}, {&g, 1}, {&s, 1}, {&lr, 1}, {&wd, 1}, {&t, 1}, {}, 1});
    });
  };
  EXPECT_EQ(apply(Make({3}, {1, 1, 1}), state),
            "adam_update: grad has shape (3,) and weight has shape (2,); equal shapes "
            "were expected");
  EXPECT_EQ(apply(Make({2}, {1, 1}, DType::kFloat64), state),
            "adam: weight is float32 and grad float64; equal dtypes were expected");
  EXPECT_EQ(apply(Make({2}, {1, 1}), other),
            "adam_update: got 2 arrays; 4 were expected");
}

}  // namespace
}  // namespace plait
