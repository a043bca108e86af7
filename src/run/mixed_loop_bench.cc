// Compares the paper's mixed loop, net.forward_backward() and w -= eta * g outside the
// graph, with a graph that updates the weights itself. Fails where the numbers differ.

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <vector>

#include "graph/math.h"
#include "graph/trace.h"
#include "passes/gradient.h"
#include "passes/infer.h"
#include "run/bind.h"
#include "run/invoke.h"

namespace plait {
namespace {

constexpr double kEta = 1e-3;

Symbol Node(const char* op, const std::string& name, const Symbol& x,
            const SymbolAttrs& attrs) {
  return Symbol::Make(GetOp(op), name, attrs, {&x, 1});
}

Symbol Perceptron(const std::vector<int64_t>& widths) {
  Symbol x = Symbol::Variable("data");
  for (size_t i = 0; i < widths.size(); ++i) {
    const std::string n = std::to_string(i);
    x = Node("FullyConnected", "fc" + n, x,
             {{"num_hidden", std::to_string(widths[i])}});
    if (i + 1 < widths.size())
      x = Node("Activation", "relu" + n, x, {{"act_type", "relu"}});
  }
  return Node("SoftmaxOutput", "softmax", x, {{"normalization", "batch"}});
}

// The same first values for both sides.
std::vector<NDArray> ArraysFor(const Executor& executor) {
  std::vector<NDArray> arrays;
  for (const NDArray& x : executor.inputs()) {
    std::vector<float> values(static_cast<size_t>(x.size()));
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = static_cast<float>(std::sin(static_cast<double>(i)) * 0.05);
    x.CopyFromHost(values.data());
    arrays.push_back(NDArray::FromHost(values.data(), x.shape(), x.dtype()));
  }
  return arrays;
}

// The whole step as one graph, whose last outputs are the weights themselves.
class WholeStep {
 public:
  WholeStep(const Executor& like, std::vector<NDArray> arrays)
      : arrays_(std::move(arrays)) {
    Graph graph = GraphOf(like.symbol());
    Specs specs;
    GradientRequest request;
    for (size_t i = 0; i < arrays_.size(); ++i) {
      specs.push_back({arrays_[i].shape(), arrays_[i].dtype()});
      request.wanted.push_back(static_cast<bool>(like.grads()[i]));
    }
    SetInputSpecs(graph, like.symbol(), specs);
    Infer(graph);
    const std::vector<int> inputs = graph.inputs;
    const GradientResult result = AddGradients(graph, request);
    CompileOptions options;
    options.training = true;
    options.input_of_output.assign(graph.outputs.size(), -1);
    Tracer tracer(&graph);
    tracer.backward = true;
    outputs_ = like.outputs();
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (!request.wanted[i]) continue;
      const Value w(tracer.Placeholder({inputs[i], 0}));
      const Value g(tracer.Placeholder(result.gradients[i]));
      graph.outputs.push_back(tracer.EntryOf((w - g * kEta).array()));
      options.input_of_output.push_back(static_cast<int>(i));
      outputs_.push_back(arrays_[i]);
    }
    compiled_ = CompiledGraph::Compile(std::move(graph), options);
  }

  void Run() {
    GraphCall call(compiled_);
    std::copy(arrays_.begin(), arrays_.end(), call.inputs.begin());
    std::copy(outputs_.begin(), outputs_.end(), call.outputs.begin());
    call.Run(GraphCall::kForward);
    call.Run(GraphCall::kBackward);
  }
  const std::vector<NDArray>& arrays() const { return arrays_; }

 private:
  std::vector<NDArray> arrays_, outputs_;
  Ref<const CompiledGraph> compiled_;
};

// An executor like another one whose parameters are pieces of one array, and whose
// gradients are: the paper's net.w and net.g.
struct Flat {
  explicit Flat(const Executor& like) {
    int64_t size = 0;
    for (const NDArray& g : like.grads()) size += g ? g.size() : 0;
    w = zeros({{size}, DType::kFloat32}).array();
    g = zeros({{size}, DType::kFloat32}).array();
    std::vector<NDArray> inputs = like.inputs(), grads = like.grads();
    std::vector<GradReq> reqs(inputs.size(), GradReq::kNull);
    int64_t at = 0;
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (!grads[i]) continue;
      const int64_t end = at + inputs[i].size();
      const NDArray piece = w.Slice(at, end).Reshape(inputs[i].shape());
      CopyInto(inputs[i], piece);
      inputs[i] = piece;
      grads[i] = g.Slice(at, end).Reshape(grads[i].shape());
      reqs[i] = GradReq::kWrite;
      at = end;
    }
    executor = std::make_unique<Executor>(like.symbol(), std::move(inputs),
                                          std::move(grads), std::move(reqs));
  }

  void Step() {
    executor->Forward(true);
    executor->Backward({});
    static const OpDef& sub = GetOp("broadcast_sub");
    const NDArray in[] = {w, (Value(g) * kEta).array()};
    Invoke(sub, sub.defaults, in, {&w, 1});
  }

  NDArray w, g;
  std::unique_ptr<Executor> executor;
};

void MixedStep(Executor& executor) {
  executor.Forward(true);
  executor.Backward({});
  const OpDef& sub = GetOp("broadcast_sub");
  for (size_t i = 0; i < executor.grads().size(); ++i) {
    if (!executor.grads()[i]) continue;
    const NDArray& w = executor.inputs()[i];
    const NDArray in[] = {w, (Value(executor.grads()[i]) * kEta).array()};
    Invoke(sub, sub.defaults, in, {&w, 1});
  }
}

template <typename F>
double MicrosecondsPerStep(int steps, F&& step) {
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < steps; ++i) step();
  WaitAll();
  const std::chrono::duration<double, std::micro> time =
      std::chrono::steady_clock::now() - start;
  return time.count() / steps;
}

double LargestDifference(const NDArray& x, const NDArray& y) {
  std::vector<float> a(static_cast<size_t>(x.size())), b(a.size());
  x.CopyToHost(a.data());
  y.CopyToHost(b.data());
  double largest = 0;
  for (size_t i = 0; i < a.size(); ++i)
    largest = std::max(largest, std::abs(static_cast<double>(a[i]) - b[i]));
  return largest;
}

bool Compare(int64_t batch, const std::vector<int64_t>& widths, int steps) {
  const auto executor = Bind(Perceptron(widths), {.shapes = {{"data", {batch, 784}}},
                                                  .gradients = Gradients::kParameters});
  WholeStep whole(*executor, ArraysFor(*executor));
  Flat flat(*executor);
  const auto inside_step = [&] { whole.Run(); };
  const auto each_step = [&] { MixedStep(*executor); };
  const auto flat_step = [&] { flat.Step(); };
  double inside = 1e30, each = 1e30, one = 1e30;
  for (int round = 0; round < 31; ++round) {
    inside = std::min(inside, MicrosecondsPerStep(steps, inside_step));
    each = std::min(each, MicrosecondsPerStep(steps, each_step));
    one = std::min(one, MicrosecondsPerStep(steps, flat_step));
  }
  double difference = 0;
  for (size_t i = 0; i < whole.arrays().size(); ++i) {
    const NDArray& w = whole.arrays()[i];
    difference = std::max({difference, LargestDifference(w, executor->inputs()[i]),
                           LargestDifference(w, flat.executor->inputs()[i])});
  }
  std::printf(
      "batch %4lld: inside the graph %8.1f us; w -= eta * g %8.1f us (%.3f); "
      "for each array %8.1f us (%.3f); difference %.1e\n",
      static_cast<long long>(batch), inside, one, one / inside, each, each / inside,
      difference);
  return difference < 1e-5;
}

}  // namespace
}  // namespace plait

int main() {
  plait::AttachToEngine();
  bool same = plait::Compare(1, {128, 64, 10}, 1000);
  same &= plait::Compare(32, {128, 64, 10}, 500);
  same &= plait::Compare(128, {512, 512, 10}, 20);
  if (!same) std::puts("the numbers differ");
  return same ? 0 : 1;
}
