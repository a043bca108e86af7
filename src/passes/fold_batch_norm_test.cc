// Tests of the pass fold_bn: what it folds, what it scales, what it leaves alone.

#include "passes/fold_batch_norm.h"

#include <gtest/gtest.h>

#include "passes/parameters.h"
#include "passes/testing.h"

namespace plait::testing {
namespace {

Symbol Norm(const Symbol& x, SymbolAttrs attrs = {}) {
  std::vector<Symbol> in = {x};
  for (const char* name : {"gamma", "beta", "mean", "var"})
    in.push_back(Symbol::Variable(name));
  const char* op = "BatchNorm";
  return Symbol::Make(GetOp(op), "bn", attrs, in);
}

Symbol Conv(const SymbolAttrs& more = {}) {
  SymbolAttrs attrs{{"kernel", "(1, 1)"}, {"num_filter", "6"}, {"no_bias", "True"}};
  attrs.insert(more.begin(), more.end());
  const std::vector<Symbol> in = {Symbol::Variable("x"), Symbol::Variable("weight")};
  return Symbol::Make(GetOp("Convolution"), "conv", attrs, in);
}

Graph InferredFrom(const Symbol& symbol, const Shape& x) {
  Graph graph = GraphOf(symbol);
  for (int id : graph.inputs) graph.nodes[id].outputs[0].dtype = DType::kFloat32;
  graph.nodes[graph.inputs[0]].outputs[0].shape = x;
  Infer(graph);
  return graph;
}

Graph Folded(Graph graph, bool training = false) {
  for (GraphNode& node : graph.nodes) {  // as CompiledGraph does
    node.mutates.clear();
    for (int i = 0; i < static_cast<int>(node.inputs.size()); ++i)
      if (node.op->Writes(*node.params, i, training)) node.mutates.push_back(i);
  }
  return Prune(
      FoldBatchNorms(graph, training, FromParameters(graph, ParameterInputs(graph))));
}

const Shape kImage = {2, 4, 5, 5};

TEST(FoldBatchNorm, FoldsIntoAConvolutionAndGivesItABias) {
  const Graph graph = Folded(InferredFrom(Norm(Conv()), kImage));
  EXPECT_EQ(CountOps(graph, "BatchNorm"), 0);
  ASSERT_EQ(CountOps(graph, "Convolution"), 1);
  const GraphNode& last = graph.nodes[graph.outputs[0].node];
  EXPECT_EQ(last.op->name, "Convolution");
  EXPECT_EQ(last.name, "conv+bn");
  EXPECT_EQ(last.inputs.size(), 3u);
  EXPECT_EQ(graph.inputs.size(), 6u);
}

TEST(FoldBatchNorm, FoldsIntoFullyConnectedAlongTheLastAxisOnly) {
  const auto make = [](const char* axis) {
    const Symbol dense =
        CallOp("FullyConnected",
               {Symbol::Variable("x"), Symbol::Variable("w"), Symbol::Variable("b")},
               {{"num_hidden", "3"}, {"flatten", "False"}});
    return Folded(InferredFrom(Norm(dense, {{"axis", axis}}), {2, 3, 4}));
  };
  EXPECT_EQ(make("-1").nodes.back().op->name, "FullyConnected");
  EXPECT_EQ(make("2").nodes.back().op->name, "FullyConnected");
  EXPECT_EQ(make("1").nodes.back().op->name, "broadcast_add");
}

TEST(FoldBatchNorm, ScalesWhatSeveralReadPointwise) {
  const Symbol conv = Conv();
  const Graph graph = Folded(
      InferredFrom(Symbol::Group(std::vector<Symbol>{Norm(conv), conv}), kImage));
  EXPECT_EQ(CountOps(graph, "BatchNorm"), 0);
  EXPECT_EQ(graph.nodes[graph.outputs[0].node].op->name, "broadcast_add");
  EXPECT_EQ(graph.nodes[graph.outputs[0].node].name, "bn");
}

TEST(FoldBatchNorm, LeavesTrainingAlone) {
  const Graph graph = InferredFrom(Norm(Conv()), kImage);
  EXPECT_EQ(CountOps(Folded(graph, true), "BatchNorm"), 1);
  const Graph global = InferredFrom(
      Norm(Conv(), {{"use_global_stats", "True"}, {"fix_gamma", "False"}}), kImage);
  EXPECT_EQ(CountOps(Folded(global, true), "BatchNorm"), 0);
}

TEST(FoldBatchNorm, LeavesStatisticsThatAreReadAlone) {
  const Graph graph =
      Folded(InferredFrom(Norm(Conv(), {{"output_mean_var", "True"}}), kImage));
  EXPECT_EQ(CountOps(graph, "BatchNorm"), 1);
}

Symbol Half(const char* name) {
  return CallOp("amp_cast", {Symbol::Variable(name)}, {{"dtype", "float16"}});
}

TEST(FoldBatchNorm, ScalesHalfWeightsBeforeTheyAreRounded) {
  const Symbol conv =
      CallOp("Convolution", {Half("x"), Half("w")},
             {{"kernel", "(3, 3)"}, {"num_filter", "4"}, {"no_bias", "True"}});
  const Graph graph = Folded(InferredFrom(Norm(conv), kImage));
  EXPECT_EQ(CountOps(graph, "BatchNorm"), 0);
  const GraphNode& last = graph.nodes.back();
  ASSERT_EQ(last.op->name, "Convolution");
  EXPECT_EQ(graph.spec({static_cast<int>(graph.size()) - 1, 0}).dtype, DType::kFloat16);
  for (int i : {1, 2}) {
    const GraphNode& cast = graph.nodes[last.inputs[i].node];
    EXPECT_EQ(graph.spec(cast.inputs[0]).dtype, DType::kFloat32);
  }
}

TEST(FoldBatchNorm, LeavesWeightsThatAreHalfAlone) {
  Graph graph = GraphOf(Norm(Conv()));
  graph.nodes[graph.inputs[0]].outputs[0] = {kImage, DType::kFloat16};
  Infer(graph);
  const Graph folded = Folded(graph);
  EXPECT_EQ(CountOps(folded, "BatchNorm"), 0);
  EXPECT_NE(folded.nodes.back().op->name, "Convolution");
}

TEST(FoldBatchNorm, ScalesNoWeightThatIsLargeAndComputedFromData) {
  // The weight is data as well, larger than the result.
  const Symbol x = Symbol::Variable("x");
  const Symbol dense = CallOp("FullyConnected", {x, CallOp("tanh", {x})},
                              {{"num_hidden", "8"}, {"no_bias", "True"}});
  const Graph large = Folded(InferredFrom(Norm(dense), {8, 100}));
  EXPECT_EQ(large.nodes.back().op->name, "broadcast_add");
  const Graph small = Folded(InferredFrom(Norm(dense), {8, 4}));
  EXPECT_EQ(small.nodes.back().op->name, "FullyConnected");
}

}  // namespace
}  // namespace plait::testing
