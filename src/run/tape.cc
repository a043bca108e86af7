// The tape: leaves, and recording calls.

#include "run/tape.h"

#include <algorithm>
#include <atomic>

#include "run/blocked_value.h"
#include "run/grad_node.h"
#include "run/lazy.h"

namespace plait {
namespace {

GradNode* LeafOf(const NDArray& x) {
  GradNode* node = NodeOf(x);
  return node != nullptr && node->leaf ? node : nullptr;
}

bool Reads(uint32_t mask, size_t i) {
  return i >= 31 ? mask >> 31 : (mask >> i & 1);
}

bool AnyTracked(std::span<const NDArray> arrays) {
  return std::any_of(arrays.begin(), arrays.end(),
                     [](const NDArray& x) { return x.body()->tape.get() != nullptr; });
}

Ref<GradNode> NewNode(std::span<const NDArray> in, std::span<const NDArray> out) {
  Ref<GradNode> node = MakeRef<GradNode>();
  for (const NDArray& x : in) {
    node->edges.push_back({x.body()->tape, x.body()->tape_index});
    node->input_specs.push_back({x.shape(), x.dtype()});
  }
  for (const NDArray& y : out) node->output_specs.push_back({y.shape(), y.dtype()});
  return node;
}

void Attach(const Ref<GradNode>& node, std::span<const NDArray> out) {
  for (size_t i = 0; i < out.size(); ++i) {
    out[i].body()->tape = Ref<TapeNode>(node.get());
    out[i].body()->tape_index = static_cast<int>(i);
  }
}

}  // namespace

// A long chain of nodes must not be destroyed by recursion: what a node holds goes to
// a list, which the outermost destructor empties.
GradNode::~GradNode() {
  ForgetFilters();
  struct Rest {
    std::vector<Ref<TapeNode>> nodes;
    std::vector<NDArray> arrays;
  };
  thread_local Rest* rest = nullptr;
  Rest mine;
  const bool outermost = rest == nullptr;
  if (outermost) rest = &mine;
  for (Edge& e : edges) {
    if (e.node) rest->nodes.push_back(std::move(e.node));
  }
  for (NDArray& x : inputs) {
    if (x) rest->arrays.push_back(std::move(x));
  }
  if (!outermost) return;
  while (!mine.nodes.empty() || !mine.arrays.empty()) {
    if (!mine.arrays.empty()) {
      const NDArray last = std::move(mine.arrays.back());
      mine.arrays.pop_back();
    } else {
      const Ref<TapeNode> last = std::move(mine.nodes.back());
      mine.nodes.pop_back();
    }
  }
  rest = nullptr;
}

NDArray Untracked(const NDArray& x) {
  ArrayBody* body = x.body();
  if (Pending* p = body->pending.load(std::memory_order_acquire)) {
    // Null where there was no memory for the value: Detach says so.
    auto* program = dynamic_cast<LazyProgram*>(p);
    Ref<ArrayBody> twin =
        program != nullptr ? program->Share(body) : ShareBlocked(body);
    if (twin) return NDArray(std::move(twin));
  }
  return x.Detach();
}

bool& Recording() {
  thread_local bool recording = false;
  return recording;
}
bool& Training() {
  thread_local bool training = false;
  return training;
}

void AttachGrad(const NDArray& x, const NDArray& grad, GradReq req) {
  Check(!grad || (grad.shape() == x.shape() && grad.dtype() == x.dtype()),
        "attach_grad: the gradient is ", grad, " for an array ", x,
        "; the array's dtype and shape were expected");
  Ref<GradNode> leaf = MakeRef<GradNode>();
  leaf->leaf = true;
  leaf->name = "leaf";
  leaf->grad = grad;
  leaf->req = req;
  leaf->output_specs.push_back({x.shape(), x.dtype()});
  x.body()->tape = Ref<TapeNode>(leaf.get());
  x.body()->tape_index = 0;
}

NDArray GradOf(const NDArray& x) {
  const GradNode* leaf = LeafOf(x);
  return leaf ? leaf->grad : NDArray();
}
GradReq GradReqOf(const NDArray& x) {
  const GradNode* leaf = LeafOf(x);
  return leaf ? leaf->req : GradReq::kNull;
}
bool IsTracked(const NDArray& x) {
  return NodeOf(x) != nullptr;
}
bool FreshGrad(const NDArray& x) {
  const GradNode* leaf = LeafOf(x);
  return leaf != nullptr && leaf->fresh_grad.load(std::memory_order_relaxed);
}
void SetFreshGrad(const NDArray& x, bool fresh) {
  if (GradNode* leaf = LeafOf(x))
    leaf->fresh_grad.store(fresh, std::memory_order_relaxed);
}

void RecordCall(const OpDef& op, const ParamsRef& params, std::span<const NDArray> in,
                std::span<const NDArray> out, bool training) {
  if (!AnyTracked(in)) {
    for (const NDArray& y : out) {
      // An overwritten array (out=) that was tracked is cut from its history.
      if (y.body()->tape && !LeafOf(y)) y.body()->tape = nullptr;
    }
    return;
  }
  Ref<GradNode> node = NewNode(in, out);
  node->op = &op;
  node->params = params;
  node->name = op.name;
  node->training = training;
  const Uses uses = op.UsesOf(*params);
  for (size_t i = 0; i < in.size(); ++i) {
    node->inputs.push_back(Reads(uses.in, i) ? in[i] : NDArray());
  }
  for (size_t i = 0; i < out.size(); ++i) {
    node->outputs.push_back(Reads(uses.out, i) ? Untracked(out[i]) : NDArray());
  }
  Attach(node, out);
}

void RecordCustom(const std::string& name, std::span<const NDArray> in,
                  std::span<const NDArray> out, CustomGradient gradient) {
  if (!AnyTracked(in)) return;
  Ref<GradNode> node = NewNode(in, out);
  node->name = name;
  node->custom = std::move(gradient);
  Attach(node, out);
}

}  // namespace plait
