// Tests of the pass blocked: what runs on blocks where the last one is filled up.

#include "passes/blocked.h"

#include <gtest/gtest.h>

#include <functional>

#include "cpu/blocked.h"
#include "passes/testing.h"

namespace plait::testing {
namespace {

class BlockedPass : public ::testing::Test {
 protected:
  void SetUp() override {
    if (cpu::ChannelBlock() == 0) GTEST_SKIP() << "there are no blocks";
  }
};

Symbol Conv(const Symbol& x, const std::string& weight, int64_t channels) {
  return CallOp("Convolution", {x, Symbol::Variable(weight)},
                {{"kernel", "(3, 3)"},
                 {"pad", "(1, 1)"},
                 {"num_filter", std::to_string(channels)},
                 {"no_bias", "True"}});
}

using Between = std::function<Symbol(const Symbol&)>;

// Whether what stands between two convolutions keeps the blocks.
bool KeepsBlocks(int64_t channels, const Between& between) {
  const Symbol x = Symbol::Variable("x");
  Graph graph = GraphOf(Conv(between(Conv(x, "a", channels)), "b", channels));
  for (int id : graph.inputs) {
    graph.nodes[id].outputs[0].dtype = DType::kFloat32;
    if (graph.nodes[id].name == "x")
      graph.nodes[id].outputs[0].shape = {4, channels, 12, 12};
    if (graph.nodes[id].name == "one") graph.nodes[id].outputs[0].shape = {1};
  }
  Infer(graph);
  graph = Prune(UseBlocks(graph, cpu::ChannelBlock(), false));
  EXPECT_EQ(CountOps(graph, "_blocked_convolution"), 2);
  return CountOps(graph, "_unblock") == 1;
}

Between Unary(const char* op, const SymbolAttrs& attrs = {}) {
  return [=](const Symbol& x) { return CallOp(op, {x}, attrs); };
}
Between WithScalar(const char* op, const char* scalar) {
  return Unary(op, {{"scalar", scalar}});
}
Between Squared() {
  return [](const Symbol& x) { return CallOp("elemwise_mul", {x, x}); };
}

TEST_F(BlockedPass, FillingStaysZero) {
  struct Case {
    const char* what;
    Between between;
    bool keeps;
  };
  const Case cases[] = {
      {"relu", Unary("relu"), true},
      {"tanh", Unary("tanh"), true},
      {"abs", Unary("abs"), true},
      {"x * x", Squared(), true},
      {"3 x", WithScalar("_mul_scalar", "3"), true},
      {"max(x, -1)", WithScalar("_maximum_scalar", "-1"), true},
      {"x > 0", WithScalar("_greater_scalar", "0"), true},
      {"clip to 0 and 6", Unary("clip", {{"a_min", "0"}, {"a_max", "6"}}), true},
      {"leaky", Unary("LeakyReLU", {{"act_type", "leaky"}}), true},
      {"sigmoid", Unary("sigmoid"), false},
      {"exp", Unary("exp"), false},
      {"x + 1", WithScalar("_plus_scalar", "1"), false},
      {"x - 300", WithScalar("_minus_scalar", "300"), false},
      {"infinity x", WithScalar("_mul_scalar", "1e39"), false},
      {"max(x, 1)", WithScalar("_maximum_scalar", "1"), false},
      {"x >= 0", WithScalar("_greater_equal_scalar", "0"), false},
      {"clip to 1 and 6", Unary("clip", {{"a_min", "1"}, {"a_max", "6"}}), false},
      {"x + another's one element",
       [](const Symbol& x) {
         return CallOp("broadcast_add", {x, Symbol::Variable("one")});
       },
       false},
  };
  for (const Case& c : cases) {
    EXPECT_EQ(KeepsBlocks(60, c.between), c.keeps) << c.what;
    EXPECT_TRUE(KeepsBlocks(64, c.between)) << c.what;
  }
}

}  // namespace
}  // namespace plait::testing
