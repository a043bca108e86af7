// Graph: flattening a symbol, and its text.

#include "graph/graph.h"

#include <sstream>
#include <unordered_map>

namespace plait {

Graph GraphOf(const Symbol& symbol) {
  Graph graph;
  std::unordered_map<const SymbolNode*, int> ids;
  const std::vector<SymbolNode*> nodes = symbol.Nodes();
  graph.nodes.reserve(nodes.size());
  for (const SymbolNode* from : nodes) {
    const int id = static_cast<int>(graph.nodes.size());
    ids[from] = id;
    GraphNode node;
    node.op = from->op;
    node.params = from->params;
    node.parsed = true;
    node.name = from->name;
    for (const SymbolEntry& in : from->inputs)
      node.inputs.push_back({ids.at(in.node.get()), in.index});
    node.outputs.resize(static_cast<size_t>(from->CountOutputs()));
    for (size_t i = 0; i < from->inputs.size(); ++i) {
      if (from->Mutates(static_cast<int>(i)))
        node.mutates.push_back(static_cast<int>(i));
    }
    const auto group = from->attrs.find("__ctx_group__");
    if (group != from->attrs.end()) node.group = group->second;
    node.recompute = from->attrs.contains("__force_mirroring__");
    if (node.is_input()) graph.inputs.push_back(id);
    graph.nodes.push_back(std::move(node));
  }
  for (const SymbolEntry& out : symbol.outputs())
    graph.outputs.push_back({ids.at(out.node.get()), out.index});
  return graph;
}

std::string Dump(const Graph& graph) {
  std::ostringstream text;
  const auto entry = [&](GraphEntry e) {
    text << '%' << e.node;
    if (e.index > 0) text << '.' << e.index;
  };
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const GraphNode& node = graph.nodes[i];
    text << '%' << i << " = " << (node.op ? node.op->name : "input");
    if (node.op) {
      text << '(';
      for (size_t k = 0; k < node.inputs.size(); ++k) {
        if (k > 0) text << ", ";
        entry(node.inputs[k]);
      }
      text << ')';
    }
    text << ' ' << node.name << " ->";
    for (const Spec& spec : node.outputs)
      text << ' ' << spec.dtype << ' ' << spec.shape;
    if (node.backward) text << " [backward]";
    text << '\n';
  }
  text << "outputs:";
  for (GraphEntry e : graph.outputs) {
    text << ' ';
    entry(e);
  }
  text << '\n';
  return text.str();
}

bool PrefersKernel(const OpDef& op, const Params& params, const Specs& in) {
  if (op.pointwise_if || op.cpu.empty() || !op.cpu[0].declines) return false;
  return op.cpu[0].declines(params.get(), in, {}) == nullptr;
}

void PointwiseTypes(const OpDef& op, const Params& params, const Specs& in,
                    Specs& out) {
  PointwiseProgram program;
  SmallVector<Pw, 4> operands;
  for (const Spec& spec : in) {
    const PointwiseArg arg{PointwiseArg::kInput, program.num_inputs};
    program.inputs[program.num_inputs++] = spec.dtype;
    operands.push_back(Pw(&program, arg, spec.dtype));
  }
  if (op.fn != Fn::kCount) {
    out[0].dtype = Call(op.fn, operands).dtype();
    return;
  }
  PwCall call(operands);
  op.pointwise(params.get(), call);
  for (size_t i = 0; i < call.outputs.size() && i < out.size(); ++i)
    out[i].dtype = call.outputs[i].dtype();
}

}  // namespace plait
