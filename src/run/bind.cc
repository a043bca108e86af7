// Bind: specs from shapes and arrays, then the arrays that are missing.

#include "run/bind.h"

#include <algorithm>

#include "graph/math.h"
#include "passes/infer.h"

namespace plait {
namespace {

// The array of a name, with or without the prefix of .params files; or an empty handle.
NDArray Given(const BindRequest& request, const std::string& name, bool auxiliary) {
  for (const std::string& key : {name, (auxiliary ? "aux:" : "arg:") + name}) {
    const auto it = request.arrays.find(key);
    if (it != request.arrays.end()) return it->second;
  }
  return {};
}

void CheckNames(const Graph& graph, const BindRequest& request) {
  for (const auto& given : request.shapes) {
    const std::string& name = given.first;
    const auto has_name = [&](int id) { return graph.nodes[id].name == name; };
    if (std::any_of(graph.inputs.begin(), graph.inputs.end(), has_name)) continue;
    std::string all;
    for (size_t i = 0; i < graph.inputs.size() && i < 20; ++i)
      all += (i == 0 ? "" : ", ") + graph.nodes[graph.inputs[i]].name;
    Fail(ErrorKind::kValue, "bind: there is no variable ", name, "; one of ", all,
         " was expected");
  }
}

}  // namespace

bool IsLabel(std::string_view name) {
  return name.ends_with("label");
}

std::unique_ptr<Executor> Bind(const Symbol& symbol, const BindRequest& request) {
  Graph graph = GraphOf(symbol);
  CheckNames(graph, request);
  const std::vector<std::string> states = symbol.ListAuxiliaryStates();
  const size_t n = graph.inputs.size();
  std::vector<NDArray> arrays(n), grads(n);
  std::vector<GradReq> reqs(n, GradReq::kNull);
  Specs specs(n);
  for (size_t i = 0; i < n; ++i) {
    const std::string& name = graph.nodes[graph.inputs[i]].name;
    const bool auxiliary =
        std::find(states.begin(), states.end(), name) != states.end();
    const auto shape = request.shapes.find(name);
    specs[i].shape = shape == request.shapes.end() ? Shape::Unknown() : shape->second;
    arrays[i] = Given(request, name, auxiliary);
    if (arrays[i]) specs[i].dtype = arrays[i].dtype();
    Check(arrays[i] || request.arrays.empty() || shape != request.shapes.end() ||
              IsLabel(name),
          "bind: there is no array for ", name,
          "; one in the parameters, or its shape, was expected");
    const bool wanted = request.gradients == Gradients::kAll ||
                        (request.gradients == Gradients::kParameters &&
                         shape == request.shapes.end() && !IsLabel(name));
    if (wanted && !auxiliary) reqs[i] = GradReq::kWrite;
  }
  // What follows from the data alone says which parameter does not fit.
  SetInputSpecs(graph, symbol, specs);
  Infer(graph, false);
  for (size_t i = 0; i < n; ++i) {
    if (!arrays[i]) continue;
    const GraphNode& node = graph.nodes[graph.inputs[i]];
    Shape expected = node.outputs[0].shape;
    Check(Unify(expected, specs[i].shape = arrays[i].shape()), "bind: the array of ",
          node.name, " has shape ", arrays[i].shape(), "; shape ",
          node.outputs[0].shape, " was expected");
  }
  SetInputSpecs(graph, symbol, specs);
  Infer(graph);
  for (size_t i = 0; i < n; ++i) {
    const GraphNode& node = graph.nodes[graph.inputs[i]];
    const Spec& spec = node.outputs[0];
    Check(spec.shape.known(), "bind: the shape of ", node.name, " is ", spec.shape,
          "; it does not follow from the shapes given, more were expected");
    if (!arrays[i]) arrays[i] = zeros(spec).array();
    if (reqs[i] != GradReq::kNull) grads[i] = zeros(spec).array();
  }
  return std::make_unique<Executor>(symbol, std::move(arrays), std::move(grads),
                                    std::move(reqs));
}

}  // namespace plait
