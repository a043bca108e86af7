// The tape walked backwards: sums of gradients, from the heads to the leaves.

#include <algorithm>
#include <unordered_map>

#include "graph/math.h"
#include "run/grad_node.h"
#include "run/invoke.h"
#include "run/sparse.h"

namespace plait {
namespace {

class ScopedMode {
 public:
  ScopedMode(bool recording, bool training)
      : recording_(Recording()), training_(Training()) {
    Recording() = recording;
    Training() = training;
  }
  ~ScopedMode() {
    Recording() = recording_;
    Training() = training_;
  }

 private:
  bool recording_, training_;
};

// One walk from the heads to the leaves.
class BackwardPass {
 public:
  explicit BackwardPass(bool retain) : retain_(retain) {}

  void Want(const NDArray& variable) {
    if (GradNode* node = NodeOf(variable)) variables_.push_back(node);
  }

  // All nodes behind the heads, each after those it came from.
  void Collect(std::span<const NDArray> heads) {
    for (const NDArray& head : heads) {
      Check(NodeOf(head) != nullptr, ErrorKind::kRuntime, "backward: the head, ", head,
            ", was not computed while recording from an "
            "array with attach_grad(); a recorded one was expected");
      Visit(NodeOf(head));
    }
  }

  void Seed(const NDArray& head, const NDArray& head_gradient) {
    GradNode* node = NodeOf(head);
    NDArray seed = head_gradient ? ToDense(head_gradient) : NDArray();
    if (seed) {
      Check(seed.shape() == head.shape(), "backward: the head gradient has shape ",
            seed.shape(), "; shape ", head.shape(), " of the head was expected");
      if (seed.dtype() != head.dtype()) seed = cast(Value(seed), head.dtype()).array();
    } else {
      seed = full({head.shape(), head.dtype()}, 1).array();
    }
    Accumulate(node, head.body()->tape_index, Value(seed));
  }

  void Run() {
    for (size_t i = order_.size(); i-- > 0;) {
      GradNode* node = order_[i];
      if (!node->leaf && state(node).needed) Propagate(node);
    }
  }

  Value GradientOf(const NDArray& x) {
    GradNode* node = NodeOf(x);
    const auto it = states_.find(node);
    if (it == states_.end()) return {};
    const auto& douts = it->second.douts;
    const size_t index = static_cast<size_t>(x.body()->tape_index);
    return index < douts.size() ? douts[index] : Value();
  }

  const std::vector<GradNode*>& order() const { return order_; }
  // Moved out: the last use of it.
  Value TakeLeafGradient(GradNode* leaf) {
    auto& douts = state(leaf).douts;
    return douts.empty() ? Value() : std::move(douts[0]);
  }

 private:
  struct State {
    SmallVector<Value, 1> douts;
    bool needed = false;
    int edges = 0;  // nodes that send a gradient here, counted by their inputs
  };

  State& state(GradNode* node) { return states_[node]; }

  bool IsWanted(GradNode* node) const {
    if (variables_.empty()) return node->leaf && node->req != GradReq::kNull;
    return std::find(variables_.begin(), variables_.end(), node) != variables_.end();
  }

  void Visit(GradNode* head) {
    if (states_.contains(head)) return;
    struct Frame {
      GradNode* node;
      size_t next;
    };
    std::vector<Frame> stack{{head, 0}};
    states_[head];
    while (!stack.empty()) {
      Frame& frame = stack.back();
      GradNode* node = frame.node;
      if (frame.next < node->edges.size()) {
        auto* child = static_cast<GradNode*>(node->edges[frame.next++].node.get());
        if (child != nullptr) {
          const auto [at, fresh] = states_.try_emplace(child);
          ++at->second.edges;
          if (fresh) stack.push_back({child, 0});
        }
        continue;
      }
      bool needed = IsWanted(node);
      for (const GradNode::Edge& e : node->edges) {
        if (e.node) needed |= state(static_cast<GradNode*>(e.node.get())).needed;
      }
      state(node).needed = needed;
      order_.push_back(node);
      stack.pop_back();
    }
  }

  void Accumulate(GradNode* node, int index, Value gradient) {
    auto& douts = state(node).douts;
    if (douts.size() <= static_cast<size_t>(index)) douts.resize(index + 1);
    Value& sum = douts[index];
    sum = sum ? Sum(sum, gradient) : std::move(gradient);
  }

  // Gradients of embeddings are row_sparse; sums of such stay so.
  static Value Sum(const Value& x, const Value& y) {
    if (IsSparse(x.array()) || IsSparse(y.array()))
      return Value(AddSparse(x.array(), y.array()));
    return x + y;
  }

  void Propagate(GradNode* node) {
    Check(!node->freed, ErrorKind::kRuntime, "backward: the graph behind ", node->name,
          " was freed by an earlier backward; retain_graph=True there was expected");
    auto& douts = state(node).douts;
    if (std::none_of(douts.begin(), douts.end(),
                     [](const Value& v) { return bool(v); }))
      return;
    douts.resize(node->output_specs.size());
    for (Value& dout : douts) {  // what comes out of a node is dense
      if (dout && IsSparse(dout.array())) dout = Value(ToDense(dout.array()));
    }
    SmallVector<bool, 4> wanted;
    for (const GradNode::Edge& e : node->edges) {
      wanted.push_back(e.node && state(static_cast<GradNode*>(e.node.get())).needed);
    }
    Values dx = node->custom ? RunCustom(node, douts, wanted)
                             : RunGradient(node, douts, wanted);
    // A variable's own gradient is kept; others are not needed any more.
    if (!IsWanted(node)) douts.clear();
    for (size_t i = 0; i < node->edges.size() && i < dx.size(); ++i) {
      if (wanted[i] && dx[i]) {
        Accumulate(static_cast<GradNode*>(node->edges[i].node.get()),
                   node->edges[i].index, std::move(dx[i]));
      }
    }
    if (!retain_) node->Free();
  }

  // Whether this is an embedding of a leaf whose gradient is row_sparse.
  static bool SumsRows(GradNode* node, const SmallVector<bool, 4>& wanted) {
    static const OpDef& embedding = GetOp("Embedding");
    static const OpDef& other = GetOp("_contrib_SparseEmbedding");
    if ((node->op != &embedding && node->op != &other) || !wanted[1] || Recording())
      return false;
    auto* leaf = static_cast<GradNode*>(node->edges[1].node.get());
    return leaf->leaf && leaf->grad && StorageOf(leaf->grad) == Storage::kRowSparse;
  }

  Values RunGradient(GradNode* node, const SmallVector<Value, 1>& douts,
                     const SmallVector<bool, 4>& wanted) {
    const OpDef& op = *node->op;
    if (SumsRows(node, wanted)) {
      const Shape& shape = node->input_specs[1].shape;
      return {Value(), Value(SumRows(douts[0].array(), node->inputs[0], shape))};
    }
    if (op.zero_gradient) {
      Values zero;
      for (size_t i = 0; i < wanted.size(); ++i) {
        zero.push_back(wanted[i] ? zeros(node->input_specs[i]) : Value());
      }
      return zero;
    }
    Check(op.gradient != nullptr, ErrorKind::kNotImplemented, op.name,
          ": has no gradient; a differentiable operator was expected");
    Values inputs, outputs;
    for (const NDArray& x : node->inputs) inputs.push_back(x ? Value(x) : Value());
    for (size_t i = 0; i < node->outputs.size(); ++i) {
      if (node->outputs[i] && Recording()) {
        // Higher derivatives flow through the output: it is tracked again.
        const NDArray y = Untracked(node->outputs[i]);
        y.body()->tape = Ref<TapeNode>(node);
        y.body()->tape_index = static_cast<int>(i);
        outputs.push_back(Value(y));
      } else {
        outputs.push_back(node->outputs[i] ? Value(node->outputs[i]) : Value());
      }
    }
    return op.gradient(node->params->get(), {.inputs = inputs,
                                             .outputs = outputs,
                                             .head_gradients = douts,
                                             .input_specs = node->input_specs,
                                             .output_specs = node->output_specs,
                                             .wanted = wanted,
                                             .training = node->training});
  }

  // Where a leaf's gradient goes, if this is all of it.
  NDArray PlaceOf(const GradNode::Edge& edge) {
    auto* leaf = static_cast<GradNode*>(edge.node.get());
    if (!variables_.empty() || Recording() || !leaf->leaf || !leaf->grad ||
        leaf->req != GradReq::kWrite || state(leaf).edges != 1 || IsSparse(leaf->grad))
      return {};
    return leaf->grad;
  }

  Values RunCustom(GradNode* node, const SmallVector<Value, 1>& douts,
                   const SmallVector<bool, 4>& wanted) {
    std::vector<NDArray> heads, places;
    for (size_t i = 0; i < douts.size(); ++i) {
      heads.push_back(douts[i] ? douts[i].array()
                               : zeros(node->output_specs[i]).array());
    }
    for (size_t i = 0; i < wanted.size(); ++i)
      places.push_back(wanted[i] ? PlaceOf(node->edges[i]) : NDArray());
    Values dx;
    for (NDArray& g : node->custom({heads, places, retain_}))
      dx.push_back(g ? Value(std::move(g)) : Value());
    return dx;
  }

  const bool retain_;
  std::vector<GradNode*> variables_, order_;
  std::unordered_map<GradNode*, State> states_;
};

// Gives the gradient's memory to the leaf's own array instead of copying, when nobody
// else can see either of them.
bool Adopt(const NDArray& gradient, const NDArray& place) {
  ArrayBody *from = gradient.body(), *to = place.body();
  if (from->pending.load(std::memory_order_acquire) != nullptr ||
      to->pending.load(std::memory_order_acquire) != nullptr)
    return false;
  if (!from->unique() || from->chunk->bodies != 1 || to->chunk->bodies != 1 ||
      from->offset != 0 || to->offset != 0 || from->dtype != to->dtype ||
      !(from->shape == to->shape) || !(from->device == to->device))
    return false;
  to->Place(from->chunk);
  return true;
}

// Puts a leaf's gradient where its owner looks for it.
void Store(GradNode* leaf, Value gradient) {
  leaf->fresh_grad.store(true, std::memory_order_relaxed);
  const NDArray& place = leaf->grad;
  if (IsSparse(place) || IsSparse(gradient.array())) {
    const bool add = leaf->req == GradReq::kAdd;
    AssignSparse(add ? AddSparse(place, gradient.array()) : gradient.array(), place);
    return;
  }
  if (leaf->req == GradReq::kAdd) {
    static const OpDef& add = GetOp("broadcast_add");
    const NDArray in[] = {place, gradient.array()};
    Invoke(add, add.defaults, in, {&place, 1});
    return;
  }
  if (gradient.array().body() == place.body()) return;  // written in place
  if (!Adopt(gradient.array(), place)) CopyInto(gradient.array(), place);
}

}  // namespace

void Backward(std::span<const NDArray> heads, std::span<const NDArray> head_gradients,
              bool retain_graph, bool training) {
  const ScopedMode mode(false, training);
  BackwardPass pass(retain_graph);
  pass.Collect(heads);
  for (size_t i = 0; i < heads.size(); ++i) {
    pass.Seed(heads[i], i < head_gradients.size() ? head_gradients[i] : NDArray());
  }
  pass.Run();
  bool any = false;
  for (GradNode* node : pass.order()) {
    if (!node->leaf || node->req == GradReq::kNull) continue;
    any = true;
    Value gradient = pass.TakeLeafGradient(node);
    if (gradient) {
      Store(node, std::move(gradient));
    } else if (node->req == GradReq::kWrite) {
      const Spec& spec = node->output_specs[0];
      const Storage storage = StorageOf(node->grad);
      Store(node, storage == Storage::kDefault
                      ? zeros(spec)
                      : Value(EmptySparse(storage, spec.shape, spec.dtype)));
    }
  }
  Check(any, ErrorKind::kRuntime,
        "backward: no array behind the heads wants a gradient; one with attach_grad() "
        "was "
        "expected");
}

namespace {

// A gradient that depends on nothing recorded can be differentiated all the same: it
// becomes the output of a node without inputs.
NDArray Recorded(const NDArray& gradient) {
  if (IsTracked(gradient)) return gradient;
  NDArray constant = gradient.Detach();  // it may be the caller's head gradient
  Ref<GradNode> node = MakeRef<GradNode>();
  node->name = "constant";
  node->custom = [](const GradientCall&) { return std::vector<NDArray>(); };
  node->output_specs.push_back({constant.shape(), constant.dtype()});
  constant.body()->tape = Ref<TapeNode>(node.get());
  constant.body()->tape_index = 0;
  return constant;
}

}  // namespace

std::vector<NDArray> Grad(std::span<const NDArray> heads,
                          std::span<const NDArray> variables,
                          std::span<const NDArray> head_gradients, bool retain_graph,
                          bool create_graph, bool training) {
  const ScopedMode mode(create_graph, training);
  BackwardPass pass(retain_graph);
  for (const NDArray& x : variables) {
    Check(IsTracked(x), ErrorKind::kRuntime, "grad: a variable, ", x,
          ", is not part of a recorded graph; an array with "
          "attach_grad() or a recorded one was expected");
    pass.Want(x);
  }
  pass.Collect(heads);
  for (size_t i = 0; i < heads.size(); ++i) {
    pass.Seed(heads[i], i < head_gradients.size() ? head_gradients[i] : NDArray());
  }
  pass.Run();
  std::vector<NDArray> gradients;
  for (const NDArray& x : variables) {
    Value g = pass.GradientOf(x);
    if (!g) g = zeros({x.shape(), x.dtype()});
    gradients.push_back(create_graph ? Recorded(g.array()) : g.array());
  }
  return gradients;
}

}  // namespace plait
