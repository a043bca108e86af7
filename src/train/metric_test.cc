// Tests of metrics against known values.

#include "train/metric.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <thread>

#include "base/options.h"
#include "base/testing.h"
#include "engine/engine.h"
#include "run/testing.h"

namespace plait {
namespace {

using testing::Make;
using Attributes = std::vector<NamedAttr>;

void Update(Metric& metric, const NDArray& label, const NDArray& pred) {
  metric.Update({&label, 1}, {&pred, 1});
}
double ValueOf(const std::string& name, const NDArray& label, const NDArray& pred,
               const Attributes& attrs = {}) {
  Metric metric(name, attrs);
  Update(metric, label, pred);
  return metric.Value();
}
NDArray Scores() {
  return Make({3, 2}, {0.3, 0.7, 0, 1, 0.4, 0.6});
}

TEST(Metric, Accuracy) {
  EXPECT_NEAR(ValueOf("acc", Make({3}, {0, 1, 1}), Scores()), 2.0 / 3, 1e-12);
  EXPECT_EQ(
      ValueOf("acc", Make({2}, {0, 1}, DType::kInt32),
              Make({2, 2}, {3, 0, 1, 2}, DType::kFloat16), {{"axis", {int64_t{0}}}}),
      1);
  // Equal shapes: predictions are classes already.
  EXPECT_EQ(ValueOf("accuracy", Make({4}, {0, 1, 1, 0}), Make({4}, {0, 1, 1, 1})),
            0.75);
}

TEST(Metric, TopK) {
  const NDArray pred = Make({3, 3}, {0.1, 0.2, 0.7, 0.5, 0.3, 0.2, 0.3, 0.4, 0.3});
  EXPECT_NEAR(ValueOf("top_k_accuracy", Make({3}, {1, 2, 1}), pred), 2.0 / 3, 1e-12);
  EXPECT_EQ(ErrorOf([] {
              Metric("top_k_acc", Attributes{{"top_k", {int64_t{1}}}});
            }),
            "top_k_accuracy: top_k is 1; more than 1 was expected: use accuracy for "
            "the best alone");
}

TEST(Metric, CountsOfTwoClasses) {
  const NDArray first = Make({3}, {1, 0, 1}), second = Make({1}, {1});
  const NDArray pred = Make({3, 2}, {0, 1, 0, 1, 1, 0}), sure = Make({1, 2}, {0, 1});
  Metric macro("f1"), micro("f1", Attributes{{"average", {std::string("micro")}}});
  for (Metric* metric : {&macro, &micro}) {
    Update(*metric, first, pred);
    Update(*metric, second, sure);
  }
  EXPECT_NEAR(macro.Value(), (0.5 + 1) / 2, 1e-12);
  EXPECT_NEAR(micro.Value(), 4.0 / 6, 1e-12);
  // tp 1, fn 1, fp 1, tn 0.
  EXPECT_NEAR(ValueOf("mcc", first, pred), (0 - 1) / std::sqrt(2 * 2 * 1 * 1), 1e-12);
}

TEST(Metric, PccGrowsWithTheClasses) {
  Metric metric("pcc");
  Update(metric, Make({2}, {0, 1}), Make({2, 2}, {1, 0, 0, 1}));
  Update(metric, Make({2}, {4, 2}), Make({2}, {4, 2}));
  EXPECT_NEAR(metric.Value(), 1, 1e-12);
  EXPECT_NEAR(metric.GlobalValue(), 1, 1e-12);
  EXPECT_NE(ErrorOf([&] {
              Update(metric, Make({1}, {1e9}), Make({1}, {0}));
            }).find("pcc: got the class 1000000000"),
            std::string::npos);
}

TEST(Metric, Likelihoods) {
  const NDArray pred = Make({2, 3}, {0.2, 0.3, 0.5, 0.6, 0.1, 0.3});
  const double expected = -(std::log(0.5) + std::log(0.1)) / 2;
  for (const char* name : {"ce", "nll_loss"})
    EXPECT_NEAR(ValueOf(name, Make({2}, {2, 1}), pred), expected, 1e-6);
  const NDArray p = Make({3, 2}, {0.8, 0.2, 0.2, 0.8, 0.1, 0.9});
  EXPECT_NEAR(ValueOf("perplexity", Make({3}, {0, 1, 1}), p),
              std::pow(0.8 * 0.8 * 0.9, -1.0 / 3), 1e-6);
  EXPECT_NEAR(
      ValueOf("perplexity", Make({3}, {0, 1, 1}), p, {{"ignore_label", {int64_t{0}}}}),
      std::pow(0.8 * 0.9, -0.5), 1e-6);
}

TEST(Metric, Errors) {
  const NDArray y = Make({2}, {1, 2}), p = Make({2, 1}, {2, 4});
  EXPECT_NEAR(ValueOf("mae", y, p), 1.5, 1e-12);
  EXPECT_NEAR(ValueOf("mse", y, p), 2.5, 1e-12);
  EXPECT_NEAR(ValueOf("rmse", y, p), std::sqrt(2.5), 1e-12);
  // A column against a matrix broadcasts.
  EXPECT_NEAR(ValueOf("mae", y, Make({2, 2}, {1, 2, 3, 4})), (0 + 1 + 1 + 2) / 4.0,
              1e-12);
}

TEST(Metric, PearsonOfBatchesAndOfAll) {
  const std::vector<double> y{1, 2, 4, 3, 8, 1}, p{2, 1, 5, 3, 9, 0};
  const double whole = ValueOf("pearsonr", Make({6}, y), Make({6}, p));
  Metric micro("pearsonr", Attributes{{"average", {std::string("micro")}}});
  for (size_t i = 0; i < 6; i += 2)
    Update(micro, Make({2}, {y[i], y[i + 1]}), Make({2}, {p[i], p[i + 1]}));
  EXPECT_NEAR(micro.Value(), whole, 1e-12);
}

TEST(Metric, LocalAndGlobalSums) {
  Metric metric("loss");
  EXPECT_TRUE(std::isnan(metric.Value()));
  const auto add = [&](double value) {
    const NDArray x = Make({1}, {value});
    metric.Update({}, {&x, 1});
  };
  add(1);
  metric.ResetLocal();
  EXPECT_TRUE(std::isnan(metric.Value()));
  add(3);
  EXPECT_EQ(metric.Value(), 3);
  EXPECT_EQ(metric.GlobalValue(), 2);
  metric.Reset();
  EXPECT_TRUE(std::isnan(metric.GlobalValue()));
}

TEST(Metric, UpdatesDoNotWait) {
  if (GetOption(Option::kEngine) == "serial") GTEST_SKIP();
  Metric metric("accuracy");
  const NDArray label = Make({1}, {0}), pred = Make({1, 2}, {1, 0});
  std::atomic<bool> may_end{false};
  Var* writes[] = {&pred.var()};
  Engine::Get().Push(MakeOperation("slow",
                                   [&] {
                                     while (!may_end) std::this_thread::yield();
                                   }),
                     {}, writes);
  Update(metric, label, pred);
  may_end = true;
  EXPECT_EQ(metric.Value(), 1);
}

TEST(Metric, BadShapesAreErrorsAtOnceAndBadValuesLater) {
  EXPECT_EQ(ErrorOf([] {
              ValueOf("acc", Make({2}, {0, 1}), Scores());
            }),
            "accuracy: the shape of labels (2,) does not match the shape of "
            "predictions (3, 2); 3 labels were expected");
  EXPECT_EQ(ErrorOf([] {
              Metric metric("acc");
              metric.Update({}, {});
              const NDArray x = Make({1}, {0});
              metric.Update({&x, 1}, {});
            }),
            "accuracy: got 1 labels and 0 predictions; as many were expected");
  Metric metric("ce");
  Update(metric, Make({3}, {0, 2, 0}), Scores());
  const std::string error = ErrorOf([&] { metric.Value(); });
  EXPECT_NE(error.find("cross-entropy: label 2 is out of range for 2 classes"),
            std::string::npos)
      << error;
  metric.Reset();
  Update(metric, Make({3}, {0, 1, 0}), Scores());
  EXPECT_GT(metric.Value(), 0);
  EXPECT_NE(ErrorOf([] {
              ValueOf("f1", Make({3}, {0, 1, 2}), Scores());
            }).find("binary classification"),
            std::string::npos);
}

}  // namespace
}  // namespace plait
