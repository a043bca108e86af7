// ParameterInputs, FromParameters.

#include "passes/parameters.h"

#include <algorithm>
#include <string>

namespace plait {
namespace {

bool IsParameterName(const std::string& name) {
  static const char* const kNames[] = {"weight",       "bias",        "gamma",
                                       "beta",         "moving_mean", "moving_var",
                                       "running_mean", "running_var", "parameters"};
  return std::any_of(std::begin(kNames), std::end(kNames),
                     [&](const char* known) { return name == known; });
}

}  // namespace

std::vector<bool> ParameterInputs(const Graph& graph) {
  std::vector<bool> result(graph.inputs.size(), false);
  // By node: what reads it are parameters' places, and there is such a reader.
  std::vector<bool> data(graph.size(), false), read(graph.size(), false);
  for (const GraphEntry e : graph.outputs) data[e.node] = true;
  for (size_t id = graph.size(); id-- > 0;) {
    const GraphNode& node = graph.nodes[id];
    if (node.is_input()) continue;
    if (!node.mutates.empty()) return result;
    const std::vector<std::string> names = InputNames(*node.op, *node.params);
    const bool has_places = std::any_of(names.begin(), names.end(), IsParameterName);
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const int from = node.inputs[i].node;
      const bool place = has_places ? i < names.size() && IsParameterName(names[i])
                                    : read[id] && !data[id];
      (place ? read : data)[from] = true;
    }
  }
  for (size_t i = 0; i < result.size(); ++i) {
    const int id = graph.inputs[i];
    result[i] = read[id] && !data[id];
  }
  return result;
}

std::vector<bool> FromParameters(const Graph& graph,
                                 const std::vector<bool>& parameters) {
  std::vector<bool> result(graph.size(), false);
  for (size_t i = 0; i < graph.inputs.size(); ++i)
    result[graph.inputs[i]] = i < parameters.size() && parameters[i];
  for (size_t id = 0; id < graph.size(); ++id) {
    const GraphNode& node = graph.nodes[id];
    if (node.is_input() || node.backward || node.op->random || !node.mutates.empty() ||
        node.op->IsHost(*node.params))
      continue;
    result[id] = std::all_of(node.inputs.begin(), node.inputs.end(),
                             [&](GraphEntry e) { return result[e.node]; });
  }
  return result;
}

}  // namespace plait
