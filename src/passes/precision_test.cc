// Tests of mixed precision in symbols, and of the pass casts.

#include "passes/precision.h"

#include <gtest/gtest.h>

#include "passes/casts.h"
#include "passes/testing.h"

namespace plait::testing {
namespace {

PrecisionRules RulesFor(DType target = DType::kFloat16) {
  PrecisionRules rules;
  rules.target = target;
  rules.Add(Precision::kLow, {"FullyConnected", "no_such_operator"});
  rules.Add(Precision::kFull, {"sin"});
  rules.Add(Precision::kWidest, {"elemwise_add"});
  rules.AddCondition("Activation", "act_type", {"softrelu"});
  rules.data = {"x"};
  return rules;
}

Symbol Dense(const Symbol& x, const Symbol& weight) {
  return CallOp("FullyConnected", {x, weight},
                {{"num_hidden", "4"}, {"no_bias", "True"}});
}

const SymbolNode& NodeOf(const Symbol& symbol, const std::string& name) {
  for (const SymbolNode* node : symbol.Nodes())
    if (node->name == name) return *node;
  throw std::runtime_error("no node " + name);
}

int CountOps(const Symbol& symbol, const std::string& op) {
  return testing::CountOps(GraphOf(symbol), op);
}

const Symbol kX = Symbol::Variable("x"), kW = Symbol::Variable("w");

TEST(ReducePrecision, CastsWhatAnOperatorReadsAndTheResultBack) {
  const Symbol y = ReducePrecision(Dense(kX, kW), RulesFor());
  EXPECT_EQ(y.outputs()[0].node->op->name, "amp_cast");
  EXPECT_EQ(y.outputs()[0].node->attrs.at("dtype"), "float32");
  EXPECT_EQ(CountOps(y, "amp_cast"), 3);
  EXPECT_EQ(NodeOf(y, "x_amp_cast_float16").attrs.at("dtype"), "float16");
  EXPECT_EQ(NodeOf(y, "w").attrs.at("__dtype__"), "0");
}

TEST(ReducePrecision, LeavesTheGivenSymbolAlone) {
  const Symbol y = Dense(kX, kW);
  const std::string before = y.ToJson();
  ReducePrecision(y, RulesFor());
  EXPECT_EQ(y.ToJson(), before);
}

TEST(ReducePrecision, CastsAValueOnceForAllWhoReadIt) {
  const Symbol y = CallOp("elemwise_add", {Dense(kX, kW), Dense(kX, kW)});
  EXPECT_EQ(CountOps(ReducePrecision(y, RulesFor()), "amp_cast"), 3);
}

TEST(ReducePrecision, TakesParametersThatAreCastAlready) {
  PrecisionRules rules = RulesFor(DType::kBfloat16);
  rules.cast_params = true;
  const Symbol y = ReducePrecision(Dense(kX, kW), rules);
  EXPECT_EQ(CountOps(y, "amp_cast"), 2);
  EXPECT_EQ(NodeOf(y, "w").attrs.at("__dtype__"), "12");
}

TEST(ReducePrecision, ParametersBehindTheHalfTypeFollowIt) {
  // Nothing casts the second layer's: its rule is to take what it gets.
  PrecisionRules rules = RulesFor();
  const Symbol inner = Dense(kX, kW);
  const Symbol y =
      CallOp("Convolution", {inner, Symbol::Variable("k")},
             {{"kernel", "(1,)"}, {"num_filter", "2"}, {"no_bias", "True"}});
  EXPECT_EQ(NodeOf(ReducePrecision(y, rules), "k").attrs.at("__dtype__"), "2");
}

TEST(ReducePrecision, FloatOperatorsAndExcludedNodesGetFloat32) {
  const Symbol y = CallOp("sin", {Dense(kX, kW)});
  EXPECT_EQ(CountOps(ReducePrecision(y, RulesFor()), "amp_cast"), 3);
  PrecisionRules rules = RulesFor();
  rules.excluded = {"FullyConnected"};
  EXPECT_EQ(CountOps(ReducePrecision(y, rules), "amp_cast"), 0);
}

TEST(ReducePrecision, ConditionsLookAtTheParameter) {
  for (const bool softrelu : {false, true}) {
    const Symbol y = CallOp("Activation", {Dense(kX, kW)},
                            {{"act_type", softrelu ? "softrelu" : "relu"}});
    const Symbol reduced = ReducePrecision(y, RulesFor());
    const std::string head = reduced.outputs()[0].node->op->name;
    EXPECT_EQ(head, softrelu ? "Activation" : "amp_cast");
  }
}

TEST(ReducePrecision, UnknownDtypesMeetInAMulticast) {
  const Symbol y = CallOp("elemwise_add", {Dense(kX, kW), Symbol::Variable("b")});
  const Symbol reduced = ReducePrecision(y, RulesFor());
  EXPECT_EQ(CountOps(reduced, "amp_multicast"), 1);
  EXPECT_EQ(NodeOf(reduced, "b").attrs.at("__dtype__"), "0");
}

TEST(ReducePrecision, StatisticsStayFloat32) {
  PrecisionRules rules = RulesFor();
  rules.Add(Precision::kLow, {"BatchNorm"});
  Symbol y = Symbol::Make(GetOp("BatchNorm"), "bn", {}, {{kX}});
  y = ReducePrecision(y, rules);
  EXPECT_EQ(NodeOf(y, "bn_gamma").attrs.at("__dtype__"), "0");
  EXPECT_EQ(CountOps(y, "amp_cast"), 2);  // the data, and the result
}

TEST(ReducePrecision, RefusesOtherTypes) {
  EXPECT_THROW(ReducePrecision(kX, RulesFor(DType::kFloat64)), Error);
}

TEST(IsCastable, LengthsAndStatesAreNot) {
  const OpDef& rnn = GetOp("RNN");
  const auto make = [&](const char* mode) {
    const NamedAttr attrs[] = {{"state_size", {int64_t{2}}},
                               {"num_layers", {int64_t{1}}},
                               {"mode", {std::string(mode)}},
                               {"use_sequence_length", {true}}};
    return MakeParams(rnn, attrs);
  };
  EXPECT_TRUE(IsCastable(rnn, *make("gru"), 2));
  EXPECT_FALSE(IsCastable(rnn, *make("gru"), 3));
  EXPECT_TRUE(IsCastable(rnn, *make("lstm"), 3));
  EXPECT_FALSE(IsCastable(rnn, *make("lstm"), 4));
  const OpDef& norm = GetOp("BatchNorm");
  EXPECT_TRUE(IsCastable(norm, *norm.defaults, 0));
  EXPECT_FALSE(IsCastable(norm, *norm.defaults, 3));
}

TEST(CastInputs, CastsWhileAGraphIsComposed) {
  Symbol y = Dense(kX, kW);
  CastInputs(y, RulesFor());
  EXPECT_EQ(CountOps(y, "amp_cast"), 2);
  Symbol z = CallOp("elemwise_add", {y, kX});
  CastInputs(z, RulesFor());
  EXPECT_EQ(CountOps(z, "amp_multicast"), 1);
}

// ---------------------------------------------------------------- the pass casts

Symbol Cast(const Symbol& x, const char* dtype, const char* op = "amp_cast") {
  return CallOp(op, {x}, {{"dtype", dtype}});
}

Graph Simplified(const Symbol& symbol) {
  return Prune(SimplifyCasts(Inferred(symbol)));
}

TEST(SimplifyCasts, DropsCastsToTheSameDtype) {
  const Graph graph =
      Simplified(CallOp("tanh", {Cast(Cast(kX, "float32"), "float32")}));
  EXPECT_EQ(testing::CountOps(graph), 1);
}

TEST(SimplifyCasts, LooksThroughCastsThatLoseNothing) {
  EXPECT_EQ(testing::CountOps(Simplified(Cast(Cast(kX, "float64"), "float32"))), 0);
  EXPECT_EQ(testing::CountOps(Simplified(Cast(Cast(kX, "float64"), "float16"))), 1);
  // Rounding is not undone.
  EXPECT_EQ(testing::CountOps(Simplified(Cast(Cast(kX, "float16"), "float32"))), 2);
  EXPECT_EQ(
      testing::CountOps(Simplified(Cast(Cast(kX, "int32", "Cast"), "float32", "Cast"))),
      2);
}

TEST(SimplifyCasts, SplitsMulticasts) {
  const Symbol both =
      Symbol::Make(GetOp("amp_multicast"), "both", {{"num_outputs", "2"}},
                   {{kX, Cast(Symbol::Variable("y"), "float16")}});
  const Symbol sum = CallOp("elemwise_add",
                            {Symbol({both.outputs()[0]}), Symbol({both.outputs()[1]})});
  const Graph graph = Simplified(sum);
  EXPECT_EQ(testing::CountOps(graph, "amp_multicast"), 0);
  EXPECT_EQ(testing::CountOps(graph, "amp_cast"), 2);
}

}  // namespace
}  // namespace plait::testing
