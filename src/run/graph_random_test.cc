// Random graphs: each pass off and on, each memory strategy, against single calls.

#include <gtest/gtest.h>

#include "graph/graph.h"
#include "passes/gradient.h"
#include "passes/infer.h"
#include "passes/random_graph.h"
#include "run/compiled_graph.h"
#include "run/tape.h"
#include "run/testing.h"

namespace plait::testing {
namespace {

using Numbers = std::vector<double>;

NDArray Random(std::mt19937& random) {
  Numbers numbers(16);
  std::normal_distribution<double> normal;
  for (double& x : numbers) x = normal(random);
  return Make({4, 4}, numbers);
}

struct Case {
  Graph graph;
  std::vector<NDArray> inputs, heads;
};

Case CaseOf(uint32_t seed) {
  std::mt19937 random(seed);
  Case c;
  c.graph = GraphOf(RandomGraph(seed).Make(4 + static_cast<int>(seed % 24)));
  for (int id : c.graph.inputs) {
    c.graph.nodes[id].outputs[0] = {{4, 4}, DType::kFloat32};
    c.inputs.push_back(Random(random));
  }
  Infer(c.graph);
  for (size_t k = 0; k < c.graph.outputs.size(); ++k) c.heads.push_back(Random(random));
  return c;
}

struct Result {
  std::vector<Numbers> outputs, gradients;
};

Result RunOneByOne(const Case& c) {
  std::vector<NDArray> inputs, grads;
  for (const NDArray& x : c.inputs) {
    inputs.push_back(x.Detach());
    grads.push_back(Make({4, 4}, Numbers(16, 0)));
    AttachGrad(inputs.back(), grads.back(), GradReq::kWrite);
  }
  Recording() = Training() = true;
  std::vector<Arrays> values(c.graph.size());
  for (size_t i = 0; i < inputs.size(); ++i)
    values[c.graph.inputs[i]].push_back(inputs[i]);
  for (size_t id = 0; id < c.graph.size(); ++id) {
    const GraphNode& node = c.graph.nodes[id];
    if (node.is_input()) continue;
    SmallVector<NDArray, 4> in;
    for (GraphEntry e : node.inputs) in.push_back(values[e.node][e.index]);
    values[id] = Invoke(*node.op, node.params, in);
  }
  std::vector<NDArray> outputs;
  for (GraphEntry e : c.graph.outputs) outputs.push_back(values[e.node][e.index]);
  Recording() = Training() = false;
  // Outputs may be inputs, or without a way to any: then there is nothing to do.
  std::vector<NDArray> tracked, heads;
  for (size_t k = 0; k < outputs.size(); ++k) {
    if (!IsTracked(outputs[k])) continue;
    tracked.push_back(outputs[k]);
    heads.push_back(c.heads[k]);
  }
  Backward(tracked, heads, false, true);
  Result result;
  for (const NDArray& y : outputs) result.outputs.push_back(ValuesOf(y));
  for (const NDArray& g : grads) result.gradients.push_back(ValuesOf(g));
  return result;
}

Result RunCompiled(const Case& c, const CompileOptions& given, bool gradients) {
  Graph graph = c.graph;
  CompileOptions options = given;
  options.training = gradients;
  std::vector<int> heads, gradient_of;
  if (gradients) {
    GradientRequest request;
    request.wanted.assign(graph.inputs.size(), true);
    request.head_given.assign(graph.outputs.size(), true);
    const GradientResult found = AddGradients(graph, request);
    for (int head : found.head_inputs)
      heads.push_back(
          static_cast<int>(std::find(graph.inputs.begin(), graph.inputs.end(), head) -
                           graph.inputs.begin()));
    for (size_t i = 0; i < found.gradients.size(); ++i) {
      if (found.gradients[i].node < 0) continue;
      graph.outputs.push_back(found.gradients[i]);
      gradient_of.push_back(static_cast<int>(i));
    }
  }
  GraphCall call(CompiledGraph::Compile(graph, options));
  std::copy(c.inputs.begin(), c.inputs.end(), call.inputs.begin());
  for (size_t k = 0; k < heads.size(); ++k) call.inputs[heads[k]] = c.heads[k];
  // Garbage shows what is not written, or read too early.
  for (NDArray& y : call.outputs) y = Make({4, 4}, Numbers(16, 1e30));
  call.Run(GraphCall::kForward);
  if (!gradients) call.Run(GraphCall::kForward);  // with kept values
  Result result;
  for (size_t k = 0; k < c.graph.outputs.size(); ++k)
    result.outputs.push_back(ValuesOf(call.outputs[k]));
  if (!gradients) return result;
  call.Run(GraphCall::kBackward);
  result.gradients.assign(c.inputs.size(), Numbers(16, 0));
  for (size_t k = 0; k < gradient_of.size(); ++k)
    result.gradients[gradient_of[k]] =
        ValuesOf(call.outputs[c.graph.outputs.size() + k]);
  for (size_t k = 0; k < c.graph.outputs.size(); ++k)  // backward left them alone
    EXPECT_EQ(ValuesOf(call.outputs[k]), result.outputs[k]);
  return result;
}

void Compare(const std::vector<Numbers>& got, const std::vector<Numbers>& expected) {
  ASSERT_EQ(got.size(), expected.size());
  for (size_t k = 0; k < got.size(); ++k) {
    for (size_t i = 0; i < got[k].size(); ++i) {
      const double scale = 1 + std::abs(expected[k][i]);
      ASSERT_NEAR(got[k][i], expected[k][i], 2e-4 * scale) << "array " << k;
    }
  }
}

class RandomGraphs : public ::testing::TestWithParam<int> {};

TEST_P(RandomGraphs, GiveTheSameWithEachPassAndEachStrategy) {
  for (uint32_t seed = static_cast<uint32_t>(GetParam()) * 8, last = seed + 8;
       seed < last; ++seed) {
    SCOPED_TRACE(seed);
    const Case c = CaseOf(seed);
    const Result expected = RunOneByOne(c);
    const std::vector<std::vector<std::string>> offs = {
        {},           {"fuse"},
        {"identity"}, {"cse"},
        {"hoist"},    {"order"},
        {"fold_bn"},  {"fuse", "identity", "cse", "hoist", "fold_bn"}};
    for (const auto& off : offs) {
      for (PlanStrategy strategy : {PlanStrategy::kNone, PlanStrategy::kInplace,
                                    PlanStrategy::kCoShare, PlanStrategy::kBoth}) {
        if (!off.empty() && strategy != PlanStrategy::kBoth) continue;
        for (bool gradients : {false, true}) {
          SCOPED_TRACE(::testing::Message()
                       << "without " << (off.empty() ? "nothing" : off[0])
                       << ", strategy " << static_cast<int>(strategy)
                       << (gradients ? ", gradients" : ""));
          CompileOptions options;
          options.disabled = off;
          options.strategy = strategy;
          options.prologues = std::make_shared<PrologueSet>();
          const Result got = RunCompiled(c, options, gradients);
          Compare(got.outputs, expected.outputs);
          if (gradients) Compare(got.gradients, expected.gradients);
          if (HasFailure()) return;
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomGraphs, ::testing::Range(0, 12));

}  // namespace
}  // namespace plait::testing
