// Tests of the pass fuse: groups that would wait for each other are not made.

#include "passes/fuse.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

#include "passes/testing.h"

namespace plait::testing {
namespace {

void ExpectOrdered(const Graph& graph) {
  for (size_t id = 0; id < graph.size(); ++id) {
    for (GraphEntry e : graph.nodes[id].inputs) ASSERT_LT(e.node, static_cast<int>(id));
  }
}

// A graph of values of shape (4, 4), written node by node.
class Writer {
 public:
  int Input(const std::string& name) {
    GraphNode node;
    node.name = name;
    node.outputs = {{{4, 4}, DType::kFloat32}};
    const int id = Add(std::move(node));
    graph.inputs.push_back(id);
    return id;
  }

  int Op(const char* op, const std::vector<int>& inputs) {
    GraphNode node;
    node.op = &GetOp(op);
    node.params = node.op->defaults;
    node.name = op + std::to_string(graph.size());
    for (int id : inputs) node.inputs.push_back({id, 0});
    node.outputs = {{{4, 4}, DType::kFloat32}};
    return Add(std::move(node));
  }

  Graph graph;

 private:
  int Add(GraphNode node) {
    graph.Add(std::move(node));
    return static_cast<int>(graph.size()) - 1;
  }
};

// {early, late} waits for {f}; a node that stands before f waits for {early, late}.
TEST(Fuse, SeesAPathThroughANodeThatStandsBeforeTheGroup) {
  Writer w;
  const int x = w.Input("x"), y = w.Input("y");
  const int early = w.Op("relu", {x});
  const int before = w.Op("dot", {early, y});
  const int f = w.Op("tanh", {y});
  const int late = w.Op("elemwise_add", {early, w.Op("dot", {f, x})});
  const int last = w.Op("elemwise_add", {f, before});
  w.graph.outputs = {{late, 0}, {last, 0}};
  const Graph fused = Fuse(w.graph, true);
  ExpectOrdered(fused);
  EXPECT_EQ(CountOps(fused, "dot"), 2);
}

TEST(Fuse, OrdersRandomGraphsOfPointwiseNodesAndProducts) {
  for (uint32_t seed = 0; seed < 400; ++seed) {
    std::mt19937 random(seed);
    Writer w;
    w.Input("x");
    w.Input("y");
    const int nodes = 20 + static_cast<int>(random() % 60);
    for (int i = 0; i < nodes; ++i) {
      const int count = static_cast<int>(w.graph.size());
      // Mostly what was made last, sometimes anything.
      const auto pick = [&] {
        const int reach = random() % 3 == 0 ? count : std::min(count, 6);
        return count - 1 - static_cast<int>(random() % reach);
      };
      switch (random() % 6) {
        case 0:
          w.Op("dot", {pick(), pick()});
          break;
        case 1:
          w.Op("relu", {pick()});
          break;
        case 2:
          w.Op("negative", {pick()});
          break;
        default:
          w.Op("elemwise_add", {pick(), pick()});
      }
    }
    for (size_t id = w.graph.size() - 4; id < w.graph.size(); ++id)
      w.graph.outputs.push_back({static_cast<int>(id), 0});
    const Graph pruned = Prune(w.graph);
    const Graph fused = Fuse(pruned, true);
    ExpectOrdered(fused);
    EXPECT_EQ(CountOps(fused, "dot"), CountOps(pruned, "dot")) << seed;
  }
}

}  // namespace
}  // namespace plait::testing
