// What the pass attention asks of a graph: readers, constants, and forms of masks.

#include "passes/attention_graph.h"

#include <algorithm>
#include <cmath>

#include "passes/node_fields.h"

namespace plait {
namespace {

double NumberOf(const GraphNode& node, std::string_view name) {
  return AttrCodec<double>::Decode(FieldOf(node, name), "attention");
}

bool AsksForShape(const GraphNode& node) {
  return node.op->name == "ones_like" || node.op->name == "zeros_like";
}

}  // namespace

AttentionGraph::AttentionGraph(const Graph& graph, const std::vector<bool>& wanted)
    : graph_(graph), readers_(graph.size()), tracked_(graph.size(), false) {
  for (size_t i = 0; i < graph.inputs.size(); ++i)
    tracked_[graph.inputs[i]] = i < wanted.size() && wanted[i];
  for (size_t id = 0; id < graph.size(); ++id) {
    const GraphNode& node = graph.nodes[id];
    for (GraphEntry e : node.inputs) {
      if (!AsksForShape(node)) readers_[e.node].push_back(static_cast<int>(id));
      if (tracked_[e.node] && !node.op->zero_gradient) tracked_[id] = true;
    }
  }
  for (GraphEntry e : graph.outputs) readers_[e.node].push_back(-1);
}

bool AttentionGraph::IsOneOf(int id,
                             std::initializer_list<std::string_view> names) const {
  return std::any_of(names.begin(), names.end(),
                     [&](std::string_view name) { return IsOp(id, name); });
}

int AttentionGraph::SkipCasts(int id) const {
  while (IsOneOf(id, {"Cast", "amp_cast", "_copy"}) &&
         IsFloat(At(id).outputs[0].dtype) && OnlyReader(id) >= 0)
    id = OnlyReader(id);
  return id;
}

GraphEntry AttentionGraph::BehindCasts(GraphEntry e) const {
  while (IsOneOf(e.node, {"Cast", "amp_cast", "_copy"}) && OnlyReader(e.node) >= 0 &&
         IsFloat(graph_.spec(At(e.node).inputs[0]).dtype))
    e = At(e.node).inputs[0];
  return e;
}

std::optional<double> AttentionGraph::FactorOf(int id) const {
  if (IsOp(id, "_mul_scalar")) return NumberOf(At(id), "scalar");
  if (IsOp(id, "_div_scalar")) return 1 / NumberOf(At(id), "scalar");
  if (!IsOp(id, "_contrib_div_sqrt_dim")) return {};
  const Shape& s = At(id).outputs[0].shape;
  return 1 / std::sqrt(static_cast<double>(s[s.rank() - 1]));
}

std::optional<double> AttentionGraph::ConstantOf(GraphEntry e) const {
  double factor = 1;
  for (;;) {
    if (e.node < 0 || At(e.node).is_input()) return {};
    const GraphNode& node = At(e.node);
    if (IsOneOf(e.node, {"ones_like", "_ones"})) return factor;
    if (IsOp(e.node, "_full")) return factor * NumberOf(node, "value");
    if (const std::optional<double> f = FactorOf(e.node)) {
      factor *= *f;
    } else if (!IsOneOf(e.node, {"Cast", "amp_cast", "Reshape", "broadcast_to",
                                 "broadcast_axis", "broadcast_like"})) {
      return {};
    }
    e = node.inputs[0];
  }
}

bool AttentionGraph::IsBoolean(GraphEntry e) const {
  constexpr std::string_view kCompare[] = {
      "equal", "not_equal", "greater", "greater_equal", "lesser", "lesser_equal"};
  std::vector<int> left{e.node};
  for (int budget = 100; !left.empty(); --budget) {
    const int id = left.back();
    left.pop_back();
    if (budget == 0 || id < 0 || At(id).is_input()) return false;
    const GraphNode& node = At(id);
    if (node.outputs[0].dtype == DType::kBool) continue;
    std::string_view name = node.op->name;
    if (AsksForShape(node) || name == "_ones" || name == "_zeros") continue;
    if (name.find("logical_") != name.npos) continue;
    for (std::string_view before : {"broadcast_", "_"}) {
      if (name.starts_with(before)) {
        name.remove_prefix(before.size());
        break;
      }
    }
    if (name.ends_with("_scalar")) name.remove_suffix(7);
    if (std::find(std::begin(kCompare), std::end(kCompare), name) != std::end(kCompare))
      continue;
    if (IsOneOf(id, {"broadcast_mul", "elemwise_mul"})) {
      for (GraphEntry in : node.inputs) left.push_back(in.node);
    } else if (IsOneOf(id, {"Cast", "amp_cast", "Reshape", "expand_dims", "squeeze",
                            "broadcast_to", "broadcast_axis", "broadcast_like",
                            "transpose", "SwapAxis", "slice", "slice_axis", "tile",
                            "repeat", "BlockGrad", "_copy"})) {
      left.push_back(node.inputs[0].node);
    } else {
      return false;
    }
  }
  return true;
}

bool FitsAsMask(const AttentionGraph& g, const AttentionSite& site) {
  const Spec& mask = g.graph().spec(site.mask);
  const int rank = site.scores.rank();
  if (g.IsTracked(site.mask) || mask.shape.rank() > rank) return false;
  if (site.mask_kind == AttentionSite::Mask::kAdded && !IsFloat(mask.dtype))
    return false;
  for (int i = 1; i <= mask.shape.rank(); ++i) {
    const int64_t n = mask.shape[mask.shape.rank() - i];
    if (n != 1 && n != site.scores[rank - i]) return false;
  }
  return true;
}

// With a factor that is 0 wherever the mask is, hidden keys count nothing, also where
// all are hidden. Without it all keys count alike there: a number that is added does
// the same if it is so large that scores vanish beside it.
bool FindWhere(const AttentionGraph& g, int where, AttentionSite& site,
               GraphEntry& scores) {
  constexpr double kHidden = -1e4, kVanish = -1e15;
  if (site.mask.node >= 0) return false;
  const GraphNode& node = g.At(where);
  const std::optional<double> c = g.ConstantOf(node.inputs[2]);
  if (!c || !(*c <= kHidden) || std::isinf(*c)) return false;
  site.mask = node.inputs[0];
  if (site.factor.node >= 0) {
    if (!(site.factor == site.mask) || !g.IsBoolean(site.mask)) return false;
    site.mask_kind = AttentionSite::Mask::kHides;
  } else {
    const DType dtype = g.graph().spec(node.inputs[1]).dtype;
    if (!(*c <= kVanish) || SizeOf(dtype) < 4) return false;
    site.mask_kind = AttentionSite::Mask::kFilled;
    site.filled = *c;
  }
  scores = node.inputs[1];
  return g.ShapeOf(site.mask).rank() == site.scores.rank() && FitsAsMask(g, site);
}

GraphEntry BeforeHeads(const AttentionGraph& g, GraphEntry e, const Shape& full) {
  const auto behind = [&](GraphEntry x) { return g.At(x.node).inputs[0]; };
  const Shape flat = g.ShapeOf(e);
  while (g.IsOp(e.node, "Cast")) e = behind(e);
  if (!g.IsOp(e.node, "Reshape") || flat.rank() != full.rank() - 1 ||
      flat[0] != full[0] * full[1])
    return {};
  e = behind(e);
  const Shape& wide = g.ShapeOf(e);
  if (wide.rank() != full.rank() || wide[0] != full[0] || wide[1] != full[1] ||
      !g.IsOneOf(e.node, {"broadcast_axis", "broadcast_to", "broadcast_like"}))
    return {};
  for (int i = 2; i < full.rank(); ++i)
    if (wide[i] != flat[i - 1]) return {};
  e = behind(e);
  const Shape& narrow = g.ShapeOf(e);
  if (narrow.rank() != full.rank() || narrow[1] != 1) return {};
  return e;
}

}  // namespace plait
