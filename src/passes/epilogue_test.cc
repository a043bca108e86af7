// Tests of the pass epilogue.

#include "passes/epilogue.h"

#include <gtest/gtest.h>

#include "passes/testing.h"

namespace plait::testing {
namespace {

const Symbol kX = Symbol::Variable("x"), kW = Symbol::Variable("w");

Symbol Dense() {
  return CallOp("FullyConnected", {kX, kW}, {{"num_hidden", "4"}, {"no_bias", "True"}});
}
Graph Joined(const Symbol& symbol) {
  return Prune(JoinEpilogues(Inferred(symbol)));
}

TEST(Epilogue, JoinsAReluThatAloneReadsALayer) {
  for (const Symbol& relu : {CallOp("relu", {Dense()}),
                             CallOp("Activation", {Dense()}, {{"act_type", "relu"}})}) {
    const Graph graph = Joined(relu);
    EXPECT_EQ(CountOps(graph), 1);
    EXPECT_EQ(CountOps(graph, "_fully_connected_relu"), 1);
  }
}

TEST(Epilogue, LeavesOtherActivationsAndOtherReadersAlone) {
  EXPECT_EQ(CountOps(Joined(CallOp("Activation", {Dense()}, {{"act_type", "tanh"}}))),
            2);
  const Symbol dense = Dense();
  const std::vector<Symbol> both = {CallOp("relu", {dense}), dense};
  const Graph graph = Joined(Symbol::Group(both));
  EXPECT_EQ(CountOps(graph, "FullyConnected"), 1);
  EXPECT_EQ(CountOps(graph, "relu"), 1);
}

TEST(Epilogue, JoinsBeforeGradientsThatAskForTheSignAlone) {
  Graph graph = Inferred(CallOp("relu", {Dense()}));
  GradientRequest request;
  request.wanted.assign(graph.inputs.size(), true);
  request.head_given.assign(1, true);
  for (GraphEntry g : AddGradients(graph, request).gradients)
    graph.outputs.push_back(g);
  EXPECT_EQ(CountOps(Prune(JoinEpilogues(graph)), "_fully_connected_relu"), 1);
}

TEST(Epilogue, JoinsACastOfAHalfProductToFloat32) {
  const auto cast = [](const Symbol& x, const char* dtype) {
    return CallOp("amp_cast", {x}, {{"dtype", dtype}});
  };
  for (const char* half : {"float16", "bfloat16"}) {
    const Symbol product = CallOp("dot", {cast(kX, half), cast(kW, half)});
    const Graph graph = Joined(cast(product, "float32"));
    EXPECT_EQ(CountOps(graph, "_dot_float32"), 1);
    EXPECT_EQ(CountOps(graph), 3);
    EXPECT_EQ(graph.spec(graph.outputs[0]).dtype, DType::kFloat32);
    // Rounded where something else reads it, or where it becomes something else.
    const std::vector<Symbol> both = {cast(product, "float32"), product};
    EXPECT_EQ(CountOps(Joined(Symbol::Group(both)), "_dot_float32"), 0);
    EXPECT_EQ(CountOps(Joined(cast(product, "float64")), "_dot_float32"), 0);
  }
  EXPECT_EQ(CountOps(Joined(cast(CallOp("dot", {kX, kW}), "float32")), "_dot_float32"),
            0);
}

}  // namespace
}  // namespace plait::testing
