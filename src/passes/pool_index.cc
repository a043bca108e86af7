// Pass pool_index.

#include "passes/pool_index.h"

#include <optional>
#include <unordered_map>

#include "passes/node_fields.h"

namespace plait {
namespace {

struct Window {
  Shape kernel, stride, pad;
};

Shape ShapeOf(const GraphNode& node, const char* name, int64_t otherwise) {
  const Shape s = AttrCodec<Shape>::Decode(FieldOf(node, name), "Pooling");
  return s.rank() > 0 ? s : Shape::Filled(2, otherwise);
}

// The windows of a forward max pooling that bytes can tell apart.
std::optional<Window> WindowOf(const Graph& graph, const GraphNode& node) {
  if (node.is_input() || node.op->name != "Pooling" || node.backward) return {};
  if (TextOf(node, "pool_type") != "max" || TextOf(node, "global_pool") != "False")
    return {};
  const std::string layout = TextOf(node, "layout");
  if (layout != "None" && layout != "NCHW") return {};
  if (graph.spec(node.inputs[0]).shape.rank() != 4) return {};
  Window w{ShapeOf(node, "kernel", 1), ShapeOf(node, "stride", 1),
           ShapeOf(node, "pad", 0)};
  // Small arrays cost little to keep.
  constexpr int64_t kWorthIt = 16 << 20;
  if (graph.Bytes(node.inputs[0]) < kWorthIt) return {};
  // Other windows are found more slowly than the memory is worth.
  const Shape two{2, 2};
  if (!(w.kernel == two) || !(w.stride == two) || !(w.pad == Shape{0, 0})) return {};
  return w;
}

class PoolIndexPass {
 public:
  explicit PoolIndexPass(const Graph& graph) : graph_(graph), users_(graph.size()) {}

  Graph Run() {
    for (size_t id = 0; id < graph_.size(); ++id) {
      for (GraphEntry e : graph_.nodes[id].inputs)
        users_[e.node].push_back(static_cast<int>(id));
    }
    for (GraphEntry e : graph_.outputs) users_[e.node].push_back(-1);
    for (size_t id = 0; id < graph_.size(); ++id) Find(static_cast<int>(id));
    return sites_.empty() ? graph_ : Rewrite();
  }

 private:
  // One max pooling whose pooled array need not be kept.
  struct Site {
    int pooling, gradient;
    int sign = -1, mask = -1;  // of the relu before it: x > 0, and where(x > 0, dx, x)
    Window window;
  };

  bool IsOp(int id, const char* name) const {
    return id >= 0 && !graph_.nodes[id].is_input() && graph_.nodes[id].op->name == name;
  }

  void Find(int id) {
    const std::optional<Window> window = WindowOf(graph_, graph_.nodes[id]);
    if (!window) return;
    const GraphEntry x = graph_.nodes[id].inputs[0];
    Site site{id, -1, -1, -1, *window};
    for (int user : users_[x.node]) {
      if (user < 0) {  // the array is an output and is kept all the same
        return;
      }
      const GraphNode& node = graph_.nodes[user];
      if (!node.backward) {
        if (user != id && IsOp(user, "Pooling")) return;  // whose gradient is whose?
        continue;
      }
      if (IsOp(user, "_backward_Pooling_max") && node.inputs[1] == x &&
          site.gradient < 0) {
        site.gradient = user;
      } else if (IsOp(user, "_greater_scalar") && site.sign < 0) {
        site.sign = user;
      } else if (IsOp(user, "where") && (site.mask < 0 || site.mask == user)) {
        site.mask = user;
      } else {
        return;
      }
    }
    if (site.gradient < 0 || (site.sign < 0) != (site.mask < 0)) return;
    if (!(graph_.nodes[site.gradient].outputs[0].shape == graph_.spec(x).shape)) return;
    if (site.mask >= 0 && !IsMask(site, x)) return;
    sites_.push_back(site);
  }

  bool IsMask(const Site& site, GraphEntry x) const {
    const GraphNode& mask = graph_.nodes[site.mask];
    const GraphNode& sign = graph_.nodes[site.sign];
    if (mask.inputs.size() != 3 || users_[site.sign].size() != 1 ||
        users_[site.gradient].size() != 1 ||
        AttrCodec<double>::Decode(FieldOf(sign, "scalar"), "scalar") != 0)
      return false;
    return mask.inputs[0] == GraphEntry{site.sign, 0} &&
           mask.inputs[1] == GraphEntry{site.gradient, 0} && mask.inputs[2] == x;
  }

  Graph Rewrite() {
    std::unordered_map<int, const Site*> at;  // by the nodes that change
    for (const Site& s : sites_) {
      at[s.pooling] = &s;
      at[s.gradient] = &s;
      if (s.mask >= 0) at[s.mask] = at[s.sign] = &s;
    }
    Graph out;
    moved_.resize(graph_.size());
    for (size_t i = 0; i < graph_.size(); ++i) {
      const int id = static_cast<int>(i);
      const auto it = at.find(id);
      const Site* site = it == at.end() ? nullptr : it->second;
      if (site != nullptr && site->mask >= 0 &&
          (id == site->sign || id == site->gradient)) {
        continue;  // what they did is done at the mask
      }
      if (site != nullptr && id != site->pooling) {
        EmitGradient(*site, id, out);
        continue;
      }
      Keep(id, out);
      if (site != nullptr) EmitIndex(*site, out);
    }
    for (int id : graph_.inputs) out.inputs.push_back(moved_[id][0].node);
    for (GraphEntry e : graph_.outputs) out.outputs.push_back(moved_[e.node][e.index]);
    return out;
  }

  void Keep(int id, Graph& out) {
    GraphNode node = graph_.nodes[id];
    for (GraphEntry& e : node.inputs) e = moved_[e.node][e.index];
    // A sum over batch, rows and columns (a bias's gradient) is the same before the
    // elements are spread, where there are fewer of them.
    if (IsOp(id, "sum") && TextOf(node, "axis") == "(0, 2, 3)" &&
        TextOf(node, "exclude") == "False") {
      const auto it = before_.find(graph_.nodes[id].inputs[0].node);
      if (it != before_.end()) node.inputs[0] = it->second;
    }
    const int place = static_cast<int>(out.size());
    for (int i = 0; i < static_cast<int>(node.outputs.size()); ++i)
      moved_[id].push_back({place, i});
    out.Add(std::move(node));
  }

  static ParamsRef ParamsOfWindow(const OpDef& op, const Window& w,
                                  const Shape* result) {
    SmallVector<NamedAttr, 8> attrs{{"kernel", AttrCodec<Shape>::Encode(w.kernel)},
                                    {"stride", AttrCodec<Shape>::Encode(w.stride)},
                                    {"pad", AttrCodec<Shape>::Encode(w.pad)}};
    if (result != nullptr)
      attrs.push_back({"result", AttrCodec<Shape>::Encode(*result)});
    return MakeParams(op, attrs);
  }

  void EmitIndex(const Site& site, Graph& out) {
    static const OpDef& op = GetOp("_pooling_index");
    const GraphNode& pooling = graph_.nodes[site.pooling];
    const GraphEntry x = pooling.inputs[0];
    GraphNode node;
    node.op = &op;
    node.params = ParamsOfWindow(op, site.window, nullptr);
    node.name = pooling.name + "_index";
    node.inputs = {moved_[x.node][x.index], moved_[site.pooling][0]};
    node.outputs.push_back({pooling.outputs[0].shape, DType::kUint8});
    index_of_[site.pooling] = {static_cast<int>(out.size()), 0};
    out.Add(std::move(node));
  }

  // The gradient, at the place of the node `id` whose value it is.
  void EmitGradient(const Site& site, int id, Graph& out) {
    static const OpDef& op = GetOp("_backward_pooling_index");
    const GraphNode& gradient = graph_.nodes[site.gradient];
    const GraphEntry y = moved_[site.pooling][0];
    GraphEntry dy = moved_[gradient.inputs[0].node][gradient.inputs[0].index];
    if (site.mask >= 0) {
      const Spec spec = out.spec(y);
      GraphNode sign = graph_.nodes[site.sign];
      sign.inputs = {y};
      sign.outputs[0].shape = spec.shape;
      GraphNode mask = graph_.nodes[site.mask];
      mask.inputs = {{static_cast<int>(out.size()), 0}, dy, y};
      mask.outputs[0].shape = spec.shape;
      out.Add(std::move(sign));
      out.Add(std::move(mask));
      dy = {static_cast<int>(out.size()) - 1, 0};
    }
    GraphNode node = gradient;
    node.op = &op;
    node.params = ParamsOfWindow(op, site.window, &gradient.outputs[0].shape);
    node.inputs = {dy, index_of_.at(site.pooling)};
    before_[id] = dy;
    moved_[id] = {{static_cast<int>(out.size()), 0}};
    out.Add(std::move(node));
  }

  const Graph& graph_;
  std::vector<std::vector<int>> users_;  // -1: an output of the graph
  std::vector<Site> sites_;
  std::vector<SmallVector<GraphEntry, 1>> moved_;
  std::unordered_map<int, GraphEntry> index_of_;  // by pooling
  std::unordered_map<int, GraphEntry> before_;    // dy, by the node that spreads it
};

}  // namespace

Graph NotePoolIndices(const Graph& graph) {
  return PoolIndexPass(graph).Run();
}

}  // namespace plait
