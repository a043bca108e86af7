// Pass channels.

#include "passes/channels_first.h"

#include <algorithm>
#include <map>
#include <optional>

#include "base/options.h"
#include "passes/node_fields.h"
#include "passes/rewriter.h"
#include "passes/simplify.h"

namespace plait {
namespace {

// An operator whose parameter says where its channels are.
struct Row {
  std::string_view op, param;
  int arrays;   // so many of its first inputs have channels; -1: all
  bool always;  // also where none of them is known with channels first
};
constexpr Row kRows[] = {
    {"Convolution", "layout", 2, true}, {"Deconvolution", "layout", 2, true},
    {"Pooling", "layout", 1, false},    {"BatchNorm", "axis", 1, false},
    {"Concat", "dim", -1, false},
};

const Row* RowOf(const GraphNode& node) {
  if (node.is_input()) return nullptr;
  for (const Row& row : kRows) {
    if (node.op->name == row.op) return &row;
  }
  return nullptr;
}

// What the parameter becomes where it says that channels are last; else nothing.
std::optional<AttrValue> FirstOf(const GraphNode& node, const Row& row) {
  const int rank = node.outputs[0].shape.rank();
  if (rank < 3 || rank > 5) return {};
  if (row.param == "layout") {
    if (!TextOf(node, row.param).ends_with('C')) return {};
    constexpr const char* kFirst[] = {"NCW", "NCHW", "NCDHW"};
    return AttrValue{std::string(kFirst[rank - 3])};
  }
  const int axis = AttrCodec<int>::Decode(FieldOf(node, row.param), "axis");
  if (axis != -1 && axis != rank - 1) return {};
  return AttrValue{int64_t{1}};
}

bool HasWork(const GraphNode& node) {
  const Row* row = RowOf(node);
  return row != nullptr && row->always && FirstOf(node, *row);
}

// For each axis of the result the one of the array that it is.
Shape ToFirst(int rank) {
  Shape order{0, rank - 1};
  for (int i = 1; i < rank - 1; ++i) order.Append(i);
  return order;
}
Shape ToLast(int rank) {
  Shape order{0};
  for (int i = 2; i < rank; ++i) order.Append(i);
  order.Append(1);
  return order;
}
Shape Permuted(const Shape& shape, const Shape& order) {
  Shape result = shape;
  for (int i = 0; i < shape.rank(); ++i) result[i] = shape[static_cast<int>(order[i])];
  return result;
}
bool IsTranspose(const GraphNode& node, const Shape& order) {
  if (node.op->name != "transpose") return false;
  Shape axes = AttrCodec<Shape>::Decode(FieldOf(node, "axes"), "axes");
  for (int64_t& axis : axes) axis += axis < 0 ? order.rank() : 0;
  return axes == order;
}

// Copies that stretch, whose parameters name axes or sizes.
bool NamesAxes(const OpDef& op) {
  return std::any_of(op.fields.begin(), op.fields.end(), [](const Field& field) {
    return field.name.find("axes") != std::string::npos || field.name == "axis" ||
           field.name == "shape";
  });
}

class ChannelsPass {
 public:
  explicit ChannelsPass(const Graph& graph) : graph_(graph), rewriter_(graph) {}

  Graph Run() {
    for (size_t i = 0; i < graph_.size(); ++i) {
      const int id = static_cast<int>(i);
      GraphNode node = rewriter_.Moved(id);
      if (!node.is_input() &&
          (Undo(id, node) || WithParam(id, node) || Pointwise(id, node)))
        continue;
      rewriter_.Keep(id, std::move(node));
      NoteTranspose(id);
    }
    return Prune(rewriter_.Finish());
  }

 private:
  const Graph& to() const { return rewriter_.to(); }
  bool IsKnown(GraphEntry e) const { return first_.count({e.node, e.index}) > 0; }

  // The array in another order, for a node like `near`.
  GraphEntry Ordered(GraphEntry e, const Shape& order, const GraphNode& near) {
    static const OpDef& transpose = GetOp("transpose");
    static const OpDef& reshape = GetOp("_reshape_to");
    const Spec spec = to().spec(e);
    const Shape shape = Permuted(spec.shape, order);
    // A reshape, where axes of more than one element keep their order.
    bool same = spec.shape.size() > 0;
    int64_t before = -1;
    for (int64_t axis : order) {
      if (spec.shape[static_cast<int>(axis)] == 1) continue;
      same &= axis > before;
      before = axis;
    }
    GraphNode node;
    node.op = same ? &reshape : &transpose;
    const NamedAttr attr{same ? "shape" : "axes",
                         AttrCodec<Shape>::Encode(same ? shape : order)};
    node.params = MakeParams(*node.op, {&attr, 1});
    node.name = near.name + "_order";
    node.inputs.push_back(e);
    node.outputs.push_back({shape, spec.dtype});
    node.parsed = true;
    node.group = near.group;
    rewriter_.target()->Add(std::move(node));
    return {static_cast<int>(to().size()) - 1, 0};
  }

  GraphEntry First(GraphEntry e, const GraphNode& near) {
    const auto it = first_.find({e.node, e.index});
    if (it != first_.end()) return it->second;
    const GraphEntry first = Ordered(e, ToFirst(to().spec(e).shape.rank()), near);
    first_[{e.node, e.index}] = first;
    return first;
  }

  // Adds the node, whose outputs of `mask` now have channels first, and puts the same
  // with channels last in the place of those of node `id`.
  void Add(int id, GraphNode node, uint32_t mask) {
    const GraphNode near = node;
    for (size_t k = 0; k < node.outputs.size(); ++k) {
      Shape& shape = node.outputs[k].shape;
      if (mask >> k & 1) shape = Permuted(shape, ToFirst(shape.rank()));
    }
    const int place = static_cast<int>(to().size());
    rewriter_.target()->Add(std::move(node));
    SmallVector<GraphEntry, 1> values;
    for (int k = 0; k < static_cast<int>(near.outputs.size()); ++k) {
      GraphEntry e{place, k};
      if (mask >> k & 1) {
        const GraphEntry last = Ordered(e, ToLast(near.outputs[k].shape.rank()), near);
        first_[{last.node, last.index}] = e;
        e = last;
      }
      values.push_back(e);
    }
    rewriter_.Replace(id, std::move(values));
  }

  bool WithParam(int id, GraphNode& node) {
    const Row* row = RowOf(node);
    if (row == nullptr) return false;
    const auto value = FirstOf(node, *row);
    if (!value) return false;
    const size_t count = row->arrays < 0 ? node.inputs.size() : row->arrays;
    if (!row->always && std::none_of(node.inputs.begin(), node.inputs.begin() + count,
                                     [&](GraphEntry e) { return IsKnown(e); }))
      return false;
    for (size_t i = 0; i < count; ++i) node.inputs[i] = First(node.inputs[i], node);
    auto [object, params] = node.op->new_params();
    for (const Field& field : node.op->fields) {
      field.access->Set(
          object,
          field.name == row->param ? *value : field.access->Get(node.params->get()),
          field.name);
    }
    node.params = params;
    Add(id, std::move(node), 1);
    return true;
  }

  bool Pointwise(int id, GraphNode& node) {
    if (!node.op->IsPointwise(*node.params) || node.op->random ||
        !node.op->mutates.empty() || node.outputs.size() > 31 || NamesAxes(*node.op))
      return false;
    const Shape& y = node.outputs[0].shape;
    const int rank = y.rank();
    if (rank < 3 || rank > 5) return false;
    for (const Spec& spec : node.outputs) {
      if (!(spec.shape == y)) return false;
    }
    const auto is_number = [&](GraphEntry e) {
      const Shape& x = to().spec(e).shape;
      return x.rank() <= 1 && x.size() == 1;
    };
    bool known = false;
    for (GraphEntry e : node.inputs) {
      if (is_number(e)) continue;
      if (to().spec(e).shape.rank() != rank) return false;
      known |= IsKnown(e) && to().spec(e).shape == y;
    }
    if (!known) return false;
    for (GraphEntry& e : node.inputs) {
      if (!is_number(e)) e = First(e, node);
    }
    const uint32_t all = (1u << node.outputs.size()) - 1;
    Add(id, std::move(node), all);
    return true;
  }

  // A transpose of the user's own that leads back.
  bool Undo(int id, const GraphNode& node) {
    const int rank = node.outputs[0].shape.rank();
    if (rank < 3 || rank > 5 || !IsTranspose(node, ToFirst(rank)) ||
        !IsKnown(node.inputs[0]))
      return false;
    rewriter_.Replace(id, {First(node.inputs[0], node)});
    return true;
  }

  // A transpose of the user's own to channels last: what it read has them first.
  void NoteTranspose(int id) {
    const GraphNode& node = to().nodes.back();
    const int rank = node.outputs[0].shape.rank();
    if (node.is_input() || rank < 3 || rank > 5 || !IsTranspose(node, ToLast(rank)))
      return;
    const GraphEntry last = rewriter_.Moved(GraphEntry{id, 0});
    first_[{last.node, last.index}] = node.inputs[0];
  }

  const Graph& graph_;
  Rewriter rewriter_;
  // Values with channels last -> the same with channels first, in the new graph.
  std::map<std::pair<int, int>, GraphEntry> first_;
};

}  // namespace

Graph PutChannelsFirst(const Graph& graph) {
  static const bool disabled =
      (',' + GetOption(Option::kDisable) + ',').find(",channels,") != std::string::npos;
  if (disabled || std::none_of(graph.nodes.begin(), graph.nodes.end(), HasWork))
    return graph;
  return ChannelsPass(graph).Run();
}

}  // namespace plait
