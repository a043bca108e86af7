// Executor: binding, and the two parts of a compiled graph.

#include "run/executor.h"

#include <algorithm>
#include <sstream>

#include "graph/math.h"
#include "graph/trace.h"
#include "passes/attention.h"
#include "passes/channels_first.h"
#include "passes/infer.h"
#include "run/invoke.h"
#include "run/kept_filters.h"
#include "run/monitor_names.h"

namespace plait {

Executor::Executor(const Symbol& symbol, std::vector<NDArray> inputs,
                   std::vector<NDArray> grads, std::vector<GradReq> reqs,
                   const std::vector<NDArray>& outputs)
    : symbol_(symbol),
      inferred_(GraphOf(symbol)),
      inputs_(std::move(inputs)),
      grads_(std::move(grads)),
      reqs_(std::move(reqs)) {
  const size_t n = inferred_.inputs.size();
  Check(inputs_.size() == n, "bind: got ", inputs_.size(), " arrays; ", n,
        " were expected");
  grads_.resize(n);
  reqs_.resize(n, GradReq::kNull);
  Specs given;
  for (size_t i = 0; i < n; ++i) {
    const std::string& name = inferred_.nodes[inferred_.inputs[i]].name;
    Check(static_cast<bool>(inputs_[i]), "bind: there is no array for ", name,
          "; one for every variable was expected");
    if (!grads_[i]) reqs_[i] = GradReq::kNull;
    Check(!grads_[i] || (grads_[i].shape() == inputs_[i].shape() &&
                         grads_[i].dtype() == inputs_[i].dtype()),
          "bind: the gradient of ", name, " is ", grads_[i], " and the array ",
          inputs_[i], "; both alike were expected");
    given.push_back({inputs_[i].shape(), inputs_[i].dtype()});
  }
  SetInputSpecs(inferred_, symbol_, given);
  Infer(inferred_);
  std::string missing;
  Check(FullyInferred(inferred_, &missing),
        "bind: shapes do not follow from the arrays ", missing);
  const Device device = inputs_.empty() ? CreationDevice() : inputs_[0].device();
  for (size_t k = 0; k < inferred_.outputs.size(); ++k) {
    const Spec& spec = inferred_.spec(inferred_.outputs[k]);
    const bool reuse = k < outputs.size() && outputs[k].dtype() == spec.dtype &&
                       outputs[k].size() >= spec.shape.size();
    outputs_.push_back(reuse ? outputs[k]
                                   .Reshape({outputs[k].size()})
                                   .Slice(0, spec.shape.size())
                                   .Reshape(spec.shape)
                             : NDArray::Empty(spec.shape, spec.dtype, device));
  }
}

size_t Executor::Find(std::string_view name) const {
  for (size_t i = 0; i < inputs_.size(); ++i) {
    if (NameOf(i) == name) return i;
  }
  std::string all;
  for (size_t i = 0; i < inputs_.size() && i < 20; ++i)
    all += (i == 0 ? "" : ", ") + NameOf(i);
  Fail(ErrorKind::kValue, "executor: there is no variable ", name, "; one of ", all,
       " was expected");
}

const NDArray& Executor::input(std::string_view name) const {
  return inputs_[Find(name)];
}

const NDArray& Executor::grad(std::string_view name) const {
  const NDArray& grad = grads_[Find(name)];
  Check(static_cast<bool>(grad), "executor: ", name,
        " has no gradient; one that was asked for when binding was expected");
  return grad;
}

bool Executor::WantsGradients() const {
  return std::any_of(reqs_.begin(), reqs_.end(),
                     [](GradReq r) { return r != GradReq::kNull; });
}

Executor::Compiled Executor::Compile(bool is_train, bool gradients) const {
  Compiled compiled;
  Graph graph = inferred_;
  CompileOptions options;
  GradientResult result;
  options.training = is_train;
  options.prologues = prologues_;
  std::vector<bool> wanted;
  for (GradReq req : reqs_) wanted.push_back(gradients && req != GradReq::kNull);
  // A monitor shows every node of the symbol.
  if (!monitor_) graph = PutChannelsFirst(FuseAttention(graph, wanted));
  if (gradients) {
    GradientRequest request;
    request.training = is_train;
    request.wanted = wanted;
    for (GraphEntry e : graph.outputs) {
      const GraphNode& node = graph.nodes[e.node];
      // Others do not matter, whatever their shape. Integers have no gradient but
      // where a cast made them.
      const bool flows =
          IsFloat(graph.spec(e).dtype) || (!node.is_input() && node.op->name == "Cast");
      request.head_given.push_back(flows &&
                                   (node.is_input() || !node.op->zero_gradient));
    }
    request.partials = monitor_ != nullptr;
    const std::vector<int> variables = graph.inputs;
    result = AddGradients(graph, request);
    const auto number = [&](int node) {
      const auto it = std::find(graph.inputs.begin(), graph.inputs.end(), node);
      return static_cast<int>(it - graph.inputs.begin());
    };
    for (int head : result.head_inputs)
      compiled.heads.push_back(head < 0 ? -1 : number(head));
    options.input_of_output.assign(graph.outputs.size(), -1);
    Tracer tracer(&graph);
    tracer.backward = true;
    for (size_t i = 0; i < variables.size(); ++i) {
      if (reqs_[i] == GradReq::kNull) continue;
      const Spec spec = graph.nodes[variables[i]].outputs[0];
      GraphEntry gradient = result.gradients[i];
      int old = -1;
      if (gradient.node < 0) {
        if (reqs_[i] == GradReq::kAdd) continue;
        gradient = tracer.EntryOf(zeros(spec).array());
      } else if (reqs_[i] == GradReq::kAdd) {
        const NDArray before = tracer.AddInput("old_gradient", spec);
        graph.nodes.back().backward = true;
        old = static_cast<int>(graph.inputs.size()) - 1;
        const Value sum = Value(before) + Value(tracer.Placeholder(gradient));
        gradient = tracer.EntryOf(sum.array());
      }
      graph.outputs.push_back(gradient);
      compiled.gradient_of.push_back(static_cast<int>(i));
      compiled.old_gradient.push_back(old);
      options.input_of_output.push_back(old);
    }
  }
  if (monitor_) Watch(graph, result, compiled, options);
  compiled.graph = CompiledGraph::Compile(std::move(graph), options);
  return compiled;
}

// Every value becomes an output; nothing is fused away.
void Executor::Watch(Graph& graph, const GradientResult& gradients, Compiled& compiled,
                     CompileOptions& options) const {
  options.disabled = {"fuse", "identity", "cse", "pieces"};
  const std::vector<SymbolNode*> nodes = symbol_.Nodes();
  const auto watch = [&](const std::string& name, GraphEntry e) {
    compiled.watched.push_back({name, static_cast<int>(graph.outputs.size())});
    graph.outputs.push_back(e);
  };
  for (int id = 0; id < static_cast<int>(nodes.size()); ++id) {
    const SymbolNode& node = *nodes[id];
    if (node.is_variable()) continue;
    std::vector<std::string> names;
    if (monitor_inputs_)
      names = MonitorNames(*node.op, *node.params, node.inputs.size());
    for (size_t i = 0; i < names.size(); ++i) {
      const GraphEntry e = graph.nodes[id].inputs[i];
      if (nodes[e.node]->is_variable()) watch(nodes[e.node]->name, e);
      watch(node.name + "_" + names[i], e);
    }
    for (int i = 0; i < node.CountVisible(); ++i)
      watch(OutputName({Ref<SymbolNode>(nodes[id]), i}), {id, i});
  }
  for (const GradientResult::Partial& partial : gradients.partials) {
    const bool several = nodes[partial.node]->inputs.size() > 1;
    compiled.watched_backward.push_back(
        {nodes[partial.node]->name + "_backward_output" +
             (several ? std::to_string(partial.input) : ""),
         static_cast<int>(graph.outputs.size())});
    graph.outputs.push_back(partial.gradient);
  }
  options.input_of_output.resize(graph.outputs.size(), -1);
}

Executor::Compiled& Executor::Get(bool is_train, bool gradients) {
  auto& place = compiled_[(is_train ? 1 : gradients ? 2 : 0) + (monitor_ ? 3 : 0)];
  if (!place) {
    gradients &= WantsGradients();
    place = std::make_unique<Compiled>(Compile(is_train, gradients));
  }
  return *place;
}

void Executor::Fill(GraphCall& call, const Compiled& compiled) const {
  std::copy(inputs_.begin(), inputs_.end(), call.inputs.begin());
  std::copy(outputs_.begin(), outputs_.end(), call.outputs.begin());
  for (size_t k = 0; k < compiled.gradient_of.size(); ++k) {
    const NDArray& grad = grads_[compiled.gradient_of[k]];
    call.outputs[outputs_.size() + k] = grad;
    if (compiled.old_gradient[k] >= 0) call.inputs[compiled.old_gradient[k]] = grad;
  }
  for (const auto* watched : {&compiled.watched, &compiled.watched_backward}) {
    for (const Compiled::Watched& w : *watched) {
      const Graph& graph = compiled.graph->graph();
      const Spec& spec = graph.spec(graph.outputs[w.output]);
      call.outputs[w.output] = NDArray::Empty(spec.shape, spec.dtype);
    }
  }
}

void Executor::Forward(bool is_train) {
  predicted_ = !is_train;
  Run(is_train, is_train);
  if (monitor_) Report(Get(is_train, is_train).watched, *call_);
  if (!is_train) call_ = nullptr;
}

void Executor::Run(bool is_train, bool gradients) {
  call_ = nullptr;
  for (size_t i = 0; gradients && i < inputs_.size(); ++i)
    if (reqs_[i] != GradReq::kNull) ForgetFilters(inputs_[i]);
  Compiled& compiled = Get(is_train, gradients);
  if (Ref<const CompiledGraph> better = compiled.graph->Replanned())
    compiled.graph = std::move(better);
  auto call = std::make_unique<GraphCall>(compiled.graph);
  Fill(*call, compiled);
  call->Run(GraphCall::kForward);
  call_ = std::move(call);
  call_trains_ = is_train;
}

bool Executor::Repeatable() const {
  return std::none_of(
      inferred_.nodes.begin(), inferred_.nodes.end(), [](const GraphNode& node) {
        return !node.is_input() &&
               (node.op->random || node.op->host || !node.op->mutates.empty());
      });
}

void Executor::Backward(const std::vector<NDArray>& head_gradients) {
  Check(call_ != nullptr || predicted_ || Repeatable(), ErrorKind::kRuntime,
        "backward: no forward has run since the last backward; one was expected, as "
        "what a forward(is_train=True) keeps is used up, and this graph draws random "
        "numbers or moves its states");
  if (!WantsGradients()) return;
  Check(head_gradients.size() <= outputs_.size(), "backward: got ",
        head_gradients.size(), " head gradients; at most ", outputs_.size(),
        " were expected");
  // The forward part's values are gone; they can be had again.
  if (call_ == nullptr) Run(!predicted_, true);
  const Compiled& compiled = Get(call_trains_, true);
  ones_.resize(outputs_.size());
  for (size_t k = 0; k < compiled.heads.size(); ++k) {
    if (compiled.heads[k] < 0) continue;
    NDArray head = k < head_gradients.size() ? head_gradients[k] : NDArray();
    const NDArray& out = outputs_[k];
    if (!head) {
      if (!ones_[k]) ones_[k] = full({out.shape(), out.dtype()}, 1).array();
      head = ones_[k];
    }
    Check(head.shape() == out.shape(), "backward: head gradient ", k, " has shape ",
          head.shape(), "; shape ", out.shape(), " of the output was expected");
    if (head.dtype() != out.dtype()) head = cast(Value(head), out.dtype()).array();
    call_->inputs[compiled.heads[k]] = head;
  }
  call_->Run(GraphCall::kBackward);
  if (monitor_) Report(compiled.watched_backward, *call_);
  call_ = nullptr;
}

void Executor::SetMonitor(Monitor monitor, bool inputs) {
  monitor_ = std::move(monitor);
  for (int i = 3; i < 6; ++i) compiled_[i].reset();
  monitor_inputs_ = inputs;
}

void Executor::Report(const std::vector<Compiled::Watched>& watched,
                      const GraphCall& call) const {
  for (const Compiled::Watched& w : watched) monitor_(w.name, call.outputs[w.output]);
}

PlanSizes Executor::SizesOfPlan(bool is_train) const {
  Specs specs;
  std::vector<bool> wanted;
  for (size_t i = 0; i < inputs_.size(); ++i) {
    specs.push_back({inputs_[i].shape(), inputs_[i].dtype()});
    wanted.push_back(reqs_[i] != GradReq::kNull);
  }
  return plait::SizesOfPlan(symbol_, specs, wanted, is_train);
}

std::string Executor::DebugText() {
  std::ostringstream text;
  const bool train = WantsGradients();
  const CompiledGraph& graph = *Get(train, train).graph;
  text << Dump(graph.graph());
  const double megabytes = static_cast<double>(graph.plan().arena_bytes) / (1 << 20);
  text << "Total " << static_cast<int64_t>(megabytes + 0.5) << " MB allocated\n";
  text << "Total " << outputs_.size() << " outputs\n";
  return text.str();
}

}  // namespace plait
