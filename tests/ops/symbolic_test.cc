// Every sample of every operator as a graph: the same results as the call gives.

#include <gtest/gtest.h>

#include "run/graph_function.h"
#include "tests/ops/case.h"

namespace plait::testing {
namespace {

// A symbol of one node of the operator.
Symbol SymbolOf(const Case& c) {
  Ref<SymbolNode> node = MakeRef<SymbolNode>();
  node->op = c.op;
  node->name = "node";
  node->params = c.params();
  for (size_t i = 0; i < c.sample().inputs.size(); ++i)
    node->inputs.push_back(Symbol::Variable("x" + std::to_string(i)).outputs()[0]);
  std::vector<SymbolEntry> outputs;
  for (int i = 0; i < node->CountVisible(); ++i) outputs.push_back({node, i});
  return Symbol(std::move(outputs));
}

struct Result {
  std::vector<Numbers> outputs, states, gradients;
};

// Outputs, what became of the inputs, and gradients of the sum of all outputs.
template <typename Run>
Result ResultOf(const Case& c, Run run) {
  Result result;
  std::vector<NDArray> inputs = InputsOf(c), grads;
  const bool differentiable = c.op->gradient != nullptr;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!differentiable || !IsFloat(inputs[i].dtype()) || c.mutates(i)) continue;
    grads.push_back(NDArray::Empty(inputs[i].shape(), inputs[i].dtype()));
    AttachGrad(inputs[i], grads.back(), GradReq::kWrite);
  }
  SeedRandom(7);
  const bool training = Training();
  Training() = c.sample().training;
  Recording() = !grads.empty();
  Arrays outputs = run(inputs);
  Recording() = false;
  Training() = training;
  std::vector<NDArray> heads;
  for (int i = 0; i < c.op->CountVisible(*c.params()); ++i) {
    result.outputs.push_back(Read(outputs[i]));
    if (IsFloat(outputs[i].dtype())) heads.push_back(outputs[i]);
  }
  for (const NDArray& x : inputs) result.states.push_back(Read(x));
  if (!grads.empty() && !heads.empty()) {
    Backward(heads, {}, false, c.sample().training);
    for (const NDArray& g : grads) result.gradients.push_back(Read(g));
  }
  return result;
}

void Compare(const std::vector<Numbers>& got, const std::vector<Numbers>& expected,
             double tolerance, const char* what) {
  ASSERT_EQ(got.size(), expected.size()) << what;
  for (size_t i = 0; i < got.size(); ++i)
    EXPECT_EQ(Difference(got[i], expected[i], tolerance), "") << what << ' ' << i;
}

class Symbolic : public ::testing::TestWithParam<const OpDef*> {};

TEST_P(Symbolic, GivesWhatTheCallGives) {
  for (size_t s = 0; s < GetParam()->samples.size(); ++s) {
    const Case c{GetParam(), static_cast<int>(s)};
    SCOPED_TRACE(::testing::Message() << c);
    if (c.op->CountVisible(*c.params()) == 0) continue;  // it only writes its inputs
    const Result expected = ResultOf(
        c, [&](std::span<const NDArray> in) { return Invoke(*c.op, c.params(), in); });
    const Ref<GraphFunction> graph = MakeRef<GraphFunction>(SymbolOf(c), "graph");
    const Result got =
        ResultOf(c, [&](std::span<const NDArray> in) { return graph->Call(in); });
    Compare(got.outputs, expected.outputs, 0, "output");
    Compare(got.states, expected.states, 0, "input");
    Compare(got.gradients, expected.gradients, 1e-6, "gradient");
  }
}

std::vector<const OpDef*> Callable() {
  std::vector<const OpDef*> ops;
  for (const OpDef* op : AllOps()) {
    if (!op->host) ops.push_back(op);
  }
  return ops;
}

INSTANTIATE_TEST_SUITE_P(All, Symbolic, ::testing::ValuesIn(Callable()),
                         [](const auto& info) { return info.param->name; });

}  // namespace
}  // namespace plait::testing
