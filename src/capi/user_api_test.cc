// The C++ interface: symbols by op(), arrays, and training by Bind, Initialize, Step.

#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <plait/plait.hpp>

#include "base/testing.h"

namespace plait {
namespace {

Symbol Perceptron() {
  Symbol x = op("FullyConnected", {var("data")}, {{"num_hidden", 16}}, "fc1");
  x = op("Activation", {x}, {{"act_type", "tanh"}});
  x = op("FullyConnected", {x}, {{"num_hidden", 2}, {"no_bias", true}}, "fc2");
  return op("SoftmaxOutput", {x}, {{"normalization", "batch"}}, "softmax");
}

std::string MessageOf(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.what();
  }
  return "nothing was thrown";
}

#define EXPECT_SAYS(expression, part)                                     \
  EXPECT_NE(MessageOf([&] { expression; }).find(part), std::string::npos) \
      << MessageOf([&] { expression; })

TEST(UserApi, NamesNodesThatNobodyNamed) {
  const Symbol a =
      op("Convolution", {var("x")}, {{"kernel", {3, 3}}, {"num_filter", 4}});
  const Symbol b = op("Convolution", {a}, {{"kernel", {3, 3}}, {"num_filter", 4}});
  const std::string first = a.ListArguments()[1], second = b.ListArguments()[3];
  EXPECT_TRUE(first.starts_with("convolution") && first.ends_with("_weight")) << first;
  EXPECT_NE(first, second);
}

TEST(UserApi, TakesInputsByPositionAndByName) {
  const Symbol fc =
      op("FullyConnected", {var("x"), {"bias", var("b")}}, {{"num_hidden", 3}}, "fc");
  EXPECT_EQ(fc.ListArguments(), (std::vector<std::string>{"x", "fc_weight", "b"}));
  EXPECT_SAYS(op("FullyConnected", {{"bias", var("b")}, var("x")}, {{"num_hidden", 3}}),
              "without a name follows");
}

TEST(UserApi, SymbolsHaveArithmetic) {
  const Symbol z = 2.0 * (var("x") + var("y")) - var("x") / 4.0;
  BindRequest request;
  request.arrays = {{"x", Array<float>({8, 4}, {2})}, {"y", Array<float>({1, 2}, {2})}};
  auto executor = Bind(z, request);
  executor->Forward(false);
  EXPECT_EQ(ToVector<float>(executor->outputs()[0]), (std::vector<float>{16, 11}));
}

TEST(UserApi, ArraysHaveArithmeticInPlaceToo) {
  const NDArray w = Array<float>({1, 2, 3}, {3}), g = Array<float>({1, 1, 2}, {3});
  const NDArray view = w.Slice(1, 3);
  w -= 0.5 * g;
  EXPECT_EQ(ToVector<float>(view), (std::vector<float>{1.5, 2}));
  w *= 2.0;
  EXPECT_EQ(ToVector<float>(w + g), (std::vector<float>{2, 4, 6}));
  EXPECT_EQ(ToVector<float>(Call("sum", {w})), (std::vector<float>{8}));
  EXPECT_EQ(CallAll("split", {w}, {{"num_outputs", 3}, {"axis", 0}}).size(), 3u);
  EXPECT_SAYS(Call("split", {w}, {{"num_outputs", 3}, {"axis", 0}}), "3 outputs");
  EXPECT_SAYS(Array<float>({1, 2}, {3}), "2 values");
  EXPECT_SAYS(ToVector<double>(w), "float64 was expected");
}

TEST(UserApi, TrainsSavesAndPredicts) {
  SeedRandom(3);
  const Symbol net = Perceptron();
  const NDArray points = Call("_random_uniform", {}, {{"low", -1}, {"shape", {64, 2}}});
  const std::vector<float> p = ToVector<float>(points);
  std::vector<float> labels(64);
  for (size_t i = 0; i < 64; ++i) labels[i] = p[2 * i] > p[2 * i + 1] ? 1 : 0;

  auto executor =
      Bind(net, {.shapes = {{"data", {64, 2}}}, .gradients = Gradients::kParameters});
  Initialize(*executor, "xavier");
  Updater adam = MakeUpdater("adam", {{"learning_rate", 0.05}});
  executor->input("data").CopyFromHost(p.data());
  executor->input("softmax_label").CopyFromHost(labels.data());
  for (int step = 0; step < 100; ++step) {
    executor->Forward(true);
    executor->Backward({});
    Step(adam, *executor);
  }
  const std::string path = TestFile("params");
  SaveParams(path, ParametersOf(*executor));

  auto predictor =
      Bind(net, {.shapes = {{"data", {64, 2}}}, .arrays = LoadArrays(path)});
  std::remove(path.c_str());
  predictor->input("data").CopyFromHost(p.data());
  predictor->Forward(false);
  const auto y = ToVector<float>(predictor->outputs()[0]);
  int right = 0;
  for (size_t i = 0; i < 64; ++i) right += (y[2 * i + 1] > y[2 * i]) == (labels[i] > 0);
  EXPECT_GE(right, 62);
}

TEST(Bind, SaysWhatIsMissingOrDoesNotFit) {
  const Symbol net = Perceptron();
  EXPECT_SAYS(Bind(net, {}), "the shape of data");
  EXPECT_SAYS(Bind(net, {.shapes = {{"date", {4, 2}}}}), "no variable date");
  BindRequest request{.shapes = {{"data", {4, 2}}},
                      .arrays = {{"arg:fc1_weight", Zeros({16, 2})}}};
  EXPECT_SAYS(Bind(net, request), "no array for fc1_bias");
  request.arrays = {{"fc1_weight", Zeros({16, 3})},
                    {"fc1_bias", Zeros({16})},
                    {"fc2_weight", Zeros({2, 16})}};
  EXPECT_SAYS(Bind(net, request), "fc1_weight has shape (16, 3); shape (16, 2)");
  request.arrays["fc1_weight"] = Zeros({16, 2});
  request.arrays["aux:other"] = Zeros({1});  // no use for it
  EXPECT_NO_THROW(Bind(net, request));
}

TEST(Bind, SharesTheArraysThatItIsGiven) {
  const NDArray w = Zeros({1, 2});
  const Symbol fc = op("FullyConnected", {var("x"), var("w")},
                       {{"num_hidden", 1}, {"no_bias", true}});
  auto executor = Bind(fc, {.shapes = {{"x", {1, 2}}}, .arrays = {{"w", w}}});
  w += Array<float>({2, 3}, {1, 2});
  executor->input("x").CopyFromHost(std::vector<float>{1, 10}.data());
  executor->Forward(false);
  EXPECT_EQ(ToVector<float>(executor->outputs()[0]), (std::vector<float>{32}));
  EXPECT_SAYS(executor->grad("w"), "w has no gradient");
  EXPECT_SAYS(executor->input("v"), "no variable v; one of x, w");
}

}  // namespace
}  // namespace plait
