// Pass blocked: regions of nodes that can run on blocks, and their rewriting.

#include "passes/blocked.h"

#include <numeric>

#include "passes/zeros.h"

namespace plait {
namespace {

bool IsImages(const Spec& spec) {
  return IsBlockedType(spec.dtype) && spec.shape.rank() == 4 && spec.shape.size() > 0;
}

std::optional<BlockedForm> PointwiseForm(const OpDef& op, const ParamsRef& params,
                                         const Specs& in, const Specs& out,
                                         int64_t block) {
  if (!op.IsPointwise(*params) || in.empty() ||
      in.size() > PointwiseProgram::kMaxInputs / 2 || out.size() > 31)
    return {};
  BlockedForm form{.op = &op, .params = params};
  for (size_t k = 0; k < out.size(); ++k) {
    if (!IsImages(out[k]) || !(out[k].shape == out[0].shape)) return {};
    form.blocked_out |= 1u << k;
  }
  const Shape& y = out[0].shape;
  bool whole = false;  // an input of the result's shape
  for (size_t i = 0; i < in.size(); ++i) {
    if (in[i].shape.size() == 1 && in[i].shape.rank() <= 1) continue;
    if (!IsImages(in[i]) || in[i].shape[1] != y[1]) return {};
    whole |= in[i].shape == y;
    form.blocked_in |= 1u << i;
  }
  if (!whole || (y[1] % block != 0 && !KeepsZeros(op, *params, in, form.blocked_in)))
    return {};
  return form;
}

class BlockedPass {
 public:
  BlockedPass(const Graph& graph, int64_t block, bool prepare)
      : graph_(graph), block_(block), prepare_(prepare) {}

  Graph Run() {
    forms_.resize(graph_.size());
    region_.resize(graph_.size());
    std::iota(region_.begin(), region_.end(), 0);
    std::vector<double> gain(graph_.size(), 0);
    for (size_t id = 0; id < graph_.size(); ++id) Consider(static_cast<int>(id));
    double best = 0;
    for (size_t id = 0; id < graph_.size(); ++id) {
      if (!forms_[id]) continue;
      double& sum = gain[Region(static_cast<int>(id))];
      sum += forms_[id]->gain;
      best = std::max(best, sum);
    }
    if (best <= 0) return graph_;
    for (size_t id = 0; id < graph_.size(); ++id) {
      if (gain[Region(static_cast<int>(id))] <= 0) forms_[id].reset();
    }
    return Rewrite();
  }

 private:
  // ------------------------------------------------------------ regions

  int Region(int id) {
    while (region_[id] != id) id = region_[id] = region_[region_[id]];
    return id;
  }

  void Consider(int id) {
    const GraphNode& node = graph_.nodes[id];
    if (node.is_input()) return;
    Specs in, out;
    for (GraphEntry e : node.inputs) in.push_back(graph_.spec(e));
    for (const Spec& spec : node.outputs) out.push_back(spec);
    forms_[id] = FindBlockedForm(*node.op, node.params, in, out, block_);
    const bool pointwise = node.op->IsPointwise(*node.params);
    if (pointwise && !node.mutates.empty()) forms_[id].reset();
    if (!forms_[id]) return;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const GraphEntry e = node.inputs[i];
      if ((forms_[id]->blocked_in >> i & 1) && forms_[e.node] &&
          (forms_[e.node]->blocked_out >> e.index & 1))
        region_[Region(id)] = Region(e.node);
    }
  }

  // ------------------------------------------------------------ rewriting

  struct Places {
    GraphEntry plain, blocked;
  };

  Graph Rewrite() {
    places_.resize(graph_.size());
    std::vector<bool> given(graph_.size());  // nodes of which the caller gets something
    for (GraphEntry e : graph_.outputs) given[e.node] = true;
    for (size_t i = 0; i < graph_.size(); ++i) {
      const int id = static_cast<int>(i);
      places_[id].resize(graph_.nodes[id].outputs.size());
      if (forms_[id]) {
        EmitBlocked(id);
        // At once: nodes of the forward part stand before all of the backward part.
        for (int k = 0; given[id] && k < static_cast<int>(places_[id].size()); ++k)
          Plain({id, k}, graph_.nodes[id].backward);
      } else {
        Emit(id);
      }
    }
    for (int id : graph_.inputs) out_.inputs.push_back(places_[id][0].plain.node);
    for (GraphEntry e : graph_.outputs)
      out_.outputs.push_back(Plain(e, graph_.nodes[e.node].backward));
    return std::move(out_);
  }

  int Next() const { return static_cast<int>(out_.size()); }

  void Emit(int id) {
    GraphNode node = graph_.nodes[id];
    for (GraphEntry& e : node.inputs) e = Plain(e, node.backward);
    for (size_t k = 0; k < node.outputs.size(); ++k)
      places_[id][k].plain = {Next(), static_cast<int>(k)};
    out_.Add(std::move(node));
  }

  void EmitBlocked(int id) {
    const BlockedForm& form = *forms_[id];
    GraphNode node = graph_.nodes[id];
    Specs in;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      GraphEntry& e = node.inputs[i];
      e = form.blocked_in >> i & 1 ? Blocked(e, node.backward)
                                   : Plain(e, node.backward);
      if (prepare_ && form.preparation.input == static_cast<int>(i))
        e = Prepare(form, node, e);
      in.push_back(out_.spec(e));
    }
    node.op = form.op;
    node.params = form.params;
    node.parsed = false;
    Specs out(node.outputs.size());
    InferAll(*node.op, *node.params, in, out);
    const int place = Next();
    for (size_t k = 0; k < out.size(); ++k) node.outputs[k] = out[k];
    out_.Add(std::move(node));
    for (size_t k = 0; k < out.size(); ++k) {
      GraphEntry made{place, static_cast<int>(k)};
      if (form.blocked_out >> k & 1) {
        places_[id][k].blocked = made;
      } else {
        places_[id][k].plain = Reshaped(made, graph_.nodes[id].outputs[k]);
      }
    }
  }

  GraphEntry Prepare(const BlockedForm& form, const GraphNode& node, GraphEntry e) {
    const GraphEntry made = AddNode(form.preparation.op, form.preparation.params, e,
                                    node.name + "_filters", node.backward);
    out_.nodes[made.node].parsed = true;  // its texts say all
    return made;
  }

  // Sums by channel come out as (blocks, block).
  GraphEntry Reshaped(GraphEntry e, const Spec& wanted) {
    const Spec& have = out_.spec(e);
    if (have.shape == wanted.shape || have.shape.size() != wanted.shape.size())
      return e;
    static const OpDef& op = GetOp("Reshape");
    const NamedAttr attrs[] = {{"shape", AttrCodec<Shape>::Encode(wanted.shape)}};
    const GraphNode& from = out_.nodes[e.node];
    return AddNode(&op, MakeParams(op, attrs), e, from.name + "_plain", from.backward);
  }

  GraphEntry AddNode(const OpDef* op, ParamsRef params, GraphEntry input,
                     std::string name, bool backward) {
    GraphNode node;
    node.op = op;
    node.params = std::move(params);
    node.name = std::move(name);
    node.inputs.push_back(input);
    node.backward = backward;
    Specs in{out_.spec(input)}, out(1);
    InferAll(*op, *node.params, in, out);
    node.outputs.push_back(out[0]);
    out_.Add(std::move(node));
    return {Next() - 1, 0};
  }

  GraphEntry Convert(const char* name, GraphEntry e, GraphEntry from, bool backward) {
    const OpDef& op = GetOp(name);
    const NamedAttr attrs[] = {
        {"block", AttrCodec<int64_t>::Encode(block_)},
        {"channels", AttrCodec<int64_t>::Encode(graph_.spec(e).shape[1])}};
    return AddNode(&op, MakeParams(op, attrs), from, graph_.nodes[e.node].name + name,
                   backward);
  }

  // A value of the old graph in the new one, in one of its two layouts.
  GraphEntry Plain(GraphEntry e, bool backward) {
    Places& p = places_[e.node][e.index];
    if (p.plain.node < 0) p.plain = Convert("_unblock", e, p.blocked, backward);
    return p.plain;
  }
  GraphEntry Blocked(GraphEntry e, bool backward) {
    Places& p = places_[e.node][e.index];
    if (p.blocked.node < 0) p.blocked = Convert("_block", e, p.plain, backward);
    return p.blocked;
  }

  const Graph& graph_;
  const int64_t block_;
  const bool prepare_;
  std::vector<std::optional<BlockedForm>> forms_;
  std::vector<int> region_;
  std::vector<SmallVector<Places, 1>> places_;
  Graph out_;
};

}  // namespace

std::optional<BlockedForm> FindBlockedForm(const OpDef& op, const ParamsRef& params,
                                           const Specs& in, const Specs& out,
                                           int64_t block) {
  if (const BlockedRule* rule = BlockedRuleOf(op))
    return (*rule)(params->get(), in, out, block);
  return PointwiseForm(op, params, in, out, block);
}

Graph UseBlocks(const Graph& graph, int64_t block, bool prepare) {
  return block == 0 ? graph : BlockedPass(graph, block, prepare).Run();
}

}  // namespace plait
