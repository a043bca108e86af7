// Pass casts.

#include "passes/casts.h"

#include <vector>

namespace plait {
namespace {

using Entries = SmallVector<GraphEntry, 1>;

bool IsCast(const GraphNode& node) {
  return !node.is_input() && (node.op->name == "amp_cast" || node.op->name == "Cast");
}

// Whether every number of `narrow` is one of `wide`.
bool Holds(DType wide, DType narrow) {
  if (wide == narrow) return true;
  const bool half = narrow == DType::kFloat16 || narrow == DType::kBfloat16;
  if (wide == DType::kFloat32) return half;
  return wide == DType::kFloat64 && (half || narrow == DType::kFloat32);
}

ParamsRef CastTo(const OpDef& op, DType dtype) {
  const NamedAttr attr{"dtype", AttrCodec<DType>::Encode(dtype)};
  return MakeParams(op, {&attr, 1});
}

class Simplifier {
 public:
  explicit Simplifier(const Graph& from) : from_(from), moved_(from.size()) {}

  Graph Run() {
    for (size_t id = 0; id < from_.size(); ++id) Visit(static_cast<int>(id));
    for (int id : from_.inputs) to_.inputs.push_back(moved_[id][0].node);
    for (GraphEntry e : from_.outputs) to_.outputs.push_back(moved_[e.node][e.index]);
    return std::move(to_);
  }

 private:
  void Visit(int id) {
    GraphNode node = from_.nodes[id];
    for (GraphEntry& e : node.inputs) e = moved_[e.node][e.index];
    if (IsCast(node)) {
      node.inputs[0] = Origin(node.inputs[0]);
      if (to_.spec(node.inputs[0]).dtype == node.outputs[0].dtype) {
        moved_[id] = {node.inputs[0]};
        return;
      }
    } else if (!node.is_input() && node.op->name == "amp_multicast") {
      Split(id, node);
      return;
    }
    const int place = static_cast<int>(to_.size());
    for (int i = 0; i < static_cast<int>(node.outputs.size()); ++i)
      moved_[id].push_back({place, i});
    to_.Add(std::move(node));
  }

  // Behind casts that lose nothing.
  GraphEntry Origin(GraphEntry e) const {
    while (IsCast(to_.nodes[e.node])) {
      const GraphEntry x = to_.nodes[e.node].inputs[0];
      if (!Holds(to_.spec(e).dtype, to_.spec(x).dtype)) break;
      e = x;
    }
    return e;
  }

  void Split(int id, const GraphNode& node) {
    static const OpDef& cast = GetOp("amp_cast");
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const DType dtype = node.outputs[i].dtype;
      const GraphEntry x = Origin(node.inputs[i]);
      if (to_.spec(x).dtype == dtype) {
        moved_[id].push_back(x);
        continue;
      }
      GraphNode one;
      one.op = &cast;
      one.params = CastTo(cast, dtype);
      one.parsed = true;
      one.name = node.name + "_" + std::to_string(i);
      one.inputs = {x};
      one.outputs = {node.outputs[i]};
      one.backward = node.backward;
      one.recompute = node.recompute;
      one.group = node.group;
      moved_[id].push_back({static_cast<int>(to_.size()), 0});
      to_.Add(std::move(one));
    }
  }

  const Graph& from_;
  Graph to_;
  std::vector<Entries> moved_;
};

}  // namespace

Graph SimplifyCasts(const Graph& graph) {
  return Simplifier(graph).Run();
}

}  // namespace plait
