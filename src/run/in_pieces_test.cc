// Tests of the pass pieces and its operator: the same values, in less memory.

#include "run/in_pieces.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "cpu/blocked.h"
#include "passes/gradient.h"
#include "passes/testing.h"
#include "run/testing.h"

namespace plait::testing {
namespace {

using Numbers = std::vector<double>;

Symbol Conv(const Symbol& x, const std::string& name, int filters) {
  return Symbol::Make(GetOp("Convolution"), name,
                      {{"kernel", "(3, 3)"},
                       {"pad", "(1, 1)"},
                       {"num_filter", std::to_string(filters)}},
                      std::vector<Symbol>{x, Symbol::Variable(name + "_weight"),
                                          Symbol::Variable(name + "_bias")});
}
Symbol Relu(const Symbol& x) {
  return CallOp("Activation", {x}, {{"act_type", "relu"}});
}
Symbol Pool(const Symbol& x, const char* type = "max") {
  return CallOp("Pooling", {x},
                {{"kernel", "(2, 2)"}, {"stride", "(2, 2)"}, {"pool_type", type}});
}
Symbol Norm(const Symbol& x, const std::string& name) {
  return Symbol::Make(GetOp("BatchNorm"), name, {},
                      std::vector<Symbol>{x, Symbol::Variable(name + "_gamma"),
                                          Symbol::Variable(name + "_beta"),
                                          Symbol::Variable(name + "_moving_mean"),
                                          Symbol::Variable(name + "_moving_var")});
}

// Two convolutions and a pooling, twice.
Symbol Network(const char* pool = "max") {
  Symbol x = Symbol::Variable("data");
  x = Relu(Conv(x, "a", 32));
  x = Pool(Relu(Conv(x, "b", 32)), pool);
  x = Relu(Conv(x, "c", 32));
  return Pool(Relu(Conv(x, "d", 32)), pool);
}

struct Built {
  Graph graph;
  std::vector<int> heads;
};

Built Build(const Symbol& symbol, int64_t batch) {
  Built built;
  Graph& graph = built.graph = GraphOf(symbol);
  graph.nodes[graph.inputs[0]].outputs[0] = {{batch, 3, 24, 24}, DType::kFloat32};
  for (int id : graph.inputs) graph.nodes[id].outputs[0].dtype = DType::kFloat32;
  Infer(graph);
  GradientRequest request;
  request.training = true;
  for (int id : graph.inputs)
    request.wanted.push_back(graph.nodes[id].name.find("moving") == std::string::npos &&
                             graph.nodes[id].name != "data");
  request.head_given.assign(graph.outputs.size(), true);
  const GradientResult found = AddGradients(graph, request);
  for (GraphEntry g : found.gradients)
    if (g.node >= 0) graph.outputs.push_back(g);
  built.heads = found.head_inputs;
  return built;
}

Ref<const CompiledGraph> Compiled(const Built& built, bool pieces) {
  CompileOptions options;
  options.training = true;
  options.worth_pieces = 4096;
  if (!pieces) options.disabled = {"pieces"};
  return CompiledGraph::Compile(built.graph, options);
}

// The outputs and gradients.
std::vector<Numbers> RunSteps(const Ref<const CompiledGraph>& graph) {
  GraphCall call(graph);
  std::mt19937 random(1);
  std::normal_distribution<double> normal;
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    const Shape& shape = graph->graph().spec({graph->graph().inputs[i], 0}).shape;
    Numbers values(static_cast<size_t>(shape.size()));
    for (double& v : values) v = normal(random);
    call.inputs[i] = Make(shape, values);
  }
  for (size_t k = 0; k < call.outputs.size(); ++k) {
    const Shape& shape = graph->graph().spec(graph->graph().outputs[k]).shape;
    call.outputs[k] = Make(shape, Numbers(static_cast<size_t>(shape.size()), 1e30));
  }
  call.Run(GraphCall::kForward);
  call.Run(GraphCall::kBackward);
  std::vector<Numbers> results;
  for (const NDArray& y : call.outputs) results.push_back(ValuesOf(y));
  return results;
}

void ExpectClose(const std::vector<Numbers>& got, const std::vector<Numbers>& wanted) {
  ASSERT_EQ(got.size(), wanted.size());
  for (size_t k = 0; k < got.size(); ++k) {
    ASSERT_EQ(got[k].size(), wanted[k].size());
    double largest = 0;
    for (double v : wanted[k]) largest = std::max(largest, std::abs(v));
    for (size_t i = 0; i < got[k].size(); ++i)
      ASSERT_NEAR(got[k][i], wanted[k][i], 1e-5 * largest) << k << ": " << i;
  }
}

TEST(Pieces, GiveTheSameGradientsInLessMemory) {
  if (cpu::ChannelBlock() == 0) GTEST_SKIP() << "there are no blocked kernels";
  const std::pair<const char*, int64_t> cases[] = {
      {"max", 8}, {"max", 10}, {"avg", 6}, {"avg", 2}};
  for (const auto& [pool, batch] : cases) {
    SCOPED_TRACE(::testing::Message() << pool << ", batch " << batch);
    const Built built = Build(Network(pool), batch);
    const auto with = Compiled(built, true), without = Compiled(built, false);
    EXPECT_GT(CountOps(with->graph(), "_in_pieces"), 0);
    EXPECT_EQ(CountOps(without->graph(), "_in_pieces"), 0);
    EXPECT_LT(with->plan().arena_bytes * 20, without->plan().arena_bytes * 19);
    ExpectClose(RunSteps(with), RunSteps(without));
  }
}

TEST(Pieces, ComputeTheFirstLayerAgainAndKeepLess) {
  if (cpu::ChannelBlock() == 0) GTEST_SKIP() << "there are no blocked kernels";
  const auto with = Compiled(Build(Network(), 8), true);
  const Graph& graph = with->graph();
  for (const GraphNode& node : graph.nodes)
    for (GraphEntry e : node.inputs)
      EXPECT_FALSE(node.backward && graph.nodes[e.node].name == "a+Activation")
          << node.name;
}

TEST(Pieces, LeaveBatchesAloneThatHaveNoParts) {
  for (int64_t batch : {1, 11}) {
    const auto graph = Compiled(Build(Network(), batch), true);
    EXPECT_EQ(CountOps(graph->graph(), "_in_pieces"), 0) << batch;
  }
}

TEST(Pieces, LeaveBatchNormAloneThatTiesSamplesTogether) {
  const Symbol data = Symbol::Variable("data");
  const Symbol x = Relu(Norm(Conv(data, "a", 32), "m"));
  const Built built = Build(Relu(Norm(Conv(x, "b", 32), "n")), 8);
  const auto with = Compiled(built, true), without = Compiled(built, false);
  EXPECT_EQ(CountOps(with->graph(), "BatchNorm"),
            CountOps(without->graph(), "BatchNorm"));
  ExpectClose(RunSteps(with), RunSteps(without));
}

TEST(Pieces, LeaveSmallGainsAndPredictionsAlone) {
  const Built built = Build(Network(), 8);
  CompileOptions options;
  options.training = true;
  EXPECT_EQ(
      CountOps(CompiledGraph::Compile(built.graph, options)->graph(), "_in_pieces"), 0);
  Graph forward = GraphOf(Network());
  forward.nodes[forward.inputs[0]].outputs[0] = {{8, 3, 24, 24}, DType::kFloat32};
  for (int id : forward.inputs) forward.nodes[id].outputs[0].dtype = DType::kFloat32;
  Infer(forward);
  options.worth_pieces = 4096;
  EXPECT_EQ(CountOps(CompiledGraph::Compile(forward, options)->graph(), "_in_pieces"),
            0);
}

TEST(Pieces, AreMadeByThePassAlone) {
  EXPECT_THROW(MakeParams(GetOp("_in_pieces"), {}, {}), Error);
}

}  // namespace
}  // namespace plait::testing
