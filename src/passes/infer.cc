// Pass infer: sweeps over the graph in both directions until nothing changes.

#include "passes/infer.h"

#include <sstream>

namespace plait {
namespace {

bool Known(const Spec& spec) {
  return spec.dtype != DType::kUnknown && spec.shape.known();
}

bool Same(const Spec& a, const Spec& b) {
  return a.dtype == b.dtype && a.shape == b.shape;
}

// In a symbol a size of 0 is one that others tell, as in zeros(shape=(0, 4)) for the
// first state of a recurrent cell with any batch.
void ZerosAreUnknown(Shape& shape) {
  if (!shape.rank_known()) return;
  for (int64_t& size : shape) {
    if (size == 0) size = kUnknownSize;
  }
}

class Inference {
 public:
  explicit Inference(Graph& graph) : graph_(graph), done_(graph.size(), false) {}

  void Run(bool default_types) {
    Sweep();
    if (!default_types) return;
    bool any = false;
    for (int id : graph_.inputs) {
      DType& dtype = graph_.nodes[id].outputs[0].dtype;
      if (dtype == DType::kUnknown) {
        dtype = DType::kFloat32;
        any = true;
      }
    }
    // Sizes of 0 that nobody told otherwise are 0.
    zeros_are_unknown_ = false;
    for (size_t i = 0; i < graph_.size(); ++i) {
      if (graph_.nodes[i].inputs.empty()) any |= Visit(i);
    }
    if (any) Sweep();
  }

 private:
  void Sweep() {
    bool changed = true;
    while (changed) {
      changed = false;
      for (size_t i = 0; i < graph_.size(); ++i) changed |= Visit(i);
      if (!changed) break;
      changed = false;
      for (size_t i = graph_.size(); i-- > 0;) changed |= Visit(i);
    }
  }

  bool Visit(size_t id) {
    GraphNode& node = graph_.nodes[id];
    if (node.is_input() || done_[id]) return false;
    Specs in, out;
    for (GraphEntry e : node.inputs) in.push_back(graph_.spec(e));
    const bool source = node.inputs.empty();
    for (const Spec& spec : node.outputs)
      out.push_back(source ? Spec{.dtype = spec.dtype} : spec);
    try {
      InferPartial(*node.op, *node.params, in, out);
    } catch (const Error& e) {
      Fail(e.kind(), e.what(), " (", Path(node), ")");
    }
    if (source && zeros_are_unknown_) {
      for (Spec& spec : out) ZerosAreUnknown(spec.shape);
    }
    bool changed = false, all = true;
    for (size_t i = 0; i < in.size(); ++i) {
      Spec& old = graph_.nodes[node.inputs[i].node].outputs[node.inputs[i].index];
      changed |= Take(old, in[i], node);
      all &= Known(old);
    }
    for (size_t i = 0; i < out.size(); ++i) {
      changed |= Take(node.outputs[i], out[i], node);
      all &= Known(node.outputs[i]);
    }
    done_[id] = all;
    return changed;
  }

  bool Take(Spec& old, const Spec& now, const GraphNode& node) {
    if (Same(old, now)) return false;
    Spec merged = old;
    Shape fact = now.shape;
    Check(Unify(merged.shape, fact), node.op->name, ": shapes ", old.shape, " and ",
          now.shape, " contradict each other (", Path(node), ")");
    if (merged.dtype == DType::kUnknown) merged.dtype = now.dtype;
    const bool changed = !Same(old, merged);
    old = merged;
    return changed;
  }

  // "node fc2; its inputs: fc1 float32 (2, 3), from data float32 (2, 4), ..."
  std::string Path(const GraphNode& node) const {
    std::ostringstream text;
    text << "node " << node.name << "; its inputs: ";
    for (size_t i = 0; i < node.inputs.size() && i < 8; ++i) {
      const GraphEntry e = node.inputs[i];
      text << (i ? ", " : "") << graph_.nodes[e.node].name << ' '
           << graph_.spec(e).shape;
    }
    const int first = node.inputs.empty() ? -1 : node.inputs[0].node;
    int at = first;
    for (int steps = 0; at >= 0 && steps < 4; ++steps) {
      const GraphNode& from = graph_.nodes[at];
      if (from.is_input() || from.inputs.empty()) break;
      at = from.inputs[0].node;
      text << (steps == 0 ? "; path: " : "") << (steps == 0 ? from.name : "") << " <- "
           << graph_.nodes[at].name << ' ' << graph_.nodes[at].outputs[0].shape;
    }
    return text.str();
  }

  Graph& graph_;
  std::vector<bool> done_;
  bool zeros_are_unknown_ = true;
};

// MXNet's hint: 0 is an unknown size, () an unknown rank.
Shape ShapeOfHint(const std::string& text) {
  Shape shape = AttrCodec<Shape>::Decode(ParseAttr(text), "__shape__");
  if (shape.rank() == 0) return Shape::Unknown();
  for (int64_t& size : shape) {
    if (size <= 0) size = kUnknownSize;
  }
  return shape;
}

}  // namespace

void Infer(Graph& graph, bool default_types) {
  Inference(graph).Run(default_types);
}

void SetInputSpecs(Graph& graph, const Symbol& symbol, const Specs& given) {
  size_t i = 0;
  for (const SymbolNode* node : symbol.Nodes()) {
    if (!node->is_variable()) continue;
    Spec& spec = graph.nodes[graph.inputs[i]].outputs[0];
    if (i < given.size()) spec = given[i];
    if (!spec.shape.rank_known()) {
      const auto hint = node->attrs.find("__shape__");
      if (hint != node->attrs.end()) spec.shape = ShapeOfHint(hint->second);
    }
    if (spec.dtype == DType::kUnknown) {
      const auto hint = node->attrs.find("__dtype__");
      if (hint != node->attrs.end()) spec.dtype = DTypeOfFlag(hint->second);
    }
    ++i;
  }
}

bool FullyInferred(const Graph& graph, std::string* missing) {
  bool all = true;
  int named = 0;
  for (const GraphNode& node : graph.nodes) {
    bool known = true;
    for (const Spec& spec : node.outputs) known &= Known(spec);
    if (known) continue;
    all = false;
    if (missing != nullptr && node.is_input() && named++ < 10)
      *missing += (missing->empty() ? "" : ", ") + node.name;
  }
  return all;
}

}  // namespace plait
