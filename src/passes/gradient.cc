// Pass gradient: operators' own gradients, traced from the outputs to the inputs.

#include "passes/gradient.h"

#include <algorithm>

#include "graph/math.h"
#include "graph/trace.h"

namespace plait {
namespace {

class GradientPass {
 public:
  GradientPass(Graph& graph, const GradientRequest& request)
      : graph_(graph),
        request_(request),
        forward_size_(static_cast<int>(graph.size())),
        tracer_(&graph),
        needed_(graph.size(), false),
        douts_(graph.size()) {
    tracer_.backward = true;
    tracer_.training = request.training;
  }

  GradientResult Run() {
    const std::vector<int> inputs = graph_.inputs;
    MarkNeeded(inputs);
    GradientResult result;
    Seed(result);
    for (int id = forward_size_; id-- > 0;) {
      if (needed_[id] && !graph_.nodes[id].is_input()) Propagate(id);
    }
    for (size_t i = 0; i < inputs.size(); ++i) {
      const auto& douts = douts_[inputs[i]];
      const bool any = request_.wanted[i] && !douts.empty() && douts[0];
      result.gradients.push_back(any ? tracer_.EntryOf(douts[0].array())
                                     : GraphEntry{});
    }
    result.partials = std::move(partials_);
    return result;
  }

 private:
  // A node is needed when a gradient flows through it to a wanted input.
  void MarkNeeded(const std::vector<int>& inputs) {
    for (size_t i = 0; i < inputs.size(); ++i) needed_[inputs[i]] = request_.wanted[i];
    for (int id = 0; id < forward_size_; ++id) {
      const GraphNode& node = graph_.nodes[id];
      if (node.is_input() || node.op->zero_gradient) continue;
      for (GraphEntry e : node.inputs) {
        if (needed_[e.node]) needed_[id] = true;
      }
    }
  }

  void Seed(GradientResult& result) {
    for (size_t k = 0; k < graph_.outputs.size(); ++k) {
      const GraphEntry out = graph_.outputs[k];
      const Spec spec = graph_.spec(out);
      const bool given = k < request_.head_given.size() && request_.head_given[k];
      int head_input = -1;
      Value seed;
      if (given) {
        const NDArray head = tracer_.AddInput("head_grad" + std::to_string(k), spec);
        graph_.nodes.back().backward = true;
        head_input = head.body()->step;
        seed = Value(head);
      } else if (needed_[out.node] && IsFloat(spec.dtype)) {
        seed = full(spec, 1);
      }
      result.head_inputs.push_back(head_input);
      if (seed && needed_[out.node]) Accumulate(out, std::move(seed));
    }
  }

  void Accumulate(GraphEntry e, Value gradient) {
    auto& douts = douts_[e.node];
    douts.resize(graph_.nodes[e.node].outputs.size());
    Value& sum = douts[e.index];
    sum = sum ? sum + gradient : std::move(gradient);
  }

  void Propagate(int id) {
    auto douts = std::move(douts_[id]);
    if (std::none_of(douts.begin(), douts.end(),
                     [](const Value& v) { return bool(v); }))
      return;
    // Tracing moves the nodes.
    const OpDef& op = *graph_.nodes[id].op;
    const ParamsRef params = graph_.nodes[id].params;
    const SmallVector<GraphEntry, 3> inputs = graph_.nodes[id].inputs;
    Specs in_specs, out_specs;
    SmallVector<bool, 4> wanted;
    for (GraphEntry e : inputs) {
      in_specs.push_back(graph_.spec(e));
      wanted.push_back(needed_[e.node] ||
                       (request_.partials && IsFloat(in_specs.back().dtype)));
    }
    for (const Spec& spec : graph_.nodes[id].outputs) out_specs.push_back(spec);
    if (op.zero_gradient) return;  // nothing flows further
    Check(op.gradient != nullptr, ErrorKind::kNotImplemented, op.name, " (node ",
          graph_.nodes[id].name,
          "): has no gradient; a differentiable operator was expected");
    Values ins, outs;
    for (GraphEntry e : inputs) ins.push_back(Value(tracer_.Placeholder(e)));
    for (int i = 0; i < static_cast<int>(out_specs.size()); ++i)
      outs.push_back(Value(tracer_.Placeholder({id, i})));
    Values dx = op.gradient(params->get(), {.inputs = ins,
                                            .outputs = outs,
                                            .head_gradients = douts,
                                            .input_specs = in_specs,
                                            .output_specs = out_specs,
                                            .wanted = wanted,
                                            .training = request_.training});
    if (request_.partials) Record(id, in_specs, dx);
    for (size_t i = 0; i < inputs.size() && i < dx.size(); ++i) {
      if (needed_[inputs[i].node] && dx[i]) Accumulate(inputs[i], std::move(dx[i]));
    }
  }

  void Record(int id, const Specs& in_specs, const Values& dx) {
    for (size_t i = 0; i < in_specs.size(); ++i) {
      if (!IsFloat(in_specs[i].dtype)) continue;
      const Value value = i < dx.size() && dx[i] ? dx[i] : zeros(in_specs[i]);
      partials_.push_back({id, static_cast<int>(i), tracer_.EntryOf(value.array())});
    }
  }

  Graph& graph_;
  const GradientRequest& request_;
  const int forward_size_;
  Tracer tracer_;
  std::vector<bool> needed_;
  std::vector<SmallVector<Value, 1>> douts_;
  std::vector<GradientResult::Partial> partials_;
};

}  // namespace

GradientResult AddGradients(Graph& graph, const GradientRequest& request) {
  return GradientPass(graph, request).Run();
}

}  // namespace plait
