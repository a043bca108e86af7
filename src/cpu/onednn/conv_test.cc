// Convolution by oneDNN: every pass against the plain loop, and the blocked layouts.

#include "cpu/onednn/conv.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "base/parallel.h"
#include "cpu/conv_cases_for_test.h"

namespace plait::cpu::onednn {
namespace {

std::vector<ConvProblem> Problems() {
  const int64_t x1[] = {2, 16, 30}, x3[] = {1, 16, 5, 6, 7};
  const int64_t k1[] = {3}, k3[] = {3, 3, 3}, ones[] = {1, 1, 1}, twos[] = {2, 2, 2};
  return {
      Plain(2, 16, 9, 10, 32, 3, 1, 1),
      Plain(2, 3, 12, 13, 16, 5, 2, 2),
      Plain(1, 20, 12, 12, 50, 5),
      Plain(2, 32, 11, 9, 16, 1),
      Plain(2, 32, 14, 14, 48, 1, 2),
      Plain(1, 16, 13, 15, 16, 3, 1, 2, 2),
      Plain(2, 32, 8, 9, 32, 3, 2, 1, 1, 32),
      Plain(1, 32, 8, 9, 64, 3, 1, 1, 1, 2),
      MakeConvProblem(x1, 16, 1, k1, twos, ones, ones),
      MakeConvProblem(x3, 16, 1, k3, ones, ones, ones),
  };
}

// Also where a processor lacks the instructions: then another kernel is chosen.
TEST(OneDnnConv, DirectEqualsThePlainLoop) {
  for (const ConvProblem& p : Problems()) {
    for (const int threads : {1, 2}) {
      ExpectAllPasses<float>(p, ConvAlgorithm::kDirect, 2e-6, threads);
      ExpectAllPasses<Bfloat16>(p, ConvAlgorithm::kDirect, 1.0 / 150, threads);
    }
  }
}

TEST(OneDnnConv, KeepsItsBitsWhenCalledAgainAndFromAnotherThread) {
  const ConvProblem p = Plain(2, 32, 17, 18, 32, 3, 1, 1);
  const Buffers<float> b(p);
  std::vector<float> first(b.dy.size()), second(b.dy.size());
  const auto run = [&](std::vector<float>& y) {
    cpu::ConvForward<float>(p, b.x.data(), b.weight.data(), nullptr, false, y.data(),
                            ConvAlgorithm::kDirect);
  };
  run(first);
  run(second);
  EXPECT_EQ(first, second);
  std::fill(second.begin(), second.end(), 0.0f);
  std::thread([&] { run(second); }).join();
  EXPECT_EQ(first, second);
}

// Two convolutions whose arrays stay in the preferred layouts between them.
TEST(OneDnnConv, PreferredLayoutsGiveWhatPlainOnesGive) {
  const DType f32 = DType::kFloat32;
  for (const ConvProblem& p :
       {Plain(2, 20, 12, 12, 50, 5), Plain(1, 64, 28, 28, 32, 3, 1, 1)}) {
    for (const ConvAlgorithm algorithm :
         {ConvAlgorithm::kDirect, ConvAlgorithm::kWinograd}) {
      if (!HasConv(p, f32, ConvPass::kForward, algorithm)) continue;
      const Buffers<float> b(p);
      const ConvDims dims(p);
      const ConvLayouts want = PreferredLayouts(p, f32, ConvPass::kForward, algorithm);
      std::vector<float> plain(b.dy.size()), back(b.dy.size());
      ConvForward(p, f32, algorithm, {}, b.x.data(), b.weight.data(), b.bias.data(),
                  true, plain.data());

      std::vector<float> x(LayoutBytes(want.x, dims.X(), f32) / sizeof(float));
      std::vector<float> w(LayoutBytes(want.weight, dims.Weight(), f32) /
                           sizeof(float));
      std::vector<float> y(LayoutBytes(want.y, dims.Y(), f32) / sizeof(float));
      EXPECT_GE(y.size(), plain.size());
      Reorder(dims.X(), {}, f32, b.x.data(), want.x, f32, x.data());
      Reorder(dims.Weight(), {}, f32, b.weight.data(), want.weight, f32, w.data());
      ConvForward(p, f32, algorithm, want, x.data(), w.data(), b.bias.data(), true,
                  y.data());
      Reorder(dims.Y(), want.y, f32, y.data(), {}, f32, back.data());
      EXPECT_EQ(plain, back);
    }
  }
}

TEST(OneDnnConv, LayoutsOfActivationsDoNotDependOnTheShape) {
  const DType f32 = DType::kFloat32;
  const ConvProblem a = Plain(2, 32, 9, 10, 32, 3, 1, 1);
  const ConvProblem b = Plain(5, 64, 20, 22, 96, 3, 1, 1);
  if (!HasConv(a, f32, ConvPass::kForward, ConvAlgorithm::kDirect)) GTEST_SKIP();
  const auto la = PreferredLayouts(a, f32, ConvPass::kForward, ConvAlgorithm::kDirect);
  const auto lb = PreferredLayouts(b, f32, ConvPass::kForward, ConvAlgorithm::kDirect);
  EXPECT_EQ(la.x, lb.x);
  EXPECT_EQ(la.y, lb.y);
  EXPECT_FALSE(la.x.plain());
  EXPECT_FALSE(la.weight == lb.weight);
}

// More problems than the cache of primitives keeps.
TEST(OneDnnConv, ForgetsPrimitivesAndMakesThemAgain) {
  const auto check = [](int64_t width) {
    ExpectAllPasses<float>(Plain(1, 16, 3, width, 16, 3), ConvAlgorithm::kDirect, 2e-6);
  };
  for (int64_t width = 3; width < 140; ++width) check(width);
  check(3);
}

TEST(OneDnnLayout, ReorderKeepsValuesAndZeroesThePadding) {
  const int64_t dims[] = {2, 5, 3, 4};
  const LayoutDesc blocked{1};
  std::vector<float> x(2 * 5 * 3 * 4), back(x.size());
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i) + 1;
  std::vector<float> y(LayoutBytes(blocked, dims, DType::kFloat32) / sizeof(float), -1);
  ASSERT_EQ(y.size(), 2u * 16 * 3 * 4);
  Reorder(dims, {}, DType::kFloat32, x.data(), blocked, DType::kFloat32, y.data());
  double sum = 0;
  for (const float v : y) sum += v;
  EXPECT_EQ(sum, x.size() * (x.size() + 1) / 2.0);
  Reorder(dims, blocked, DType::kFloat32, y.data(), {}, DType::kFloat32, back.data());
  EXPECT_EQ(x, back);
}

}  // namespace
}  // namespace plait::cpu::onednn
