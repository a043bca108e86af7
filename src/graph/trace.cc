// Tracer: placeholders, and appending nodes.

#include "graph/trace.h"

#include <atomic>

namespace plait {
namespace {

// What a placeholder waits for, forever.
class Untouchable final : public Pending {
 public:
  static Untouchable& Get() {
    static auto* one = new Untouchable;
    return *one;
  }
  void Flush() override {
    Fail(ErrorKind::kRuntime,
         "trace: the values of an array are asked for while a graph is traced; they "
         "are known only when the graph runs (shape and dtype are known)");
  }
  void Forget(ArrayBody*) noexcept override {}
};

thread_local Tracer* current = nullptr;
std::atomic<int64_t> next_id{1};

}  // namespace

Tracer::Tracer(Graph* graph)
    : graph_(graph), outer_(current), id_(next_id.fetch_add(1)) {
  current = this;
}

Tracer::~Tracer() {
  current = outer_;
}

Tracer* Tracer::Current() {
  return current;
}

// A placeholder keeps its tracer and value in fields that it does not need otherwise.
NDArray Tracer::Placeholder(GraphEntry entry) {
  const Spec& spec = graph_->spec(entry);
  auto body = MakeRef<ArrayBody>(spec.shape, spec.dtype, Device{});
  body->offset = id_;
  body->step = entry.node;
  body->tape_index = entry.index;
  body->pending.store(&Untouchable::Get(), std::memory_order_release);
  return NDArray(std::move(body));
}

bool Tracer::IsPlaceholder(const NDArray& x) const {
  return x.body()->pending.load(std::memory_order_acquire) == &Untouchable::Get() &&
         x.body()->offset == id_;
}

NDArray Tracer::AddInput(const std::string& name, const Spec& spec) {
  GraphNode node;
  node.name = name;
  node.outputs.push_back(spec);
  const int id = static_cast<int>(graph_->size());
  graph_->Add(std::move(node));
  graph_->inputs.push_back(id);
  return Placeholder({id, 0});
}

GraphEntry Tracer::EntryOf(const NDArray& x) {
  ArrayBody* body = x.body();
  if (IsPlaceholder(x)) return {body->step, body->tape_index};
  Check(body->pending.load(std::memory_order_acquire) != &Untouchable::Get(),
        ErrorKind::kRuntime,
        "trace: an array of another trace is used; one of this trace, or an array with "
        "values, was expected");
  const auto known = captured_nodes_.find(body);
  if (known != captured_nodes_.end()) return {known->second, 0};
  const std::string name = "captured" + std::to_string(captured_.size());
  const NDArray placeholder = AddInput(name, {x.shape(), x.dtype()});
  const int id = placeholder.body()->step;
  captured_nodes_[body] = id;
  captured_.push_back({id, x});
  return {id, 0};
}

SmallVector<NDArray, 4> Tracer::Invoke(const OpDef& op, const ParamsRef& params,
                                       std::span<const NDArray> in,
                                       std::span<const NDArray> out) {
  Specs in_specs, out_specs(static_cast<size_t>(op.CountOutputs(*params)));
  for (const NDArray& x : in) in_specs.push_back({x.shape(), x.dtype()});
  InferAll(op, *params, in_specs, out_specs);
  GraphNode node;
  node.op = &op;
  node.params = params;
  node.backward = backward;
  for (const NDArray& x : in) node.inputs.push_back(EntryOf(x));
  for (const Spec& spec : out_specs) node.outputs.push_back(spec);
  for (size_t i = 0; i < in.size(); ++i) {
    if (op.Writes(*params, static_cast<int>(i), training))
      node.mutates.push_back(static_cast<int>(i));
  }
  const int id = static_cast<int>(graph_->size());
  node.name = op.name + "_" + std::to_string(id);
  graph_->Add(std::move(node));
  SmallVector<NDArray, 4> results;
  for (size_t i = 0; i < out_specs.size(); ++i) {
    if (i < out.size() && out[i]) {
      Check(IsPlaceholder(out[i]), ErrorKind::kRuntime, op.name,
            ": writes an array that is not part of the trace; while a graph is traced "
            "only traced arrays can be written");
      Check(
          out[i].shape() == out_specs[i].shape && out[i].dtype() == out_specs[i].dtype,
          op.name, ": the result is ", out_specs[i].dtype, ' ', out_specs[i].shape,
          " and out is ", out[i], "; both alike were expected");
      out[i].body()->step = id;
      out[i].body()->tape_index = static_cast<int>(i);
      results.push_back(out[i]);
      continue;
    }
    results.push_back(Placeholder({id, static_cast<int>(i)}));
  }
  return results;
}

}  // namespace plait
