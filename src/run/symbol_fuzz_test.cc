// Damaged graph files: an error or a graph, never a crash, also when they are bound.

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <random>

#include "memory/storage.h"
#include "passes/random_graph.h"
#include "run/executor.h"
#include "run/testing.h"

namespace plait::testing {
namespace {

using Json = nlohmann::ordered_json;
using Random = std::mt19937;

// A graph with layers, states, a loop and a branch.
std::string Original() {
  const auto make = [](const char* op, const char* name, std::vector<Symbol> in,
                       SymbolAttrs attrs, std::vector<Symbol> bodies = {}) {
    return Symbol::Make(GetOp(op), name, attrs, in, {}, std::move(bodies));
  };
  const Symbol x = Symbol::Variable("x", {{"__shape__", "(2, 3, 8, 8)"}});
  Symbol s = make("Convolution", "conv", {x},
                  {{"kernel", "(3, 3)"}, {"num_filter", "4"}, {"pad", "(1, 1)"}});
  s = Symbol({make("BatchNorm", "bn", {s}, {}).outputs()[0]});
  s = make("Pooling", "pool", {s}, {{"kernel", "(2, 2)"}, {"stride", "(2, 2)"}});
  s = make("FullyConnected", "fc", {s}, {{"num_hidden", "6"}});
  s = make("SliceChannel", "cut", {s}, {{"num_outputs", "2"}});
  const Symbol a({s.outputs()[0]}), b({s.outputs()[1]});
  const Symbol item = Symbol::Variable("item"), state = Symbol::Variable("state");
  const Symbol sum = make("elemwise_add", "sum", {item, state}, {});
  Symbol loop = make("_foreach", "loop", {a, make("sum", "all", {b}, {{"axis", "0"}})},
                     {{"num_outputs", "2"},
                      {"num_out_data", "1"},
                      {"in_data_locs", "[0]"},
                      {"in_state_locs", "[1]"},
                      {"remain_locs", "[]"}},
                     {Symbol::Group(std::vector<Symbol>{sum, sum})});
  const Symbol small = make("_lesser_scalar", "small",
                            {make("sum", "total", {state}, {})}, {{"scalar", "1"}});
  Symbol branch =
      make("_cond", "branch", {Symbol({loop.outputs()[1]})},
           {{"num_outputs", "1"},
            {"cond_input_locs", "[0]"},
            {"then_input_locs", "[0]"},
            {"else_input_locs", "[0]"}},
           {small, make("tanh", "t", {state}, {}), make("negative", "n", {state}, {})});
  return Symbol::Group(std::vector<Symbol>{Symbol({loop.outputs()[0]}), branch})
      .ToJson();
}

int Number(Random& random, size_t n) {
  return static_cast<int>(random() % std::max<size_t>(n, 1));
}

void ChangeBytes(std::string& text, Random& random) {
  static const std::string kUsual = "0123456789-[]{}\",: truefalsnull.e(";
  for (int n = 1 + Number(random, 4); n > 0 && !text.empty(); --n) {
    const auto at = static_cast<size_t>(Number(random, text.size()));
    switch (Number(random, 4)) {
      case 0:
        text[at] = static_cast<char>(random());
        break;
      case 1:
        text[at] = kUsual[static_cast<size_t>(Number(random, kUsual.size()))];
        break;
      case 2:
        text.erase(at, static_cast<size_t>(1 + Number(random, 8)));
        break;
      default:
        text.insert(at, text.substr(static_cast<size_t>(Number(random, text.size())),
                                    static_cast<size_t>(Number(random, 40))));
    }
  }
}

// All values inside, to pick one of.
void Collect(Json& json, std::vector<Json*>& all) {
  all.push_back(&json);
  if (json.is_structured())
    for (Json& inner : json) Collect(inner, all);
}

void ChangeStructure(Json& json, Random& random) {
  for (int n = 1 + Number(random, 3); n > 0; --n) {
    std::vector<Json*> all;
    Collect(json, all);
    Json& at = *all[static_cast<size_t>(Number(random, all.size()))];
    const Json other = *all[static_cast<size_t>(Number(random, all.size()))];
    static const std::vector<Json> kOdd = {nullptr,
                                           -1,
                                           0,
                                           1,
                                           2,
                                           7,
                                           1000000000,
                                           9223372036854775807,
                                           1e300,
                                           "",
                                           "[]",
                                           "(0, 0)",
                                           "(-1,)",
                                           "None",
                                           "1e9",
                                           "[0, 0]",
                                           "tanh",
                                           true,
                                           Json::array(),
                                           Json::object()};
    switch (Number(random, 3)) {
      case 0:
        at = kOdd[static_cast<size_t>(Number(random, kOdd.size()))];
        break;
      case 1:
        if (other.dump().size() < 4000) at = other;
        break;
      default:
        if (at.is_array() && !at.empty())
          at.erase(static_cast<size_t>(Number(random, at.size())));
        else if (at.is_string())
          at = kOdd[static_cast<size_t>(Number(random, kOdd.size()))];
    }
  }
}

// Reads the text, looks at all of it, and binds it to arrays if shapes follow.
bool Use(const std::string& text) {
  try {
    const Symbol symbol = Symbol::FromJson(text);
    symbol.ListArguments();
    symbol.ListOutputs();
    symbol.Internals();
    EXPECT_EQ(Symbol::FromJson(symbol.ToJson()).ToJson(), symbol.ToJson());
    if (symbol.size() == 0) return true;
    std::vector<NDArray> inputs, grads;
    std::vector<GradReq> reqs;
    for (const std::string& name : symbol.ListInputs()) {
      Shape shape{4};
      if (name == "x") shape = {2, 3, 8, 8};
      if (name == "conv_weight") shape = {4, 3, 3, 3};
      if (name == "fc_weight") shape = {6, 64};
      if (name == "fc_bias") shape = {6};
      inputs.push_back(Make(shape, std::vector<double>(shape.size(), 0.5)));
      grads.push_back(Make(shape, std::vector<double>(shape.size(), 0)));
      reqs.push_back(GradReq::kWrite);
    }
    Executor executor(symbol, inputs, grads, reqs);
    executor.Forward(true);
    executor.Backward({});
    for (const NDArray& y : executor.outputs()) y.WaitToRead();
    for (const NDArray& g : grads) g.WaitToRead();
    return true;
  } catch (const Error&) {
    return false;
  }
}

class DamagedGraphs : public ::testing::TestWithParam<int> {
 protected:
  void SetUp() override { memory::SetLimit(Device{}, size_t{1} << 28); }
  void TearDown() override { memory::SetLimit(Device{}, 0); }
};

TEST_P(DamagedGraphs, AreErrorsOrGraphs) {
  const std::string original = Original();
  ASSERT_TRUE(Use(original));
  Random random(static_cast<uint32_t>(GetParam()));
  for (int i = 0; i < 150; ++i) {
    std::string text = original;
    if (i % 2 == 0) {
      ChangeBytes(text, random);
    } else {
      Json json = Json::parse(original);
      ChangeStructure(json, random);
      text = json.dump();
    }
    SCOPED_TRACE(text);
    Use(text);
    if (HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, DamagedGraphs, ::testing::Range(0, 8));

}  // namespace
}  // namespace plait::testing
