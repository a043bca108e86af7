// Tests of the pass hoist, and of what counts as a parameter.

#include "passes/hoist.h"

#include <gtest/gtest.h>

#include "passes/parameters.h"
#include "passes/testing.h"

namespace plait::testing {
namespace {

const Symbol kX = Symbol::Variable("x"), kW = Symbol::Variable("w");

Symbol Dense(const Symbol& x, const Symbol& weight) {
  return CallOp("FullyConnected", {x, weight},
                {{"num_hidden", "4"}, {"no_bias", "True"}});
}

Hoisted HoistedFrom(const Symbol& symbol) {
  const Graph graph = Inferred(symbol);
  return Hoist(graph, ParameterInputs(graph));
}

TEST(ParameterInputs, AreThoseThatOnlyFeedWeights) {
  const auto of = [](const Symbol& s) { return ParameterInputs(Inferred(s)); };
  EXPECT_EQ(of(Dense(kX, kW)), (std::vector<bool>{false, true}));
  EXPECT_EQ(of(Dense(kX, CallOp("tanh", {kW}))), (std::vector<bool>{false, true}));
  EXPECT_EQ(of(Dense(kX, CallOp("elemwise_add", {kW, kX}))),
            (std::vector<bool>{false, true}));
  EXPECT_EQ(of(Dense(kW, kW)), (std::vector<bool>{false}));
  EXPECT_EQ(of(CallOp("elemwise_add", {kX, kW})), (std::vector<bool>{false, false}));
  EXPECT_EQ(of(Symbol::Group(std::vector<Symbol>{Dense(kX, kW), kW})),
            (std::vector<bool>{false, false}));
}

TEST(Hoist, SplitsOffWhatFollowsFromParameters) {
  const Hoisted h =
      HoistedFrom(Dense(CallOp("tanh", {kX}), CallOp("sin", {CallOp("tanh", {kW})})));
  EXPECT_EQ(CountOps(h.prologue), 2);
  EXPECT_EQ(h.prologue.outputs.size(), 1u);
  EXPECT_EQ(h.sources, (std::vector<int>{1}));
  EXPECT_EQ(CountOps(h.graph), 2);
  ASSERT_EQ(h.graph.inputs.size(), 3u);
  EXPECT_TRUE(h.graph.nodes[h.graph.inputs[2]].is_input());
  EXPECT_EQ(h.graph.nodes[h.graph.outputs[0].node].inputs[1].node, h.graph.inputs[2]);
}

TEST(Hoist, LeavesViewsAndOutputsAndTheParametersThemselves) {
  EXPECT_TRUE(HoistedFrom(Dense(kX, kW)).prologue.outputs.empty());
  const Symbol view = CallOp("Reshape", {kW}, {{"shape", "(4, 4)"}});
  EXPECT_TRUE(HoistedFrom(Dense(kX, view)).prologue.outputs.empty());
  const Symbol zeros = CallOp("_zeros", {}, {{"shape", "(4, 4)"}});
  EXPECT_TRUE(HoistedFrom(zeros).prologue.outputs.empty());
}

TEST(Hoist, HoistsConstantsAndNotWhatGrows) {
  const Symbol constant = CallOp("_arange", {}, {{"start", "0"}, {"stop", "4"}});
  const Hoisted h = HoistedFrom(CallOp("broadcast_add", {kX, constant}));
  EXPECT_EQ(CountOps(h.prologue), 1);
  EXPECT_TRUE(h.sources.empty());
  const Symbol wide = CallOp("_zeros", {}, {{"shape", "(100000, 4, 4)"}});
  EXPECT_TRUE(
      HoistedFrom(CallOp("broadcast_add", {kX, wide})).prologue.outputs.empty());
  const Symbol row = CallOp("max", {kW}, {{"axis", "0"}, {"keepdims", "True"}});
  const Symbol grown = CallOp("tile", {row}, {{"reps", "(4000, 1)"}});
  const Hoisted part = HoistedFrom(CallOp(
      "FullyConnected", {kX, grown}, {{"num_hidden", "4000"}, {"no_bias", "True"}}));
  EXPECT_EQ(CountOps(part.prologue, "max"), 1);
  EXPECT_EQ(CountOps(part.prologue, "tile"), 0);
}

TEST(Hoist, LeavesRandomNumbers) {
  const Symbol draw = CallOp("_random_uniform", {}, {{"shape", "(4, 4)"}});
  EXPECT_TRUE(HoistedFrom(Dense(kX, draw)).prologue.outputs.empty());
}

}  // namespace
}  // namespace plait::testing
