// Losses: the gradients that MXNet's documentation and users' reports give.

#include <cmath>

#include "ops/call_for_test.h"

namespace plait::testing {
namespace {

TEST(SoftmaxOutput, ValidNormalisationCountsLabelsThatAreNotIgnored) {
  const NDArray x = Array({2, 4}, {1, 6, 4, 2}), label = Array({2}, {1, 1});
  const auto g = Gradients("SoftmaxOutput", {x, label}, {0},
                           {{"normalization", "valid"}, {"ignore_label", "0"}});
  const std::vector<double> row = {.0029033, -.0691100, .0583146, .0078920};
  ExpectNear(g[0], {row[0], row[1], row[2], row[3], row[0], row[1], row[2], row[3]},
             2e-7);
}

TEST(SoftmaxOutput, IgnoredLabelsGiveNoGradientAndAreNotCounted) {
  const NDArray x = Array({3, 2}, {0, 0}), label = Array({3}, {0, 1, 7});
  const auto g = Gradients(
      "SoftmaxOutput", {x, label}, {0},
      {{"normalization", "valid"}, {"use_ignore", "True"}, {"ignore_label", "7"}});
  ExpectNear(g[0], {-.25, .25, .25, -.25, 0, 0});
}

TEST(SoftmaxOutput, AllLabelsIgnoredDivideByOne) {
  const NDArray x = Array({2, 2}, {0, 0}), label = Array({2}, {7, 7});
  const auto g = Gradients("SoftmaxOutput", {x, label}, {0},
                           {{"normalization", "valid"}, {"ignore_label", "7"}});
  ExpectNear(g[0], {.5, .5, .5, .5});
}

TEST(SoftmaxOutput, TheHeadGradientIsIgnoredUnlessAskedFor) {
  const NDArray x = Array({1, 2}, {0, 0}), label = Array({1}, {0});
  const NDArray head = Array({1, 2}, {10, 100});
  ExpectNear(Gradients("SoftmaxOutput", {x, label}, {0}, {}, head)[0], {-.5, .5});
  ExpectNear(
      Gradients("SoftmaxOutput", {x, label}, {0}, {{"out_grad", "True"}}, head)[0],
      {-5, 50});
}

TEST(SoftmaxOutput, MultiOutputDividesBySpaceUnlessValid) {
  const NDArray x = Array({2, 2, 4}, {0}), label = Array({2, 4}, {0});
  const auto first = [&](const char* normalization) {
    const Attrs attrs = {{"multi_output", "True"}, {"normalization", normalization}};
    return Numbers(Gradients("SoftmaxOutput", {x, label}, {0}, attrs)[0])[0];
  };
  EXPECT_FLOAT_EQ(first("null"), -.5 / 4);
  EXPECT_FLOAT_EQ(first("batch"), -.5 / 4 / 2);
  EXPECT_FLOAT_EQ(first("valid"), -.5 / 8);
}

TEST(SoftmaxOutput, ProbabilitiesAsLabels) {
  const NDArray x = Array({1, 2}, {0, 0}), label = Array({1, 2}, {.75, .25});
  ExpectNear(Gradients("SoftmaxOutput", {x, label}, {0}, {{"grad_scale", "2"}})[0],
             {-.5, .5});
}

TEST(SoftmaxOutput, SmoothedLabels) {
  const NDArray x = Array({1, 3}, {0}), label = Array({1}, {2});
  const double p = 1.0 / 3;
  ExpectNear(Gradients("SoftmaxOutput", {x, label}, {0}, {{"smooth_alpha", "0.2"}})[0],
             {p - .1, p - .1, p - .8});
}

TEST(SoftmaxOutput, WrongLabelsAreRefusedAtTheCall) {
  ExpectError(
      [] {
        Call("Softmax", {Array({2, 3}, {0}), Array({3}, {0})});
      },
      ErrorKind::kValue, {"SoftmaxOutput", "(3,)", "(2, 3)"});
}

TEST(RegressionOutput, DividesByTheNumbersOfOneLabel) {
  const NDArray x = Array({2, 2}, {1, 2, 3, 4}), label = Array({2, 2}, {0, 2, 5, 0});
  ExpectNear(Gradients("LinearRegressionOutput", {x, label}, {0})[0], {.5, 0, -1, 2});
  ExpectNear(
      Gradients("MAERegressionOutput", {x, label}, {0}, {{"grad_scale", "4"}})[0],
      {2, 0, -2, 2});
}

TEST(RegressionOutput, AVectorOfLabelsFitsOnePredictionASample) {
  const NDArray x = Array({2, 1}, {0, 0}), label = Array({2}, {1, 0});
  ExpectNear(Gradients("LogisticRegressionOutput", {x, label}, {0})[0], {-.5, .5});
}

TEST(MakeLoss, Normalisations) {
  const NDArray x = Array({2, 2}, {-1, 2, 3, 0});
  const Attrs scale = {{"grad_scale", "6"}};
  ExpectNear(Gradients("MakeLoss", {x}, {0}, scale)[0], {6, 6, 6, 6});
  ExpectNear(Gradients("MakeLoss", {x}, {0},
                       {{"grad_scale", "6"}, {"normalization", "batch"}})[0],
             {3, 3, 3, 3});
  ExpectNear(Gradients("MakeLoss", {x}, {0},
                       {{"grad_scale", "6"},
                        {"normalization", "valid"},
                        {"valid_thresh", "2.5"}})[0],
             {6, 6, 6, 6});
}

TEST(SvmOutput, LinearAndSquaredHinges) {
  const NDArray x = Array({1, 3}, {.5, -2, .25}), label = Array({1}, {0});
  ExpectNear(Gradients("SVMOutput", {x, label}, {0}, {{"use_linear", "True"}})[0],
             {-1, 0, 1});
  ExpectNear(Gradients("SVMOutput", {x, label}, {0})[0], {-1, 0, 2.5});
}

TEST(SoftmaxCrossEntropy, SumsOverTheBatch) {
  const NDArray x = Array({2, 2}, {0, 0, std::log(3), 0}), label = Array({2}, {0, 0});
  ExpectNear(Call1("softmax_cross_entropy", {x, label}),
             {std::log(2.0) - std::log(.75)});
}

// One step, three classes, one label: the likelihood is its probability.
TEST(CtcLoss, OneStep) {
  const NDArray x = Array({1, 1, 3}, {0, std::log(2.0), 0}), label = Array({1, 1}, {1});
  ExpectNear(Call1("CTCLoss", {x, label}), {-std::log(.5)});
}

// Two steps: "a", "-a", "a-" and "aa" all read as a.
TEST(CtcLoss, SumsOverAlignments) {
  const NDArray x = Array({2, 1, 2}, {0}), label = Array({1, 1}, {1});
  ExpectNear(Call1("ctc_loss", {x, label}), {-std::log(.75)});
}

// A repeated label needs a blank between, so two steps cannot hold it.
TEST(CtcLoss, LabelsThatCannotFitGiveNoLossAndNoGradient) {
  const NDArray x = Array({2, 1, 3}, {0, 1, 2}), label = Array({1, 2}, {1, 1});
  ExpectNear(Call1("CTCLoss", {x, label}), {0});
  ExpectNear(Gradients("CTCLoss", {x, label}, {0})[0], {0, 0, 0, 0, 0, 0});
}

TEST(CtcLoss, LabelsOutOfRangeAreReportedAtTheWait) {
  const NDArray x = Array({2, 1, 3}, {0}), label = Array({1, 1}, {5});
  ExpectError(
      [&] {
        Numbers(Call1("CTCLoss", {x, label}));
      },
      ErrorKind::kValue, {"CTCLoss", "label 5", "below 3"});
}

TEST(KlSparseReg, PullsTheMeanOfAUnit) {
  const NDArray x = Array({2, 1}, {.2, .4}), average = Array({1}, {.5});
  const NDArray head = Array({2, 1}, {0});
  const auto g = Gradients("IdentityAttachKLSparseReg", {x, average}, {0},
                           {{"momentum", "0.5"}, {"penalty", "1"}}, head);
  const double a = .5 * .5 + .5 * .3;
  const double d = -.1 / a + .9 / (1 - a);
  ExpectNear(average, {a});
  ExpectNear(g[0], {d, d});
}

}  // namespace
}  // namespace plait::testing
