// PlanSizes: binds a graph without arrays and asks the planner.

#include "run/plan_sizes.h"

#include <algorithm>

#include "graph/graph.h"
#include "graph/math.h"
#include "graph/trace.h"
#include "passes/attention.h"
#include "passes/channels_first.h"
#include "passes/gradient.h"
#include "passes/infer.h"
#include "run/compiled_graph.h"

namespace plait {
namespace {

// Appends the gradients as outputs, as an executor does that writes them.
void AppendGradients(Graph& graph, const std::vector<bool>& wanted) {
  GradientRequest request;
  request.wanted = wanted;
  request.head_given.assign(graph.outputs.size(), true);
  const std::vector<int> variables = graph.inputs;
  const GradientResult result = AddGradients(graph, request);
  Tracer tracer(&graph);
  tracer.backward = true;
  for (size_t i = 0; i < variables.size(); ++i) {
    if (!wanted[i]) continue;
    GraphEntry gradient = result.gradients[i];
    if (gradient.node < 0) {
      const Spec spec = graph.nodes[variables[i]].outputs[0];
      gradient = tracer.EntryOf(zeros(spec).array());
    }
    graph.outputs.push_back(gradient);
  }
}

int64_t ArenaBytes(const Graph& graph, PlanStrategy strategy) {
  return PlanMemory(graph, {strategy, {}, {}}).arena_bytes;
}

}  // namespace

PlanSizes SizesOfPlan(const Symbol& symbol, const Specs& inputs,
                      const std::vector<bool>& wanted, bool training) {
  Graph graph = GraphOf(symbol);
  Check(inputs.size() == graph.inputs.size() && wanted.size() == inputs.size(),
        "memory_plan: got ", inputs.size(), " specs and ", wanted.size(), " requests; ",
        graph.inputs.size(), " of each were expected");
  SetInputSpecs(graph, symbol, inputs);
  Infer(graph);
  std::string missing;
  Check(FullyInferred(graph, &missing),
        "memory_plan: shapes do not follow from those given ", missing);
  CompileOptions options;
  options.training = training;
  graph =
      PutChannelsFirst(FuseAttention(graph, training ? wanted : std::vector<bool>()));
  if (training && std::find(wanted.begin(), wanted.end(), true) != wanted.end())
    AppendGradients(graph, wanted);
  const auto compiled = CompiledGraph::Compile(graph, options);
  // The strategies are compared on whole nodes.
  options.disabled = {"pieces"};
  const auto whole = CompiledGraph::Compile(graph, options);
  const Graph& planned = whole->graph();
  PlanSizes sizes;
  sizes.none = ArenaBytes(planned, PlanStrategy::kNone);
  sizes.inplace = ArenaBytes(planned, PlanStrategy::kInplace);
  sizes.co_share = ArenaBytes(planned, PlanStrategy::kCoShare);
  sizes.both = compiled->plan().arena_bytes;
  sizes.lower_bound = compiled->plan().live_bytes;
  options.disabled = {"identity", "cse", "pool_index", "epilogue", "fuse", "pieces"};
  sizes.unfused = ArenaBytes(CompiledGraph::Compile(std::move(graph), options)->graph(),
                             PlanStrategy::kNone);
  return sizes;
}

}  // namespace plait
