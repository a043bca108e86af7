// Tests of the pass attention: what it finds, and what it leaves alone.

#include "passes/attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "passes/testing.h"

namespace plait::testing {
namespace {

const Symbol kQ = Symbol::Variable("q"), kK = Symbol::Variable("k"),
             kV = Symbol::Variable("v"), kMask = Symbol::Variable("mask");
constexpr const char* kFused = "_contrib_dot_product_attention";

Symbol Scores(const Symbol& q, const Symbol& k) {
  return CallOp("batch_dot", {q, k}, {{"transpose_b", "True"}});
}
Symbol Scaled(const Symbol& x) {
  return CallOp("_div_scalar", {x}, {{"scalar", "4"}});
}
Symbol Weights(const Symbol& x, const SymbolAttrs& attrs = {}) {
  return CallOp("softmax", {x}, attrs);
}
Symbol Result(const Symbol& weights, const Symbol& v) {
  return CallOp("batch_dot", {weights, v});
}

// Each input by its name: (4, 100, 8), a mask (1, 100, 100), unless `shapes` says
// otherwise.
Graph Fused(const Symbol& symbol, const std::vector<std::string>& wanted = {},
            const std::map<std::string, Shape>& shapes = {}) {
  Graph graph = GraphOf(symbol);
  std::vector<bool> wants;
  for (int id : graph.inputs) {
    const std::string& name = graph.nodes[id].name;
    const auto it = shapes.find(name);
    const Shape usual = name == "mask" ? Shape{1, 100, 100} : Shape{4, 100, 8};
    graph.nodes[id].outputs[0] = {it == shapes.end() ? usual : it->second,
                                  DType::kFloat32};
    wants.push_back(std::find(wanted.begin(), wanted.end(), name) != wanted.end());
  }
  Infer(graph);
  return FuseAttention(graph, wants);
}

double NumberIn(const Graph& graph, const char* field, const char* op = kFused) {
  for (const GraphNode& node : graph.nodes) {
    if (node.is_input() || node.op->name != op) continue;
    for (const Field& f : node.op->fields) {
      if (f.name == field)
        return AttrCodec<double>::Decode(f.access->Get(node.params->get()), field);
    }
  }
  return -1;
}

TEST(FuseAttention, FindsTheProductsAndTheSoftmax) {
  const Graph graph = Fused(Result(Weights(Scaled(Scores(kQ, kK))), kV));
  EXPECT_EQ(CountOps(graph), 1);
  EXPECT_EQ(CountOps(graph, kFused), 1);
  EXPECT_EQ(NumberIn(graph, "scale"), 0.25);
  EXPECT_EQ(graph.inputs.size(), 3u);
  EXPECT_EQ(graph.spec(graph.outputs[0]).shape, (Shape{4, 100, 8}));
}

TEST(FuseAttention, LooksBehindMulticastsOfMixedPrecision) {
  const auto both = [](const Symbol& x, const Symbol& y) {
    return Symbol::Make(GetOp("amp_multicast"), "both", {{"num_outputs", "2"}},
                        {{x, y}});
  };
  const Symbol qk = both(kQ, kK);
  const Symbol scores = Scores(Symbol({qk.outputs()[0]}), Symbol({qk.outputs()[1]}));
  const Symbol wv = both(Weights(Scaled(scores)), kV);
  const Symbol y = Result(Symbol({wv.outputs()[0]}), Symbol({wv.outputs()[1]}));
  const Graph graph = Fused(y, {"q", "k", "v"});
  EXPECT_EQ(CountOps(graph), 1);
  EXPECT_EQ(CountOps(graph, kFused), 1);
}

TEST(FuseAttention, TakesDropoutMaskAndTemperatureAlong) {
  const Symbol masked = CallOp("broadcast_add", {Scaled(Scores(kQ, kK)), kMask});
  const Symbol dropped = CallOp("Dropout", {Weights(masked)}, {{"p", "0.25"}});
  Graph graph = Fused(Result(dropped, kV), {"q", "k", "v"});
  EXPECT_EQ(CountOps(graph, kFused), 1);
  EXPECT_EQ(CountOps(graph, "Dropout"), 0);
  EXPECT_EQ(CountOps(graph), 2);  // and the mask's reshape
  EXPECT_EQ(NumberIn(graph, "dropout"), 0.25);
  graph = Fused(Result(Weights(Scores(kQ, kK), {{"temperature", "2"}}), kV));
  EXPECT_EQ(NumberIn(graph, "scale"), 0.5);
}

TEST(FuseAttention, TakesLengthsAlong) {
  const Symbol weights = CallOp("softmax", {Scores(kQ, kK), Symbol::Variable("length")},
                                {{"use_length", "True"}});
  const Graph graph = Fused(Result(weights, kV), {"q"}, {{"length", {4, 100}}});
  EXPECT_EQ(CountOps(graph, kFused), 1);
  EXPECT_EQ(CountOps(graph, "softmax"), 0);
}

TEST(FuseAttention, TakesTheTransposesOfHeadsAlong) {
  const auto heads = [](const Symbol& x) {
    const Symbol rows = CallOp("Reshape", {x}, {{"shape", "(0, 0, 2, 4)"}});
    const Symbol turned = CallOp("transpose", {rows}, {{"axes", "(0, 2, 1, 3)"}});
    return CallOp("Reshape", {turned}, {{"shape", "(-3, 0, 0)"}});
  };
  Symbol y = Result(Weights(Scores(heads(kQ), heads(kK))), heads(kV));
  Graph graph = Fused(y);
  EXPECT_EQ(CountOps(graph, "transpose"), 3);  // nothing turns the result back
  y = CallOp("Reshape", {y}, {{"shape", "(-4, -1, 2, 0, 0)"}});
  y = CallOp("transpose", {y}, {{"axes", "(0, 2, 1, 3)"}});
  graph = Fused(CallOp("Reshape", {y}, {{"shape", "(0, 0, -3)"}}));
  EXPECT_EQ(CountOps(graph, "transpose"), 0);
  EXPECT_EQ(CountOps(graph, kFused), 1);
  EXPECT_EQ(graph.spec(graph.outputs[0]).shape, (Shape{4, 100, 8}));
}

TEST(FuseAttention, KnowsKeysThatAreTransposed) {
  const Symbol turned = CallOp("transpose", {kK}, {{"axes", "(0, 2, 1)"}});
  EXPECT_EQ(CountOps(Fused(Result(Weights(CallOp("batch_dot", {kQ, turned})), kV))), 1);
  const Symbol swapped = CallOp("SwapAxis", {kK}, {{"dim1", "1"}, {"dim2", "2"}});
  EXPECT_EQ(CountOps(Fused(Result(Weights(CallOp("batch_dot", {kQ, swapped})), kV))),
            1);
}

constexpr const char* kInterleaved = "_interleaved_attention";

TEST(FuseAttention, FindsInterleavedProjections) {
  const Symbol x = Symbol::Variable("x"), length = Symbol::Variable("length");
  const SymbolAttrs heads = {{"heads", "2"}};
  const Symbol scores = CallOp("_contrib_interleaved_matmul_selfatt_qk", {x}, heads);
  Symbol each = CallOp("expand_dims", {length}, {{"axis", "1"}});
  each = CallOp("broadcast_axis", {each}, {{"axis", "1"}, {"size", "2"}});
  each = CallOp("Reshape", {each}, {{"shape", "(-1, 0)"}, {"reverse", "True"}});
  const Symbol weights =
      CallOp("softmax", {scores, each}, {{"use_length", "True"}, {"axis", "-1"}});
  const auto result = [&](const Symbol& from) {
    return CallOp("_contrib_interleaved_matmul_selfatt_valatt", {from, weights}, heads);
  };
  const std::map<std::string, Shape> shapes = {
      {"x", {100, 3, 24}}, {"y", {100, 3, 24}}, {"length", {3, 100}}};
  Graph graph = Fused(result(x), {"x"}, shapes);
  EXPECT_EQ(CountOps(graph), 2);  // and expand_dims: heads share their lengths
  EXPECT_EQ(CountOps(graph, kInterleaved), 1);
  EXPECT_EQ(NumberIn(graph, "scale", kInterleaved), 0.5);
  EXPECT_EQ(graph.spec(graph.outputs[0]).shape, (Shape{100, 3, 8}));
  // Values of something else.
  graph = Fused(result(Symbol::Variable("y")), {}, shapes);
  EXPECT_EQ(CountOps(graph, kInterleaved), 0);
}

TEST(FuseAttention, TakesMasksThatHideKeys) {
  const Symbol scores = Scores(kQ, kK);
  const auto filled = [&](const Symbol& mask, const char* with) {
    const Symbol number =
        CallOp("_mul_scalar", {CallOp("ones_like", {scores})}, {{"scalar", with}});
    return Weights(CallOp("where", {mask, scores, number}));
  };
  const std::map<std::string, Shape> shapes = {{"mask", {4, 100, 100}}};
  const Symbol seen = CallOp("_greater_scalar", {kMask}, {{"scalar", "0"}});
  const auto times = [&](const Symbol& x, const Symbol& mask) {
    return Result(CallOp("broadcast_mul", {x, mask}), kV);
  };
  const auto count = [&](const Symbol& y, const std::vector<std::string>& wanted) {
    return CountOps(Fused(y, wanted, shapes), kFused);
  };
  EXPECT_EQ(count(times(filled(seen, "-1e4"), seen), {"q", "k", "v"}), 1);
  EXPECT_EQ(count(times(filled(kMask, "-1e4"), kMask), {}), 0);  // not 0 and 1
  EXPECT_EQ(count(times(Weights(scores), seen), {}), 0);
  // Without the factor all keys count alike where all are hidden.
  EXPECT_EQ(count(Result(filled(kMask, "-1e18"), kV), {}), 1);
  EXPECT_EQ(count(Result(filled(kMask, "-1e18"), kV), {"v"}), 1);
  EXPECT_EQ(count(Result(filled(kMask, "-1e18"), kV), {"q"}), 0);
  EXPECT_EQ(count(Result(filled(kMask, "-1e4"), kV), {}), 0);
  EXPECT_EQ(count(Result(filled(kMask, "5"), kV), {}), 0);
}

TEST(FuseAttention, LeavesFewWeightsAloneWhereGradientsNeedThem) {
  const Symbol y = Result(Weights(Scores(kQ, kK)), kV);
  const std::map<std::string, Shape> few = {
      {"q", {4, 9, 8}}, {"k", {4, 50, 8}}, {"v", {4, 50, 8}}};
  EXPECT_EQ(CountOps(Fused(y, {}, few), kFused), 1);
  EXPECT_EQ(CountOps(Fused(y, {"k"}, few), kFused), 0);
}

TEST(FuseAttention, LeavesAloneWhatOthersRead) {
  const Symbol scores = Scores(kQ, kK), weights = Weights(scores);
  const Symbol y = Result(weights, kV);
  EXPECT_EQ(CountOps(Fused(Symbol::Group(std::vector<Symbol>{y, weights})), kFused), 0);
  EXPECT_EQ(CountOps(Fused(Symbol::Group(std::vector<Symbol>{y, scores})), kFused), 0);
}

TEST(FuseAttention, LeavesAloneWhatIsNotAttention) {
  const Symbol scores = Scores(kQ, kK);
  // Columns that sum to one; a mask whose gradient is wanted, or that is scaled too;
  // weights on the right side.
  EXPECT_EQ(CountOps(Fused(Result(Weights(scores, {{"axis", "1"}}), kV)), kFused), 0);
  const Symbol masked = CallOp("broadcast_add", {scores, kMask});
  EXPECT_EQ(CountOps(Fused(Result(Weights(masked), kV), {"mask"}), kFused), 0);
  EXPECT_EQ(CountOps(Fused(Result(Weights(masked), kV), {"q"}), kFused), 1);
  EXPECT_EQ(CountOps(Fused(Result(Weights(Scaled(masked)), kV)), kFused), 0);
  const std::map<std::string, Shape> square = {{"v", {4, 100, 100}}};
  EXPECT_EQ(CountOps(Fused(Result(kV, Weights(scores)), {}, square), kFused), 0);
  const Symbol negative = CallOp("_mul_scalar", {scores}, {{"scalar", "-1"}});
  EXPECT_EQ(CountOps(Fused(Result(Weights(negative), kV)), kFused), 0);
}

}  // namespace
}  // namespace plait::testing
