// Convolution: each algorithm and pass against a plain loop in float64.

#include "cpu/conv.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "base/dtype.h"
#include "base/parallel.h"
#include "cpu/conv_cases_for_test.h"
#include "cpu/each_target_for_test.h"

namespace plait::cpu {
namespace {

std::vector<ConvProblem> Problems() {
  std::vector<ConvProblem> all = {
      Plain(2, 3, 7, 9, 5, 3),
      Plain(1, 1, 1, 1, 1, 1),
      Plain(3, 1, 12, 12, 4, 5),
      Plain(2, 20, 12, 12, 50, 5),
      Plain(2, 16, 10, 11, 17, 3, 1, 1),
      Plain(1, 6, 13, 15, 8, 3, 2, 1),
      Plain(1, 5, 20, 21, 7, 3, 3, 2, 2),
      Plain(2, 4, 11, 40, 3, 2, 1, 0, 3),
      Plain(1, 8, 9, 9, 12, 3, 1, 1, 1, 4),
      Plain(1, 6, 9, 9, 6, 3, 2, 1, 1, 6),
      Plain(2, 19, 6, 7, 23, 1),
      Plain(2, 7, 9, 7, 5, 1, 2),
      Plain(1, 3, 5, 5, 2, 7, 1, 3),
      Plain(1, 40, 5, 6, 33, 3, 1, 2),
      Plain(1, 2, 70, 70, 3, 3, 1, 1),
      Plain(1, 700, 2, 3, 600, 1),
      Plain(1, 3, 3, 900, 2, 3, 1, 1),
  };
  const auto make = [](std::vector<int64_t> x, int64_t oc, std::vector<int64_t> kernel,
                       std::vector<int64_t> stride, std::vector<int64_t> pad,
                       int64_t groups) {
    const std::vector<int64_t> dilation(kernel.size(), 1);
    return MakeConvProblem(x, oc, groups, kernel, stride, dilation, pad);
  };
  all.push_back(make({2, 3, 50}, 4, {5}, {2}, {1}, 1));
  all.push_back(make({1, 4, 3000}, 3, {9}, {1}, {4}, 1));
  all.push_back(make({2, 3, 5, 6, 7}, 4, {3, 2, 3}, {1, 2, 1}, {1, 0, 1}, 1));
  all.push_back(make({1, 4, 4, 5, 6}, 6, {1, 3, 3}, {2, 1, 2}, {0, 1, 1}, 2));
  ConvProblem uneven = Plain(2, 3, 8, 9, 4, 3);
  uneven.pad_low = {0, 1, 0};
  uneven.pad_high = {0, 2, 1};
  all.push_back(uneven);
  return all;
}

TEST(Conv, OwnKernelEqualsThePlainLoopInEveryPass) {
  ForEachTarget([] {
    for (const ConvProblem& p : Problems()) {
      for (const int threads : {1, 3}) {
        ExpectAllPasses<float>(p, ConvAlgorithm::kGemm, 2e-6, threads);
        ExpectAllPasses<double>(p, ConvAlgorithm::kGemm, 1e-14, threads);
      }
    }
  });
}

TEST(Conv, WinogradEqualsThePlainLoop) {
  for (const ConvProblem& p :
       {Plain(2, 32, 17, 18, 32, 3, 1, 1), Plain(1, 40, 13, 14, 40, 3, 1, 1),
        Plain(1, 32, 12, 12, 64, 3), Plain(1, 3, 5, 5, 2, 3, 1, 2)}) {
    EXPECT_EQ(ChooseConv<float>(p, ConvPass::kForward, ConvAlgorithm::kWinograd),
              ConvAlgorithm::kWinograd);
    for (const int threads : {1, 2}) {
      ExpectAllPasses<float>(p, ConvAlgorithm::kWinograd, 5e-6, threads);
    }
  }
}

TEST(Conv, ChoosesWinogradWhereItSuits) {
  const auto choice = [](const ConvProblem& p) {
    return ChooseConv<float>(p, ConvPass::kBackwardWeight);
  };
  EXPECT_EQ(choice(Plain(8, 64, 56, 56, 64, 3, 1, 1)), ConvAlgorithm::kWinograd);
  EXPECT_NE(choice(Plain(1, 64, 4, 4, 64, 3, 1, 1)), ConvAlgorithm::kWinograd);
  EXPECT_NE(choice(Plain(8, 3, 56, 56, 64, 3, 1, 1)), ConvAlgorithm::kWinograd);
  EXPECT_NE(choice(Plain(8, 64, 56, 56, 64, 3, 2, 1)), ConvAlgorithm::kWinograd);
}

TEST(Conv, AutomaticChoiceEqualsThePlainLoop) {
  for (const ConvProblem& p : Problems()) {
    ExpectAllPasses<float>(p, ConvAlgorithm::kAuto, 2e-5, 2);
  }
}

TEST(Conv, HalvesEqualThePlainLoopWithinTheirPrecision) {
  for (const ConvProblem& p : Problems()) {
    ExpectAllPasses<Bfloat16>(p, ConvAlgorithm::kAuto, 1.0 / 200);
    ExpectAllPasses<Float16>(p, ConvAlgorithm::kAuto, 1.0 / 1500);
  }
}

TEST(Conv, EmptyBatchGivesZeroGradients) {
  const ConvProblem p = Plain(0, 3, 8, 8, 4, 3);
  std::vector<float> dw(WeightSize(p), 1), db(4, 1);
  ConvForward<float>(p, nullptr, nullptr, nullptr, false, nullptr);
  ConvBackwardData<float>(p, nullptr, nullptr, nullptr);
  ConvBackwardWeight<float>(p, nullptr, nullptr, dw.data(), db.data());
  for (const float x : dw) EXPECT_EQ(x, 0);
  for (const float x : db) EXPECT_EQ(x, 0);
}

TEST(Conv, WithoutInputChannelsGivesTheBias) {
  const ConvProblem p = Plain(2, 0, 4, 4, 2, 3);
  const std::vector<float> bias = {-1, 2}, dy(2 * 2 * 4, 1);
  std::vector<float> y(2 * 2 * 4), db(2);
  ConvForward<float>(p, nullptr, nullptr, bias.data(), true, y.data());
  EXPECT_EQ(y[0], 0);
  EXPECT_EQ(y[4], 2);
  ConvBackwardWeight<float>(p, nullptr, dy.data(), nullptr, db.data());
  EXPECT_EQ(db[1], 8);
}

TEST(Conv, OwnKernelGivesTheSameBitsForAnyNumberOfThreads) {
  const ConvProblem p = Plain(9, 20, 12, 12, 50, 5);
  const Buffers<float> b(p);
  std::vector<float> expected(b.weight.size()), got(b.weight.size()), db(50), db2(50);
  ConvBackwardWeight(p, b.x.data(), b.dy.data(), expected.data(), db.data(),
                     ConvAlgorithm::kGemm);
  for (const int threads : {2, 3, 7}) {
    const ScopedComputeThreads scope(threads);
    ConvBackwardWeight(p, b.x.data(), b.dy.data(), got.data(), db2.data(),
                       ConvAlgorithm::kGemm);
    EXPECT_EQ(expected, got);
    EXPECT_EQ(db, db2);
  }
}

TEST(Conv, PassesNanOnThroughRelu) {
  const ConvProblem p = Plain(1, 1, 3, 3, 1, 3);
  std::vector<float> x(9, 1), w(9, 1), y(1);
  x[4] = NAN;
  ConvForward<float>(p, x.data(), w.data(), nullptr, true, y.data());
  EXPECT_TRUE(std::isnan(y[0]));
}

}  // namespace
}  // namespace plait::cpu
