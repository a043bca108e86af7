// Pass attention.

#include "passes/attention.h"

#include <cmath>
#include <optional>
#include <unordered_map>

#include "base/options.h"
#include "passes/node_fields.h"
#include "passes/simplify.h"

namespace plait {
namespace {

double NumberOf(const GraphNode& node, std::string_view name) {
  return AttrCodec<double>::Decode(FieldOf(node, name), "attention");
}

// What one dot_product_attention replaces.
struct Site {
  GraphEntry q, k, v;
  GraphEntry mask, length;  // node < 0: none
  double scale = 1;
  double dropout = 0;
  bool rows_first = false;  // q, k, v are (batch, length, heads, size)
  int anchor = -1;          // the node whose place it takes
  int named = -1;           // whose name it takes: of what drew random numbers
  Shape scores;             // (..., queries, keys)
};

class AttentionPass {
 public:
  AttentionPass(const Graph& graph, const std::vector<bool>& wanted)
      : graph_(graph), readers_(graph.size()), tracked_(graph.size(), false) {
    for (size_t i = 0; i < graph.inputs.size(); ++i)
      tracked_[graph.inputs[i]] = i < wanted.size() && wanted[i];
    for (size_t id = 0; id < graph.size(); ++id) {
      for (GraphEntry e : graph.nodes[id].inputs) {
        readers_[e.node].push_back(static_cast<int>(id));
        if (tracked_[e.node]) tracked_[id] = true;
      }
    }
    for (GraphEntry e : graph.outputs) readers_[e.node].push_back(-1);
  }

  Graph Run() {
    for (size_t id = 0; id < graph_.size(); ++id) {
      std::optional<Site> site = Find(static_cast<int>(id));
      if (site) sites_.emplace(site->anchor, *site);
    }
    return sites_.empty() ? graph_ : Rewrite();
  }

 private:
  const GraphNode& At(int id) const { return graph_.nodes[id]; }
  bool IsOp(int id, std::string_view name) const {
    return id >= 0 && !At(id).is_input() && At(id).op->name == name;
  }
  bool IsOneOf(int id, std::initializer_list<std::string_view> names) const {
    for (std::string_view name : names)
      if (IsOp(id, name)) return true;
    return false;
  }
  const Shape& ShapeOf(GraphEntry e) const { return graph_.spec(e).shape; }

  // The one reader of a node's first output, or -1.
  int OnlyReader(int id) const {
    return readers_[id].size() == 1 ? readers_[id][0] : -1;
  }
  // Past casts between floats that nothing else reads.
  int SkipCasts(int id) const {
    while (IsOneOf(id, {"Cast", "amp_cast"}) && IsFloat(At(id).outputs[0].dtype) &&
           OnlyReader(id) >= 0)
      id = OnlyReader(id);
    return id;
  }
  GraphEntry BehindCasts(GraphEntry e) const {
    while (IsOneOf(e.node, {"Cast", "amp_cast"}) && OnlyReader(e.node) >= 0 &&
           IsFloat(graph_.spec(At(e.node).inputs[0]).dtype))
      e = At(e.node).inputs[0];
    return e;
  }

  std::optional<Site> Find(int softmax) const {
    if (!IsOp(softmax, "softmax")) return {};
    const GraphNode& node = At(softmax);
    const Shape& shape = node.outputs[0].shape;
    const int64_t axis = static_cast<int64_t>(NumberOf(node, "axis"));
    if ((axis != -1 && axis != shape.rank() - 1) || shape.rank() < 3 ||
        shape.rank() > 4 || shape.size() == 0)
      return {};
    Site site;
    site.scores = shape;
    if (node.inputs.size() == 2) site.length = node.inputs[1];
    const std::string temperature = TextOf(node, "temperature");
    if (temperature != "None") site.scale /= NumberOf(node, "temperature");
    if (!(site.scale > 0) || !FindWeights(softmax, site) ||
        !FindScores(node.inputs[0], site))
      return {};
    if (!Wins(site)) return {};
    TakeTransposes(site);
    return site;
  }

  // With gradients, weights are computed twice. While they are few, keeping them is
  // faster, and they take little memory.
  bool Wins(const Site& site) const {
    constexpr int64_t kFewQueries = 12, kFewKeys = 96;
    const int rank = site.scores.rank();
    return (!tracked_[site.q.node] && !tracked_[site.k.node] &&
            !tracked_[site.v.node]) ||
           (site.scores[rank - 2] >= kFewQueries && site.scores[rank - 1] >= kFewKeys);
  }

  // From the weights on: dropout, and the product with the values.
  bool FindWeights(int softmax, Site& site) const {
    int next = SkipCasts(OnlyReader(softmax));
    if (IsOp(next, "Dropout")) {
      const GraphNode& dropout = At(next);
      if (TextOf(dropout, "mode") != "training" ||
          AttrCodec<Shape>::Decode(FieldOf(dropout, "axes"), "attention").rank() > 0)
        return false;
      site.dropout = NumberOf(dropout, "p");
      if (site.dropout > 0) site.named = next;
      if (readers_[next].size() != 1) return false;
      next = SkipCasts(OnlyReader(next));
    }
    if (!IsProduct(next, false, false) || !(ShapeOf(At(next).inputs[0]) == site.scores))
      return false;
    // The weights must be the left side, and that alone.
    const GraphEntry left = BehindCasts(At(next).inputs[0]);
    if (left.node != softmax && !(IsOp(left.node, "Dropout"))) return false;
    site.v = At(next).inputs[1];
    if (ShapeOf(site.v).size(0, site.scores.rank() - 2) !=
        site.scores.size(0, site.scores.rank() - 2))
      return false;
    site.anchor = next;
    if (site.named < 0) site.named = next;
    return true;
  }

  bool IsProduct(int id, bool transpose_a, bool transpose_b) const {
    if (!IsOneOf(id, {"batch_dot", "_linalg_gemm2"})) return false;
    const GraphNode& node = At(id);
    if (node.op->name == "_linalg_gemm2" &&
        (NumberOf(node, "alpha") != 1 || NumberOf(node, "axis") != -2))
      return false;
    return (TextOf(node, "transpose_a") == "True") == transpose_a &&
           (TextOf(node, "transpose_b") == "True") == transpose_b;
  }

  // Back from the softmax: factors, a mask, and the product of queries and keys.
  bool FindScores(GraphEntry e, Site& site) const {
    for (;;) {
      e = BehindCasts(e);
      if (e.node < 0 || At(e.node).is_input() || readers_[e.node].size() != 1)
        return false;
      const GraphNode& node = At(e.node);
      if (const std::optional<double> factor = FactorOf(e.node)) {
        if (!(*factor > 0)) return false;
        // A mask that comes after it would have been scaled as well.
        site.scale *= *factor;
        e = node.inputs[0];
      } else if (IsOneOf(e.node, {"broadcast_add", "elemwise_add"})) {
        if (site.mask.node >= 0 || site.scale != 1) return false;
        const int side = LeadsToProduct(node.inputs[0]) ? 0 : 1;
        site.mask = node.inputs[1 - side];
        e = node.inputs[side];
        if (!FitsAsMask(site)) return false;
      } else if (IsProduct(e.node, false, true)) {
        site.q = node.inputs[0];
        site.k = node.inputs[1];
        return FitsTogether(site);
      } else if (IsProduct(e.node, false, false)) {
        site.q = node.inputs[0];
        return TransposedKey(node.inputs[1], site) && FitsTogether(site);
      } else {
        return false;
      }
    }
  }

  std::optional<double> FactorOf(int id) const {
    if (IsOp(id, "_mul_scalar")) return NumberOf(At(id), "scalar");
    if (IsOp(id, "_div_scalar")) return 1 / NumberOf(At(id), "scalar");
    if (!IsOp(id, "_contrib_div_sqrt_dim")) return {};
    const Shape& s = At(id).outputs[0].shape;
    return 1 / std::sqrt(static_cast<double>(s[s.rank() - 1]));
  }

  bool LeadsToProduct(GraphEntry e) const {
    e = BehindCasts(e);
    while (FactorOf(e.node)) e = BehindCasts(At(e.node).inputs[0]);
    return IsProduct(e.node, false, true) || IsProduct(e.node, false, false);
  }

  bool FitsAsMask(const Site& site) const {
    const Spec& mask = graph_.spec(site.mask);
    const int rank = site.scores.rank();
    if (tracked_[site.mask.node] || !IsFloat(mask.dtype) || mask.shape.rank() > rank)
      return false;
    for (int i = 1; i <= mask.shape.rank(); ++i) {
      const int64_t n = mask.shape[mask.shape.rank() - i];
      if (n != 1 && n != site.scores[rank - i]) return false;
    }
    return true;
  }

  // k^T as a right side: what it is the transpose of.
  bool TransposedKey(GraphEntry e, Site& site) const {
    const int rank = site.scores.rank();
    const GraphNode& node = At(e.node);
    if (IsOp(e.node, "transpose")) {
      const Shape axes = AttrCodec<Shape>::Decode(FieldOf(node, "axes"), "attention");
      if (!(axes == (rank == 3 ? Shape{0, 2, 1} : Shape{0, 1, 3, 2}))) return false;
    } else if (IsOp(e.node, "SwapAxis")) {
      const auto dim = [&](const char* name) {
        const int64_t d = static_cast<int64_t>(NumberOf(node, name));
        return d < 0 ? d + rank : d;
      };
      if (dim("dim1") + dim("dim2") != 2 * rank - 3 ||
          std::abs(dim("dim1") - dim("dim2")) != 1)
        return false;
    } else {
      return false;
    }
    site.k = node.inputs[0];
    return true;
  }

  bool FitsTogether(const Site& site) const {
    const int rank = site.scores.rank();
    const DType dtype = graph_.spec(site.q).dtype;
    for (GraphEntry e : {site.q, site.k, site.v}) {
      if (graph_.spec(e).dtype != dtype || ShapeOf(e).rank() != rank) return false;
      if (ShapeOf(e).size(0, rank - 2) != site.scores.size(0, rank - 2)) return false;
    }
    return IsFloat(dtype) && At(site.anchor).outputs[0].dtype == dtype &&
           ShapeOf(site.q)[rank - 2] == site.scores[rank - 2] &&
           ShapeOf(site.k)[rank - 2] == site.scores[rank - 1] &&
           ShapeOf(site.v)[rank - 2] == site.scores[rank - 1];
  }

  // What a (batch * heads, length, size) array was as (batch, length, heads, size), or
  // node -1. With four axes there is no reshape between.
  GraphEntry RowsFirst(GraphEntry e) const {
    if (ShapeOf(e).rank() == 3) {
      if (!IsOp(e.node, "Reshape")) return {};
      const Shape& s = ShapeOf(e);
      e = At(e.node).inputs[0];
      const Shape& from = ShapeOf(e);
      if (from.rank() != 4 || from[0] * from[1] != s[0] || from[2] != s[1]) return {};
    }
    if (!SwapsHeads(e.node)) return {};
    return At(e.node).inputs[0];
  }
  bool SwapsHeads(int id) const {
    return IsOp(id, "transpose") &&
           AttrCodec<Shape>::Decode(FieldOf(At(id), "axes"), "attention") ==
               Shape{0, 2, 1, 3};
  }

  // The transposes before and after, if all of them are there.
  void TakeTransposes(Site& site) const {
    const GraphEntry q = RowsFirst(site.q), k = RowsFirst(site.k),
                     v = RowsFirst(site.v);
    if (q.node < 0 || k.node < 0 || v.node < 0) return;
    const Shape& rows = ShapeOf(q);  // (batch, length, heads, size)
    for (GraphEntry e : {k, v}) {
      if (ShapeOf(e)[0] != rows[0] || ShapeOf(e)[2] != rows[2]) return;
    }
    int next = OnlyReader(site.anchor);
    if (site.scores.rank() == 3) {
      if (!IsOp(next, "Reshape")) return;
      const Shape& s = At(next).outputs[0].shape;
      if (s.rank() != 4 || s[0] != rows[0] || s[1] != rows[2] || s[2] != rows[1])
        return;
      next = OnlyReader(next);
    }
    if (next < 0 || !SwapsHeads(next)) return;
    site.q = q;
    site.k = k;
    site.v = v;
    site.anchor = next;
    site.rows_first = true;
  }

  Graph Rewrite() {
    Graph out;
    moved_.assign(graph_.size(), -1);
    for (size_t id = 0; id < graph_.size(); ++id) {
      const auto it = sites_.find(static_cast<int>(id));
      if (it != sites_.end()) {
        Emit(it->second, out);
      } else {
        GraphNode node = graph_.nodes[id];
        for (GraphEntry& e : node.inputs) e.node = moved_[e.node];
        out.Add(std::move(node));
      }
      moved_[id] = static_cast<int>(out.size()) - 1;
    }
    for (int id : graph_.inputs) out.inputs.push_back(moved_[id]);
    for (GraphEntry e : graph_.outputs)
      out.outputs.push_back({moved_[e.node], e.index});
    return Prune(out);
  }

  GraphEntry Moved(GraphEntry e) const { return {moved_[e.node], e.index}; }

  // The mask with as many axes as (batch, heads, queries, keys).
  GraphEntry MaskOf(const Site& site, const Shape& full, Graph& out) const {
    const Shape& mask = ShapeOf(site.mask);
    Shape s = mask;
    if (site.scores.rank() == 3 && mask.rank() == 3) {
      const bool each = mask[0] != 1;
      s = {each ? full[0] : 1, each ? full[1] : 1, mask[1], mask[2]};
    }
    return s == mask ? Moved(site.mask) : Reshaped(site.mask, s, out);
  }

  GraphEntry Reshaped(GraphEntry e, const Shape& s, Graph& out) const {
    static const OpDef& reshape = GetOp("Reshape");
    const NamedAttr attrs[] = {{"shape", AttrCodec<Shape>::Encode(s)}};
    GraphNode node;
    node.op = &reshape;
    node.params = MakeParams(reshape, attrs);
    node.name = At(e.node).name + "_of_heads";
    node.inputs = {Moved(e)};
    node.outputs.push_back({s, graph_.spec(e).dtype});
    out.Add(std::move(node));
    return {static_cast<int>(out.size()) - 1, 0};
  }

  void Emit(const Site& site, Graph& out) const {
    static const OpDef& attention = GetOp("_contrib_dot_product_attention");
    const Spec& q = graph_.spec(site.q);
    // Three axes: each of the first one counts as a batch with one head.
    Shape full{site.scores[0], 1, site.scores[site.scores.rank() - 2],
               site.scores[site.scores.rank() - 1]};
    if (site.rows_first) full[0] = q.shape[0];
    if (site.rows_first || site.scores.rank() == 4)
      full[1] = q.shape[site.rows_first ? 2 : 1];
    GraphNode node;
    node.inputs = {Moved(site.q), Moved(site.k), Moved(site.v)};
    if (site.mask.node >= 0) node.inputs.push_back(MaskOf(site, full, out));
    if (site.length.node >= 0) {
      const Shape each{full[0], full[1], full[2]};
      node.inputs.push_back(Reshaped(site.length, each, out));
    }
    const NamedAttr attrs[] = {
        {"scale", {site.scale}},
        {"dropout", {site.dropout}},
        {"layout", {std::string(site.rows_first ? "BTHD" : "BHTD")}},
        {"use_mask", {site.mask.node >= 0}},
        {"use_length", {site.length.node >= 0}}};
    node.op = &attention;
    node.params = MakeParams(attention, attrs);
    node.name = At(site.named).name;
    node.group = At(site.anchor).group;
    node.outputs.push_back(At(site.anchor).outputs[0]);
    node.outputs.push_back(
        {{full[0], full[1], full[2]},
         q.dtype == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32});
    node.outputs.push_back({{2}, DType::kUint64});
    out.Add(std::move(node));
  }

  const Graph& graph_;
  std::vector<std::vector<int>> readers_;  // -1: an output of the graph
  std::vector<bool> tracked_;              // gradients flow through it
  std::unordered_map<int, Site> sites_;    // by anchor
  std::vector<int> moved_;
};

}  // namespace

Graph FuseAttention(const Graph& graph, const std::vector<bool>& wanted) {
  static const bool disabled =
      (',' + GetOption(Option::kDisable) + ',').find(",attention,") !=
      std::string::npos;
  return disabled ? graph : AttentionPass(graph, wanted).Run();
}

}  // namespace plait
