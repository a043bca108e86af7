// Pass attention.

#include "passes/attention.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <unordered_map>

#include "base/options.h"
#include "passes/attention_graph.h"
#include "passes/casts.h"
#include "passes/infer.h"
#include "passes/node_fields.h"
#include "passes/simplify.h"

namespace plait {
namespace {

double NumberOf(const GraphNode& node, std::string_view name) {
  return AttrCodec<double>::Decode(FieldOf(node, name), "attention");
}

using Site = AttentionSite;

class AttentionPass {
 public:
  AttentionPass(const Graph& graph, const std::vector<bool>& wanted)
      : graph_(graph), g_(graph, wanted) {}

  Graph Run() {
    for (size_t id = 0; id < graph_.size(); ++id) {
      std::optional<Site> site = Find(static_cast<int>(id));
      if (site) sites_.emplace(site->anchor, *site);
    }
    return sites_.empty() ? graph_ : Rewrite();
  }

 private:
  const GraphNode& At(int id) const { return graph_.nodes[id]; }
  const Shape& ShapeOf(GraphEntry e) const { return g_.ShapeOf(e); }

  std::optional<Site> Find(int softmax) const {
    if (!g_.IsOp(softmax, "softmax")) return {};
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
    // A factor without its mask is no mask.
    if (site.factor.node >= 0 && site.mask_kind != Site::Mask::kHides) return {};
    if (site.mask_kind == Site::Mask::kFilled &&
        (g_.IsTracked(site.q) || g_.IsTracked(site.k)))
      return {};
    if (!Wins(site)) return {};
    if (site.interleaved > 0) return site;
    TakeFactors(site);
    TakeTransposes(site);
    return site;
  }

  // With gradients, weights are computed twice. While they are few, keeping them is
  // faster, and they take little memory.
  bool Wins(const Site& site) const {
    constexpr int64_t kFewQueries = 12, kFewKeys = 96;
    const int rank = site.scores.rank();
    return (!g_.IsTracked(site.q) && !g_.IsTracked(site.k) && !g_.IsTracked(site.v)) ||
           (site.scores[rank - 2] >= kFewQueries && site.scores[rank - 1] >= kFewKeys);
  }

  // From the weights on: a mask as a factor, dropout, and the product with the values.
  bool FindWeights(int softmax, Site& site) const {
    int last = softmax, next = g_.SkipCasts(g_.OnlyReader(softmax));
    if (g_.IsOneOf(next, {"broadcast_mul", "elemwise_mul"})) {
      const auto& in = At(next).inputs;
      site.factor = in[g_.BehindCasts(in[0]).node == last ? 1 : 0];
      if (g_.BehindCasts(in[site.factor == in[0] ? 1 : 0]).node != last) return false;
      last = next;
      next = g_.SkipCasts(g_.OnlyReader(next));
    }
    if (g_.IsOp(next, "Dropout")) {
      const GraphNode& dropout = At(next);
      if (TextOf(dropout, "mode") != "training" ||
          AttrCodec<Shape>::Decode(FieldOf(dropout, "axes"), "attention").rank() > 0)
        return false;
      site.dropout = NumberOf(dropout, "p");
      if (site.dropout > 0) site.named = next;
      if (g_.CountReaders(next) != 1) return false;
      last = next;
      next = g_.SkipCasts(g_.OnlyReader(next));
    }
    if (next < 0) return false;
    // The weights must be the left side, and that alone.
    const bool interleaved =
        g_.IsOneOf(next, {"_contrib_interleaved_matmul_selfatt_valatt",
                          "_contrib_interleaved_matmul_encdec_valatt"});
    if (!interleaved && !IsProduct(next, false, false)) return false;
    const GraphEntry weights = At(next).inputs[interleaved ? 1 : 0];
    if (!(ShapeOf(weights) == site.scores) || g_.BehindCasts(weights).node != last)
      return false;
    site.v = At(next).inputs[interleaved ? 0 : 1];
    site.anchor = next;
    if (site.named < 0) site.named = next;
    if (interleaved) {
      site.interleaved = static_cast<int64_t>(NumberOf(At(next), "heads"));
      return true;
    }
    return ShapeOf(site.v).size(0, site.scores.rank() - 2) ==
           site.scores.size(0, site.scores.rank() - 2);
  }

  bool IsProduct(int id, bool transpose_a, bool transpose_b) const {
    if (!g_.IsOneOf(id, {"batch_dot", "_linalg_gemm2"})) return false;
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
      e = g_.BehindCasts(e);
      if (e.node < 0 || At(e.node).is_input() || g_.CountReaders(e.node) != 1)
        return false;
      const GraphNode& node = At(e.node);
      if (const std::optional<double> factor = g_.FactorOf(e.node)) {
        if (!(*factor > 0)) return false;
        // A mask that comes after it would have been scaled as well.
        site.scale *= *factor;
        e = node.inputs[0];
      } else if (g_.IsOneOf(e.node, {"broadcast_add", "elemwise_add"})) {
        if (site.mask.node >= 0 || site.scale != 1) return false;
        const int side = LeadsToProduct(node.inputs[0]) ? 0 : 1;
        site.mask = node.inputs[1 - side];
        e = node.inputs[side];
        if (!FitsAsMask(g_, site)) return false;
      } else if (g_.IsOp(e.node, "where")) {
        if (site.scale != 1 || !FindWhere(g_, e.node, site, e)) return false;
      } else if (site.interleaved > 0) {
        return FindInterleaved(e.node, site);
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

  // A product of interleaved projections, of the array that the values are in.
  bool FindInterleaved(int id, Site& site) const {
    const GraphNode& node = At(id);
    if (g_.IsOp(id, "_contrib_interleaved_matmul_selfatt_qk")) {
      site.q = site.k = node.inputs[0];
    } else if (g_.IsOp(id, "_contrib_interleaved_matmul_encdec_qk")) {
      site.q = node.inputs[0];
      site.k = node.inputs[1];
    } else {
      return false;
    }
    const DType dtype = graph_.spec(site.q).dtype;
    if (!(site.k == site.v) || site.interleaved != NumberOf(node, "heads") ||
        site.scores.rank() != 3 || graph_.spec(site.k).dtype != dtype ||
        At(site.anchor).outputs[0].dtype != dtype)
      return false;
    const Shape& y = At(site.anchor).outputs[0].shape;
    const auto size = static_cast<double>(y[2] / site.interleaved);
    site.scale /= std::sqrt(size);
    return size > 0;
  }

  // Factors of queries or keys alone are factors of all scores.
  void TakeFactors(Site& site) const {
    for (GraphEntry* e : {&site.q, &site.k}) {
      for (;;) {
        const std::optional<double> factor = g_.FactorOf(e->node);
        if (!factor || !(*factor > 0) || g_.CountReaders(e->node) != 1) break;
        site.scale *= *factor;
        *e = At(e->node).inputs[0];
      }
    }
  }

  bool LeadsToProduct(GraphEntry e) const {
    e = g_.BehindCasts(e);
    while (g_.FactorOf(e.node)) e = g_.BehindCasts(At(e.node).inputs[0]);
    return IsProduct(e.node, false, true) || IsProduct(e.node, false, false) ||
           g_.IsOneOf(e.node, {"_contrib_interleaved_matmul_selfatt_qk",
                               "_contrib_interleaved_matmul_encdec_qk"});
  }

  // k^T as a right side: what it is the transpose of.
  bool TransposedKey(GraphEntry e, Site& site) const {
    const int rank = site.scores.rank();
    const GraphNode& node = At(e.node);
    if (g_.IsOp(e.node, "transpose")) {
      const Shape axes = AttrCodec<Shape>::Decode(FieldOf(node, "axes"), "attention");
      if (!(axes == (rank == 3 ? Shape{0, 2, 1} : Shape{0, 1, 3, 2}))) return false;
    } else if (g_.IsOp(e.node, "SwapAxis")) {
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
      if (!g_.IsOp(e.node, "Reshape")) return {};
      const Shape& s = ShapeOf(e);
      e = At(e.node).inputs[0];
      const Shape& from = ShapeOf(e);
      if (from.rank() != 4 || from[0] * from[1] != s[0] || from[2] != s[1]) return {};
    }
    if (!SwapsHeads(e.node)) return {};
    return At(e.node).inputs[0];
  }
  bool SwapsHeads(int id) const {
    return g_.IsOp(id, "transpose") &&
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
    int next = g_.OnlyReader(site.anchor);
    if (site.scores.rank() == 3) {
      if (!g_.IsOp(next, "Reshape")) return;
      const Shape& s = At(next).outputs[0].shape;
      if (s.rank() != 4 || s[0] != rows[0] || s[1] != rows[2] || s[2] != rows[1])
        return;
      next = g_.OnlyReader(next);
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

  GraphEntry Add(const char* name, std::initializer_list<GraphEntry> inputs,
                 std::initializer_list<NamedAttr> attrs, const std::string& node_name,
                 Graph& out) const {
    GraphNode node;
    node.op = &GetOp(name);
    node.params = MakeParams(*node.op, {attrs.begin(), attrs.size()});
    node.name = node_name;
    Specs in, specs(1);
    for (GraphEntry e : inputs) {
      node.inputs.push_back(e);
      in.push_back(out.spec(e));
    }
    InferPartial(*node.op, *node.params, in, specs);
    node.outputs.push_back(specs[0]);
    out.Add(std::move(node));
    return {static_cast<int>(out.size()) - 1, 0};
  }
  // As it was before it was repeated for the heads, or in this shape.
  GraphEntry ForHeads(GraphEntry e, const Shape& full, const Shape& shape,
                      Graph& out) const {
    const GraphEntry before = BeforeHeads(g_, e, full);
    if (before.node >= 0) return Moved(before);
    if (ShapeOf(e) == shape) return Moved(e);
    return Add("Reshape", {Moved(e)}, {{"shape", AttrCodec<Shape>::Encode(shape)}},
               At(e.node).name + "_of_heads", out);
  }

  // The mask with as many axes as (batch, heads, queries, keys).
  GraphEntry MaskOf(const Site& site, const Shape& full, Graph& out) const {
    const Shape& mask = ShapeOf(site.mask);
    Shape s = mask;
    if (site.scores.rank() == 3 && mask.rank() == 3) {
      const bool each = mask[0] != 1;
      s = {each ? full[0] : 1, each ? full[1] : 1, mask[1], mask[2]};
    }
    const GraphEntry e = ForHeads(site.mask, full, s, out);
    const std::string name = At(site.mask.node).name;
    const auto cast = [&](GraphEntry x, DType dtype) {
      return Add("Cast", {x}, {{"dtype", AttrCodec<DType>::Encode(dtype)}},
                 name + "_cast", out);
    };
    if (site.mask_kind == Site::Mask::kAdded) return e;
    if (site.mask_kind == Site::Mask::kHides)
      return IsFloat(out.spec(e).dtype) ? cast(e, DType::kBool) : e;
    // 0 where the mask is not 0, else the number.
    const GraphEntry seen = Add("_not_equal_scalar", {cast(e, DType::kFloat32)},
                                {{"scalar", {0.0}}}, name + "_seen", out);
    const GraphEntry hidden =
        Add("_minus_scalar", {seen}, {{"scalar", {1.0}}}, name + "_hidden", out);
    return Add("_mul_scalar", {hidden}, {{"scalar", {-site.filled}}}, name + "_added",
               out);
  }

  // (batch, heads, queries, keys).
  Shape FullOf(const Site& site) const {
    const int rank = site.scores.rank();
    // Three axes: each of the first one counts as a batch with one head.
    Shape full{site.scores[0], 1, site.scores[rank - 2], site.scores[rank - 1]};
    const Shape& q = ShapeOf(site.q);
    if (site.interleaved > 0) {
      full[0] = q[1];
      full[1] = site.interleaved;
    }
    if (site.rows_first) full[0] = q[0];
    if (site.rows_first || rank == 4) full[1] = q[site.rows_first ? 2 : 1];
    return full;
  }

  void Emit(const Site& site, Graph& out) const {
    const Shape full = FullOf(site);
    GraphNode node;
    node.inputs = {Moved(site.q)};
    if (site.interleaved == 0 || !(site.q == site.k))
      node.inputs.push_back(Moved(site.k));
    if (site.interleaved == 0) node.inputs.push_back(Moved(site.v));
    if (site.mask.node >= 0) node.inputs.push_back(MaskOf(site, full, out));
    if (site.length.node >= 0) {
      const Shape each{full[0], full[1], full[2]};
      node.inputs.push_back(ForHeads(site.length, each, each, out));
    }
    SmallVector<NamedAttr, 6> attrs{{"scale", {site.scale}},
                                    {"dropout", {site.dropout}},
                                    {"use_mask", {site.mask.node >= 0}},
                                    {"use_length", {site.length.node >= 0}}};
    if (site.interleaved > 0) {
      attrs.push_back({"heads", {site.interleaved}});
      attrs.push_back({"self", {site.q == site.k}});
    } else {
      attrs.push_back({"layout", {std::string(site.rows_first ? "BTHD" : "BHTD")}});
    }
    node.op = &GetOp(site.interleaved > 0 ? "_interleaved_attention"
                                          : "_contrib_dot_product_attention");
    node.params = MakeParams(*node.op, attrs);
    node.name = At(site.named).name;
    node.group = At(site.anchor).group;
    const Spec& y = At(site.anchor).outputs[0];
    node.outputs.push_back(y);
    node.outputs.push_back(
        {{full[0], full[1], full[2]},
         y.dtype == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32});
    node.outputs.push_back({{2}, DType::kUint64});
    out.Add(std::move(node));
  }

  const Graph& graph_;
  const AttentionGraph g_;
  std::unordered_map<int, Site> sites_;  // by anchor
  std::vector<int> moved_;
};

}  // namespace

Graph FuseAttention(const Graph& graph, const std::vector<bool>& wanted) {
  static const bool disabled =
      (',' + GetOption(Option::kDisable) + ',').find(",attention,") !=
      std::string::npos;
  if (disabled) return graph;
  // Mixed precision puts amp_multicast before products, also of equal dtypes.
  const bool casts =
      std::any_of(graph.nodes.begin(), graph.nodes.end(), [](const GraphNode& node) {
        return !node.is_input() && node.op->name == "amp_multicast";
      });
  if (!casts) return AttentionPass(graph, wanted).Run();
  const Graph simple = Prune(SimplifyCasts(graph));
  return AttentionPass(simple, wanted).Run();
}

}  // namespace plait
