// Tests of the pass order: less memory, and what must keep its place.

#include "passes/order.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "passes/testing.h"

namespace plait::testing {
namespace {

int PlaceOf(const Graph& graph, const std::string& name) {
  for (size_t id = 0; id < graph.size(); ++id)
    if (graph.nodes[id].name == name) return static_cast<int>(id);
  return -1;
}

void ExpectSameNodes(const Graph& graph, const Graph& other) {
  ASSERT_EQ(graph.size(), other.size());
  std::vector<std::string> a, b;
  bool backward = false;
  for (size_t id = 0; id < graph.size(); ++id) {
    a.push_back(graph.nodes[id].name);
    b.push_back(other.nodes[id].name);
    EXPECT_FALSE(backward && !other.nodes[id].backward);
    backward |= other.nodes[id].backward;
    for (GraphEntry e : other.nodes[id].inputs) EXPECT_LT(e.node, static_cast<int>(id));
  }
  std::sort(a.begin(), a.end());
  std::sort(b.begin(), b.end());
  EXPECT_EQ(a, b);
  for (size_t i = 0; i < graph.inputs.size(); ++i)
    EXPECT_EQ(graph.nodes[graph.inputs[i]].name, other.nodes[other.inputs[i]].name);
  for (size_t k = 0; k < graph.outputs.size(); ++k) {
    EXPECT_EQ(graph.nodes[graph.outputs[k].node].name,
              other.nodes[other.outputs[k].node].name);
    EXPECT_EQ(graph.outputs[k].index, other.outputs[k].index);
  }
}

// Several branches that grow and shrink again, written breadth first.
Symbol Branches(int count) {
  std::vector<Symbol> wide, narrow;
  for (int i = 0; i < count; ++i)
    wide.push_back(CallOp("tile", {Symbol::Variable("x")}, {{"reps", "(100, 1)"}}));
  for (const Symbol& x : wide)
    narrow.push_back(CallOp("max", {x}, {{"axis", "0"}, {"keepdims", "True"}}));
  return CallOp("add_n", narrow);
}

// GraphOf visits depth first; this is the order of the levels.
Graph ByLevels(const Graph& graph) {
  std::vector<int> level(graph.size(), 0), order(graph.size()), moved(graph.size());
  for (size_t id = 0; id < graph.size(); ++id) {
    order[id] = static_cast<int>(id);
    for (GraphEntry e : graph.nodes[id].inputs)
      level[id] = std::max(level[id], level[e.node] + 1);
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](int a, int b) { return level[a] < level[b]; });
  Graph out;
  for (int id : order) {
    GraphNode node = graph.nodes[id];
    node.name += std::to_string(id);
    for (GraphEntry& e : node.inputs) e.node = moved[e.node];
    moved[id] = static_cast<int>(out.size());
    out.Add(std::move(node));
  }
  for (int id : graph.inputs) out.inputs.push_back(moved[id]);
  for (GraphEntry e : graph.outputs) out.outputs.push_back({moved[e.node], e.index});
  return out;
}

TEST(Order, RunsBranchesOneAfterTheOther) {
  const Graph graph = ByLevels(Inferred(Branches(8)));
  const std::optional<Graph> other = Reorder(graph);
  ASSERT_TRUE(other);
  ExpectSameNodes(graph, *other);
  EXPECT_LE(EstimatePeak(*other) * 4, EstimatePeak(graph));
}

TEST(Order, LeavesAChainAlone) {
  Symbol s = Symbol::Variable("x");
  for (int i = 0; i < 10; ++i) s = CallOp("tanh", {s});
  EXPECT_FALSE(Reorder(Inferred(s)));
}

TEST(Order, IsSoundForRandomGraphs) {
  int changed = 0;
  for (uint32_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    for (bool gradients : {false, true}) {
      for (bool fused : {false, true}) {
        const Graph graph = RandomInferred(seed, 30, gradients, fused);
        const std::optional<Graph> other = Reorder(graph);
        if (!other) continue;
        ++changed;
        ExpectSameNodes(graph, *other);
        EXPECT_LT(EstimatePeak(*other), EstimatePeak(graph));
        if (HasFailure()) return;
      }
    }
  }
  EXPECT_GT(changed, 10);
}

TEST(Order, KeepsTheOrderOfRandomNumbers) {
  // Branches that draw; the greedy order would like to turn some round.
  std::vector<Symbol> draws, results;
  for (int i = 0; i < 6; ++i)
    draws.push_back(Symbol::Make(GetOp("_random_uniform"), "draw" + std::to_string(i),
                                 {{"shape", "(400, 4)"}}, {}));
  for (const Symbol& x : draws)
    results.push_back(CallOp("max", {x}, {{"axis", "0"}, {"keepdims", "True"}}));
  std::reverse(results.begin(), results.end());
  Graph graph = GraphOf(Symbol::Group(results));
  Infer(graph);
  graph = ByLevels(graph);
  const std::optional<Graph> other = Reorder(graph);
  ASSERT_TRUE(other);
  const auto draws_of = [](const Graph& g) {
    std::vector<std::string> names;
    for (const GraphNode& node : g.nodes)
      if (!node.is_input() && node.op->random) names.push_back(node.name);
    return names;
  };
  EXPECT_EQ(draws_of(graph), draws_of(*other));
}

TEST(Order, KeepsReadsAndWritesOfOneArrayInOrder) {
  // A wide branch that reads w stands before a node that writes it, and another behind.
  const Symbol x = Symbol::Variable("x"), w = Symbol::Variable("w");
  const auto branch = [&](const char* name) {
    const Symbol wide = CallOp("tile", {w}, {{"reps", "(100, 1)"}});
    const SymbolAttrs attrs{{"axis", "0"}, {"keepdims", "True"}};
    return Symbol::Make(GetOp("max"), name, attrs, std::vector<Symbol>{wide});
  };
  const Symbol before = branch("before"), after = branch("after");
  const Symbol write = Symbol::Make(
      GetOp("BatchNorm"), "write", {},
      std::vector<Symbol>{x, Symbol::Variable("gamma"), Symbol::Variable("beta"), w,
                          Symbol::Variable("var")});
  Graph graph = GraphOf(Symbol::Group(std::vector<Symbol>{before, write, after}));
  for (int id : graph.inputs) graph.nodes[id].outputs[0] = {{4, 4}, DType::kFloat32};
  for (int id : graph.inputs) {
    if (graph.nodes[id].name != "x") graph.nodes[id].outputs[0].shape = {4};
  }
  Infer(graph);
  const std::optional<Graph> other = Reorder(graph);
  const Graph& result = other ? *other : graph;
  std::vector<int> readers;
  for (size_t id = 0; id < result.size(); ++id)
    if (!result.nodes[id].is_input() && result.nodes[id].op->name == "tile")
      readers.push_back(static_cast<int>(id));
  ASSERT_EQ(readers.size(), 2u);
  EXPECT_LT(readers[0], PlaceOf(result, "write"));
  EXPECT_GT(readers[1], PlaceOf(result, "write"));
}

}  // namespace
}  // namespace plait::testing
