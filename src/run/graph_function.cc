// GraphFunction: variants, recorded calls, and calls one by one.

#include "run/graph_function.h"

#include <algorithm>
#include <utility>

#include "graph/trace.h"
#include "passes/infer.h"
#include "run/grad_node.h"
#include "run/kept_filters.h"
#include "run/random.h"
#include "run/tape.h"
#include "run/tape_symbol.h"

namespace plait {
namespace {

// Whether an input of a call lies in the same memory.
bool SharesMemory(const NDArray& x, const GraphCall& call) {
  x.body()->Materialize();
  for (const NDArray& in : call.inputs) {
    if (in && in.body()->chunk == x.body()->chunk) return true;
  }
  return false;
}

// The mode of this thread while it lives.
class ScopedTraining {
 public:
  explicit ScopedTraining(bool training)
      : before_(std::exchange(Training(), training)) {}
  ~ScopedTraining() { Training() = before_; }
  ScopedTraining(const ScopedTraining&) = delete;
  ScopedTraining& operator=(const ScopedTraining&) = delete;

 private:
  const bool before_;
};

bool Same(const Specs& specs, std::span<const NDArray> inputs) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (specs[i].dtype != inputs[i].dtype() || !(specs[i].shape == inputs[i].shape()))
      return false;
  }
  return true;
}

}  // namespace

GraphFunction::GraphFunction(const Symbol& symbol, std::string name)
    : graph_(GraphOf(symbol)), name_(std::move(name)) {}

GraphFunction::GraphFunction(Graph graph, std::string name)
    : graph_(std::move(graph)), name_(std::move(name)) {}

std::shared_ptr<const GraphFunction::Variant> GraphFunction::Get(
    std::span<const NDArray> inputs, bool training, const std::vector<bool>& wanted) {
  {
    const std::lock_guard lock(mutex_);
    for (auto& v : variants_) {
      if (v->training != training || v->wanted != wanted || !Same(v->specs, inputs))
        continue;
      if (Ref<const CompiledGraph> better = v->compiled->Replanned()) {
        auto copy = std::make_shared<Variant>(*v);
        copy->compiled = std::move(better);
        v = std::move(copy);
      }
      return v;
    }
  }
  // Two threads may both compile; one result is kept.
  Specs specs;
  for (const NDArray& x : inputs) specs.push_back({x.shape(), x.dtype()});
  std::shared_ptr<const Variant> variant =
      CompileVariant(graph_, std::move(specs), training, wanted, name_, prologues_);
  const std::lock_guard lock(mutex_);
  // Inputs of ever new shapes must not fill the memory with graphs.
  constexpr size_t kMostVariants = 64;
  if (variants_.size() == kMostVariants) variants_.erase(variants_.begin());
  variants_.push_back(variant);
  return variant;
}

Arrays GraphFunction::Call(std::span<const NDArray> inputs) {
  Check(static_cast<int>(inputs.size()) == num_inputs(), ErrorKind::kType, name_,
        ": got ", inputs.size(), " arrays; ", num_inputs(), " were expected");
  if (Tracer::Current() != nullptr) {  // part of a larger graph
    Arrays outputs;
    for (NDArray& y : Replay(inputs)) outputs.push_back(std::move(y));
    return outputs;
  }
  std::vector<bool> wanted;
  if (Recording()) {
    bool any = false;
    for (const NDArray& x : inputs) {
      const bool tracked =
          IsTracked(x) && (GradReqOf(x) != GradReq::kNull || !GradOf(x));
      wanted.push_back(tracked);
      any |= tracked;
    }
    if (any) return CallRecorded(inputs, wanted);
    wanted.clear();
  }
  const auto variant = Get(inputs, Training(), wanted);
  GraphCall call(variant->compiled);
  std::copy(inputs.begin(), inputs.end(), call.inputs.begin());
  Arrays outputs;
  const Device device = inputs.empty() ? CreationDevice() : inputs[0].device();
  for (size_t k = 0; k < graph_.outputs.size(); ++k) {
    const Spec& spec = call.graph().spec(call.graph().outputs[k]);
    outputs.push_back(NDArray::Empty(spec.shape, spec.dtype, device));
    call.outputs[k] = outputs.back();
  }
  call.Run(GraphCall::kForward);
  return outputs;
}

Arrays GraphFunction::CallRecorded(std::span<const NDArray> inputs,
                                   const std::vector<bool>& wanted) {
  for (size_t i = 0; i < inputs.size(); ++i)
    if (wanted[i]) ForgetFilters(inputs[i]);
  const auto variant = Get(inputs, Training(), wanted);
  auto call = std::make_shared<GraphCall>(variant->compiled);
  Arrays outputs;
  const Device device = inputs[0].device();
  for (size_t k = 0; k < graph_.outputs.size(); ++k) {
    const Spec& spec = call->graph().spec(call->graph().outputs[k]);
    outputs.push_back(NDArray::Empty(spec.shape, spec.dtype, device));
    // Without the tape, so that the tape's node does not own itself.
    call->outputs[k] = outputs.back().Detach();
  }
  std::copy(inputs.begin(), inputs.end(), call->inputs.begin());
  call->Run(GraphCall::kForward);
  const Ref<GraphFunction> self(this);
  auto gradient = [self, variant, call, device,
                   n = inputs.size()](const GradientCall& asked) {
    const std::vector<NDArray>& douts = asked.douts;
    std::vector<NDArray> gradients(n);
    if (Recording()) {
      // Higher derivatives: the operators are recorded one by one.
      const std::vector<NDArray> in(call->inputs.begin(), call->inputs.begin() + n);
      std::vector<NDArray> wanted_arrays;
      for (size_t i = 0; i < n; ++i)
        if (variant->wanted[i]) wanted_arrays.push_back(in[i]);
      const ScopedTraining mode(variant->training);
      const std::vector<NDArray> heads = self->Replay(in, call.get());
      std::vector<NDArray> found =
          Grad(heads, wanted_arrays, douts, true, true, variant->training);
      size_t next = 0;
      for (size_t i = 0; i < n; ++i)
        if (variant->wanted[i]) gradients[i] = found[next++];
      return gradients;
    }
    // What runs may overwrite the values of the forward part; a graph that is retained
    // keeps its own.
    std::shared_ptr<GraphCall> run = call;
    if (asked.retain) run = std::make_shared<GraphCall>(call->Copy());
    for (size_t k = 0; k < variant->heads.size(); ++k)
      if (variant->heads[k] >= 0) run->inputs[variant->heads[k]] = douts[k];
    const Graph& graph = run->graph();
    for (size_t k = 0; k < variant->gradient_of.size(); ++k) {
      const size_t place = self->graph_.outputs.size() + k;
      const Spec& spec = graph.spec(graph.outputs[place]);
      const int input = variant->gradient_of[k];
      NDArray g = asked.places[input];
      if (!g || g.dtype() != spec.dtype || !(g.shape() == spec.shape) ||
          SharesMemory(g, *run))
        g = NDArray::Empty(spec.shape, spec.dtype, device);
      run->outputs[place] = g;
      gradients[input] = g;
    }
    run->Run(GraphCall::kBackward);
    run->Release();
    for (size_t k = 0; k < variant->gradient_of.size(); ++k)
      run->outputs[self->graph_.outputs.size() + k] = NDArray();
    return gradients;
  };
  RecordCustom(name_, inputs, outputs, std::move(gradient));
  GradNode* node = outputs.empty() ? nullptr : NodeOf(outputs[0]);
  if (node == nullptr) return outputs;
  node->symbol = [self](const std::vector<Symbol>& in) {
    return SymbolsOfGraph(self->graph_, in);
  };
  return outputs;
}

namespace {

// Parameters of a node without inputs, of the sizes that follow from the rest of the
// graph: a shape of (0, 4) there is one with any first size.
ParamsRef WithShape(const GraphNode& node, const Shape& shape) {
  SmallVector<NamedAttr, 4> attrs;
  for (const Field& field : node.op->fields) {
    if (field.name == std::string_view("shape")) {
      attrs.push_back({field.name, AttrCodec<Shape>::Encode(shape)});
    } else {
      attrs.push_back({field.name, field.access->Get(node.params->get())});
    }
  }
  return MakeParams(*node.op, attrs);
}

bool HasShape(const OpDef& op) {
  return std::any_of(op.fields.begin(), op.fields.end(), [](const Field& field) {
    return field.name == std::string_view("shape");
  });
}

}  // namespace

std::vector<NDArray> GraphFunction::Replay(std::span<const NDArray> inputs,
                                           const GraphCall* call) const {
  std::vector<Arrays> values(graph_.size());
  Graph inferred;  // made when it is needed
  const auto shape_of = [&](size_t id) -> const Shape& {
    if (inferred.size() == 0) {
      inferred = graph_;
      for (size_t i = 0; i < inputs.size(); ++i)
        inferred.nodes[inferred.inputs[i]].outputs[0] = {inputs[i].shape(),
                                                         inputs[i].dtype()};
      Infer(inferred);
    }
    return inferred.nodes[id].outputs[0].shape;
  };
  for (size_t i = 0; i < inputs.size(); ++i)
    values[graph_.inputs[i]].push_back(inputs[i]);
  for (size_t id = 0; id < graph_.size(); ++id) {
    const GraphNode& node = graph_.nodes[id];
    if (node.is_input()) continue;
    SmallVector<NDArray, 4> in;
    for (GraphEntry e : node.inputs) {
      NDArray x = values[e.node][e.index];
      if (call != nullptr && node.op->Mutates(static_cast<int>(in.size()))) {
        const NDArray own = NDArray::Empty(x.shape(), x.dtype(), x.device());
        CopyInto(x, own);
        x = own;
      }
      in.push_back(std::move(x));
    }
    const ScopedStream stream(
        call != nullptr && node.op->random ? call->StreamOf(node.name) : nullptr);
    values[id] = Invoke(*node.op, node.params, in);
    if (call != nullptr && in.empty() && values[id][0].size() == 0 &&
        HasShape(*node.op) && !(shape_of(id) == values[id][0].shape()))
      values[id] = Invoke(*node.op, WithShape(node, shape_of(id)), in);
  }
  std::vector<NDArray> outputs;
  for (GraphEntry e : graph_.outputs) outputs.push_back(values[e.node][e.index]);
  return outputs;
}

}  // namespace plait
