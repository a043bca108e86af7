// Tests of the passes prune, identity, cse and fuse.

#include "passes/simplify.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "graph/fused.h"
#include "passes/testing.h"

namespace plait::testing {
namespace {

const Symbol kX = Symbol::Variable("x"), kY = Symbol::Variable("y");

// Nodes stand after what they read; specs are those of before.
void ExpectSound(const Graph& graph) {
  for (size_t id = 0; id < graph.size(); ++id) {
    for (GraphEntry e : graph.nodes[id].inputs) {
      ASSERT_LT(e.node, static_cast<int>(id));
      ASSERT_LT(e.index, static_cast<int>(graph.nodes[e.node].outputs.size()));
    }
    for (const Spec& spec : graph.nodes[id].outputs) EXPECT_TRUE(spec.shape.known());
  }
  for (int id : graph.inputs) EXPECT_TRUE(graph.nodes[id].is_input());
}

TEST(Prune, KeepsInputsAndLeavesOutWhatNoOutputNeeds) {
  Graph graph = Inferred(
      Symbol::Group(std::vector<Symbol>{CallOp("tanh", {kX}), CallOp("sin", {kY})}));
  graph.outputs.resize(1);
  const Graph pruned = Prune(graph);
  ExpectSound(pruned);
  EXPECT_EQ(pruned.inputs.size(), 2u);
  EXPECT_EQ(CountOps(pruned), 1);
  EXPECT_EQ(CountOps(pruned, "tanh"), 1);
}

TEST(RemoveIdentities, LeavesOutCopiesAndBlocksOfGradients) {
  Symbol s = CallOp("BlockGrad", {CallOp("_copy", {CallOp("_copy", {kX})})});
  const Graph graph = RemoveIdentities(Inferred(CallOp("tanh", {s})));
  ExpectSound(graph);
  EXPECT_EQ(CountOps(graph), 1);
}

TEST(RemoveIdentities, KeepsCopiesThatStretch) {
  Symbol row = CallOp("sum", {kX}, {{"axis", "0"}, {"keepdims", "True"}});
  Symbol wide = CallOp("broadcast_axis", {row}, {{"axis", "0"}, {"size", "4"}});
  const Graph graph = RemoveIdentities(Inferred(wide));
  EXPECT_EQ(CountOps(graph, "broadcast_axis"), 1);
  EXPECT_EQ(graph.spec(graph.outputs[0]).shape, (Shape{4, 4}));
}

TEST(MergeEqual, MergesEqualCallsThroughSeveralLevels) {
  const auto make = [](const char* scalar) {
    Symbol sum = CallOp("elemwise_add", {kX, kY});
    return CallOp("_mul_scalar", {sum}, {{"scalar", scalar}});
  };
  Graph graph = Inferred(CallOp("elemwise_mul", {make("2"), make("2")}));
  EXPECT_EQ(CountOps(Prune(MergeEqual(graph))), 3);
  graph = Inferred(CallOp("elemwise_mul", {make("2"), make("3")}));
  EXPECT_EQ(CountOps(Prune(MergeEqual(graph))), 4);  // only the sums
  // Spelled differently, the same number.
  graph = Inferred(CallOp("elemwise_mul", {make("2"), make("2.0")}));
  EXPECT_EQ(CountOps(Prune(MergeEqual(graph))), 3);
}

TEST(MergeEqual, KeepsDrawsAndStatesApart) {
  const auto dropout = [] { return CallOp("Dropout", {kX}); };
  Graph graph = Inferred(CallOp("elemwise_add", {dropout(), dropout()}));
  EXPECT_EQ(CountOps(Prune(MergeEqual(graph)), "Dropout"), 2);
  const auto norm = [](const char* name) {
    return Symbol({Symbol::Make(GetOp("BatchNorm"), name, {}, std::vector<Symbol>{kX})
                       .outputs()[0]});
  };
  graph = GraphOf(CallOp("elemwise_add", {norm("a"), norm("a")}));
  graph.nodes[graph.inputs[0]].outputs[0] = {{4, 4}, DType::kFloat32};
  Infer(graph);
  EXPECT_EQ(CountOps(Prune(MergeEqual(graph)), "BatchNorm"), 2);
}

TEST(Fuse, MakesOneNodeOfAChain) {
  Symbol s = kX;
  for (const char* op : {"tanh", "sigmoid", "sin"}) s = CallOp(op, {s});
  s = CallOp("elemwise_add", {s, kX});
  const Graph joined = Fuse(Inferred(s), true), alone = Fuse(Inferred(s), false);
  ExpectSound(joined);
  EXPECT_EQ(CountOps(joined), 1);
  EXPECT_EQ(CountOps(joined, "_fused"), 1);
  EXPECT_EQ(CountOps(alone, "_fused"), 4);
}

TEST(Fuse, DoesNotJoinAcrossWhatMustRunBetween) {
  // tanh -> dot -> + tanh: the sum cannot run with the tanh, before the dot.
  Symbol a = CallOp("tanh", {kX});
  Symbol b = CallOp("dot", {a, kY});
  const Graph graph = Fuse(Inferred(CallOp("elemwise_add", {a, b})), true);
  ExpectSound(graph);
  EXPECT_EQ(CountOps(graph, "_fused"), 2);
  EXPECT_EQ(CountOps(graph, "dot"), 1);
}

TEST(Fuse, KeepsForwardAndBackwardApart) {
  Graph graph = Inferred(CallOp("tanh", {CallOp("sigmoid", {kX})}));
  GradientRequest request;
  request.wanted = {true};
  request.head_given = {true};
  graph.outputs.push_back(AddGradients(graph, request).gradients[0]);
  const Graph fused = Fuse(graph, true);
  ExpectSound(fused);
  int backward = 0;
  for (const GraphNode& node : fused.nodes)
    backward += !node.is_input() && node.backward;
  EXPECT_EQ(backward, 1);
  EXPECT_EQ(CountOps(fused), 2);
}

TEST(Passes, AreSoundForRandomGraphs) {
  for (uint32_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(seed);
    for (bool gradients : {false, true}) {
      ExpectSound(RandomInferred(seed, 25, gradients, true));
      if (HasFatalFailure()) return;
    }
  }
}

}  // namespace
}  // namespace plait::testing
