// Pass fold_bn.

#include "passes/fold_batch_norm.h"

#include <string>

#include "graph/math.h"
#include "graph/trace.h"
#include "passes/node_fields.h"
#include "passes/rewriter.h"

namespace plait {
namespace {

bool Flag(const GraphNode& node, const char* name) {
  const AttrValue value = FieldOf(node, name);
  const bool* flag = std::get_if<bool>(&value.v);
  return flag != nullptr && *flag;
}

ParamsRef WithBias(const GraphNode& node) {
  std::vector<NamedAttr> attrs;
  for (const Field& field : node.op->fields) {
    AttrValue value = field.access->Get(node.params->get());
    if (field.name == "no_bias") value = Attr(false);
    attrs.push_back({field.name, std::move(value)});
  }
  return MakeParams(*node.op, attrs);
}

class Folding {
 public:
  Folding(const Graph& graph, bool training, const std::vector<bool>& from_parameters)
      : graph_(graph),
        training_(training),
        from_parameters_(from_parameters),
        rewriter_(graph),
        readers_(graph.size(), 0),
        extra_read_(graph.size(), false) {
    const auto read = [&](GraphEntry e) {
      ++readers_[e.node];
      if (e.index > 0) extra_read_[e.node] = true;
    };
    for (const GraphNode& node : graph.nodes) {
      for (GraphEntry e : node.inputs) read(e);
    }
    for (GraphEntry e : graph.outputs) read(e);
  }

  Graph Run() {
    for (size_t i = 0; i < graph_.size(); ++i) {
      const int id = static_cast<int>(i);
      if (!IsKnownScale(id)) {
        rewriter_.Keep(id);
      } else if (Folds(id)) {
        Fold(id);
      } else {
        Scale(id);
      }
    }
    return rewriter_.Finish();
  }

 private:
  static bool HasRelu(const GraphNode& node) {
    return node.op->name == "_contrib_BatchNormWithReLU";
  }

  // Whether it is a BatchNorm that is linear, and only that.
  bool IsKnownScale(int id) const {
    const GraphNode& node = graph_.nodes[id];
    if (node.is_input() || node.backward || extra_read_[id] || !node.mutates.empty())
      return false;
    if (node.op->name != "BatchNorm" && node.op->name != "_contrib_SyncBatchNorm" &&
        !HasRelu(node))
      return false;
    if (training_ && !Flag(node, "use_global_stats")) return false;
    const Spec& x = graph_.spec(node.inputs[0]);
    return (x.dtype == graph_.spec(node.inputs[1]).dtype || IsHalf(x.dtype)) &&
           x.shape.size() > 0;
  }

  int AxisOf(const GraphNode& norm) const {
    const AttrValue value = FieldOf(norm, "axis");
    const int64_t* given = std::get_if<int64_t>(&value.v);
    const int axis = given == nullptr ? 1 : static_cast<int>(*given);
    return axis < 0 ? axis + graph_.spec(norm.inputs[0]).shape.rank() : axis;
  }

  // Whether what the BatchNorm reads can take its scale.
  bool Folds(int id) const {
    const GraphNode& norm = graph_.nodes[id];
    const GraphEntry x = norm.inputs[0];
    const GraphNode& from = graph_.nodes[x.node];
    if (from.is_input() || from.backward || readers_[x.node] != 1 ||
        !from.mutates.empty())
      return false;
    const int axis = AxisOf(norm), rank = graph_.spec(x).shape.rank();
    const std::string& op = from.op->name;
    if (op == "FullyConnected") {
      if (axis != rank - 1) return false;
    } else if (op != "Convolution" && op != "Deconvolution") {
      return false;
    } else if (axis != 1 || TextOf(from, "layout").ends_with('C')) {
      return false;
    }
    // A half weight would be rounded twice, unless it was wider before.
    if (IsHalf(graph_.spec(x).dtype) && WiderOf(from.inputs[1]) == from.inputs[1])
      return false;
    bool kept = true;
    for (const GraphNode* node : {&norm, &from}) {
      for (size_t i = 1; i < node->inputs.size(); ++i)
        kept &= from_parameters_[node->inputs[i].node];
    }
    return kept || graph_.Bytes(from.inputs[1]) <= graph_.Bytes(x);
  }

  // What a value was before it was cast to a half type; else itself.
  GraphEntry WiderOf(GraphEntry e) const {
    const GraphNode& node = graph_.nodes[e.node];
    if (node.is_input() || (node.op->name != "amp_cast" && node.op->name != "Cast"))
      return e;
    const GraphEntry from = node.inputs[0];
    return graph_.spec(from).dtype == DType::kFloat32 && IsHalf(graph_.spec(e).dtype)
               ? from
               : e;
  }

  Value Placeholder(const Tracer& tracer, GraphEntry old) {
    return Value(const_cast<Tracer&>(tracer).Placeholder(rewriter_.Moved(old)));
  }

  // y = x * scale + offset; vectors.
  struct Line {
    Value scale, offset;
  };
  Line LineOf(Tracer& tracer, const GraphNode& norm) {
    const auto in = [&](int i) { return Placeholder(tracer, norm.inputs[i]); };
    const AttrValue eps = FieldOf(norm, "eps");
    Line line;
    line.scale = rsqrt(in(4) + std::get<double>(eps.v));
    if (!Flag(norm, "fix_gamma")) line.scale = line.scale * in(1);
    line.offset = in(2) - in(3) * line.scale;
    return line;
  }

  // Nodes that were made here are told apart by their texts.
  void MarkParsed(size_t first) {
    for (size_t i = first; i < rewriter_.target()->size(); ++i)
      rewriter_.target()->nodes[i].parsed = true;
  }

  Value ScaledWeight(const GraphNode& from, const Value& weight, const Value& scale) {
    const Shape& w = weight.shape();
    if (from.op->name != "Deconvolution") {
      Shape rows = Shape::Filled(w.rank(), 1);
      rows[0] = w[0];
      return weight * reshape(scale, rows);
    }
    // (groups, inputs of a group, outputs of a group, kernel).
    const int64_t outputs = w[1], groups = scale.shape()[0] / outputs;
    const Shape parts{groups, w[0] / groups, outputs, w.size(2, w.rank())};
    return reshape(reshape(weight, parts) * reshape(scale, {groups, 1, outputs, 1}), w);
  }

  void Fold(int id) {
    const GraphNode& norm = graph_.nodes[id];
    const GraphNode& from = graph_.nodes[norm.inputs[0].node];
    const size_t first = rewriter_.target()->size();
    GraphNode folded = rewriter_.Moved(norm.inputs[0].node);
    {
      Tracer tracer(rewriter_.target());
      Line line = LineOf(tracer, norm);
      const DType dtype = graph_.spec(norm.inputs[0]).dtype;
      const auto wide = [&](GraphEntry e) {
        const Value v = Placeholder(tracer, WiderOf(e));
        return IsHalf(v.dtype()) ? cast(v, DType::kFloat32) : v;
      };
      Value scaled = ScaledWeight(from, wide(from.inputs[1]), line.scale);
      if (from.inputs.size() > 2)
        line.offset = line.offset + wide(from.inputs[2]) * line.scale;
      if (IsHalf(dtype)) {
        scaled = cast(scaled, dtype);
        line.offset = cast(line.offset, dtype);
      }
      folded.inputs = {folded.inputs[0], tracer.EntryOf(scaled.array()),
                       tracer.EntryOf(line.offset.array())};
    }
    MarkParsed(first);
    folded.params = WithBias(from);
    folded.name = from.name + "+" + norm.name;
    rewriter_.target()->Add(std::move(folded));
    Finish(id, {static_cast<int>(rewriter_.target()->size()) - 1, 0});
  }

  void Scale(int id) {
    const GraphNode& norm = graph_.nodes[id];
    const size_t first = rewriter_.target()->size();
    Shape channels = Shape::Filled(graph_.spec(norm.inputs[0]).shape.rank(), 1);
    channels[AxisOf(norm)] = graph_.spec(norm.inputs[1]).shape.size();
    GraphEntry result;
    {
      Tracer tracer(rewriter_.target());
      const Line line = LineOf(tracer, norm);
      const DType dtype = graph_.spec(norm.inputs[0]).dtype;
      Value x = Placeholder(tracer, norm.inputs[0]);
      if (IsHalf(dtype)) x = cast(x, DType::kFloat32);
      Value y = x * reshape(line.scale, channels) + reshape(line.offset, channels);
      if (IsHalf(dtype)) y = cast(y, dtype);
      result = tracer.EntryOf(y.array());
    }
    MarkParsed(first);
    rewriter_.target()->nodes[result.node].name = norm.name;
    Finish(id, result);
  }

  // `value` takes the BatchNorm's place. Nobody reads its statistics.
  void Finish(int id, GraphEntry value) {
    const GraphNode& norm = graph_.nodes[id];
    if (HasRelu(norm)) {
      GraphNode relu;
      relu.op = &GetOp("relu");
      relu.params = relu.op->defaults;
      relu.name = norm.name + "_relu";
      relu.parsed = true;
      relu.inputs = {value};
      relu.outputs = {norm.outputs[0]};
      value = {static_cast<int>(rewriter_.target()->size()), 0};
      rewriter_.target()->Add(std::move(relu));
    }
    SmallVector<GraphEntry, 1> values(norm.outputs.size());
    values[0] = value;
    rewriter_.Replace(id, std::move(values));
  }

  const Graph& graph_;
  const bool training_;
  const std::vector<bool>& from_parameters_;
  Rewriter rewriter_;
  std::vector<int> readers_;
  std::vector<bool> extra_read_;
};

}  // namespace

Graph FoldBatchNorms(const Graph& graph, bool training,
                     const std::vector<bool>& from_parameters) {
  return Folding(graph, training, from_parameters).Run();
}

}  // namespace plait
