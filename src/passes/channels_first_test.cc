// Tests of the pass channels: which transposes are left.

#include "passes/channels_first.h"

#include <gtest/gtest.h>

#include "passes/testing.h"

namespace plait::testing {
namespace {

const Symbol kX = Symbol::Variable("x");

Symbol Conv(const Symbol& x, const char* name, const char* op = "Convolution") {
  const std::vector<Symbol> in = {x, Symbol::Variable(std::string(name) + "_weight")};
  return Symbol::Make(GetOp(op), name,
                      {{"kernel", "(3, 3)"},
                       {"pad", "(1, 1)"},
                       {"num_filter", "6"},
                       {"no_bias", "True"},
                       {"layout", "NHWC"}},
                      in);
}

Symbol Norm(const Symbol& x, const char* axis) {
  std::vector<Symbol> in = {x};
  for (const char* name : {"gamma", "beta", "mean", "var"})
    in.push_back(Symbol::Variable(name));
  const Symbol all = Symbol::Make(GetOp("BatchNorm"), "bn", {{"axis", axis}}, in);
  return Symbol({all.outputs()[0]});
}

Graph After(const Symbol& symbol, const Shape& x = {2, 8, 9, 6}) {
  Graph graph = GraphOf(symbol);
  for (int id : graph.inputs) {
    graph.nodes[id].outputs[0].dtype = DType::kFloat32;
    if (graph.nodes[id].name == "x") graph.nodes[id].outputs[0].shape = x;
  }
  Infer(graph);
  const Graph first = PutChannelsFirst(graph);
  EXPECT_EQ(first.inputs.size(), graph.inputs.size());
  EXPECT_EQ(first.spec(first.outputs[0]).shape, graph.spec(graph.outputs[0]).shape);
  return first;
}

std::string Attr(const Graph& graph, const char* op, const char* name) {
  for (const GraphNode& node : graph.nodes) {
    if (node.is_input() || node.op->name != op) continue;
    for (const Field& field : node.op->fields)
      if (field.name == name) return FormatAttr(field.access->Get(node.params->get()));
  }
  return "";
}

TEST(ChannelsFirst, LeavesTransposesAtTheEdgesOfANetwork) {
  Symbol y = CallOp("relu", {Norm(Conv(kX, "a"), "3")});
  y = CallOp("elemwise_add", {kX, Conv(y, "b")});
  y = CallOp("Pooling", {y},
             {{"kernel", "(2, 2)"}, {"stride", "(2, 2)"}, {"layout", "NHWC"}});
  y = CallOp("Concat", {y, y}, {{"dim", "-1"}, {"num_args", "2"}});
  const Graph graph = After(Conv(y, "c"));
  // Of x, three weights and the result.
  EXPECT_EQ(CountOps(graph, "transpose"), 5);
  EXPECT_EQ(Attr(graph, "Convolution", "layout"), "NCHW");
  EXPECT_EQ(Attr(graph, "Pooling", "layout"), "NCHW");
  EXPECT_EQ(Attr(graph, "BatchNorm", "axis"), "1");
  EXPECT_EQ(Attr(graph, "Concat", "dim"), "1");
}

TEST(ChannelsFirst, WhatNeedsTheOrderGetsIt) {
  // Statistics of rows, and a softmax along channels.
  EXPECT_EQ(CountOps(After(Norm(Conv(kX, "a"), "1")), "transpose"), 3);
  const Graph graph = After(CallOp("softmax", {Conv(kX, "a")}));
  EXPECT_EQ(CountOps(graph, "transpose"), 3);
  EXPECT_EQ(graph.nodes[graph.outputs[0].node].op->name, "softmax");
}

TEST(ChannelsFirst, TransposesOfTheUsersOwnCancel) {
  const Symbol last = CallOp("transpose", {kX}, {{"axes", "(0, 2, 3, 1)"}});
  const Symbol y = CallOp("transpose", {Conv(last, "a")}, {{"axes", "(0, 3, 1, 2)"}});
  EXPECT_EQ(CountOps(After(y), "transpose"), 1);  // of the weight
}

TEST(ChannelsFirst, WhereNothingMovesAReshapeDoes) {
  const Graph graph = After(Conv(kX, "a", "Deconvolution"), {2, 1, 1, 6});
  EXPECT_EQ(CountOps(graph, "_reshape_to"), 2);
  EXPECT_EQ(CountOps(graph, "transpose"), 1);
}

TEST(ChannelsFirst, OtherNetworksStayAsTheyAre) {
  const Symbol y = CallOp("Pooling", {kX}, {{"kernel", "(2, 2)"}, {"layout", "NHWC"}});
  const Graph graph = After(CallOp("relu", {y}));
  EXPECT_EQ(graph.size(), 3u);
  EXPECT_EQ(Attr(graph, "Pooling", "layout"), "NHWC");
}

}  // namespace
}  // namespace plait::testing
