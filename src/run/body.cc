// Body: what its nodes need, inference, variants, and runs.

#include "run/body.h"

#include <algorithm>

#include "passes/infer.h"

namespace plait {

Body::Body(Symbol symbol, std::string name)
    : symbol_(std::move(symbol)), graph_(GraphOf(symbol_)), name_(std::move(name)) {
  for (const GraphNode& node : graph_.nodes) {
    if (node.is_input()) continue;
    host_ |= node.op->IsHost(*node.params);
    draws_ |= node.op->random &&
              (!node.op->draws || node.op->draws(node.params->get(), true));
  }
}

bool Body::Writes(int i, bool training) const {
  for (const GraphNode& node : graph_.nodes) {
    for (int k = 0; k < static_cast<int>(node.inputs.size()); ++k) {
      if (node.inputs[k].node == graph_.inputs[i] &&
          node.op->Writes(*node.params, k, training))
        return true;
    }
  }
  return false;
}

void Body::Infer(Specs& in, Specs& out) const {
  Graph graph = graph_;
  SetInputSpecs(graph, symbol_, in);
  for (size_t k = 0; k < out.size(); ++k) {
    Spec& spec = graph.nodes[graph.outputs[k].node].outputs[graph.outputs[k].index];
    Shape fact = out[k].shape;
    Check(Unify(spec.shape, fact), name_, ": output ", k, " of the body has shape ",
          spec.shape, "; ", out[k].shape, " was expected");
    if (spec.dtype == DType::kUnknown) spec.dtype = out[k].dtype;
  }
  plait::Infer(graph, false);
  for (size_t i = 0; i < in.size(); ++i) in[i] = graph.spec({graph.inputs[i], 0});
  for (size_t k = 0; k < out.size(); ++k) out[k] = graph.spec(graph.outputs[k]);
}

std::shared_ptr<const GraphVariant> Body::Get(const Specs& in, bool training,
                                              const std::vector<bool>& wanted) const {
  const auto fits = [&](const GraphVariant& v) {
    return v.training == training && v.wanted == wanted &&
           std::equal(in.begin(), in.end(), v.specs.begin(), v.specs.end(),
                      [](const Spec& a, const Spec& b) {
                        return a.dtype == b.dtype && a.shape == b.shape;
                      });
  };
  {
    const std::lock_guard lock(mutex_);
    for (const auto& v : variants_)
      if (fits(*v)) return v;
  }
  // Two threads may both compile; both results are good.
  auto variant = CompileVariant(graph_, in, training, wanted, name_);
  const std::lock_guard lock(mutex_);
  variants_.push_back(variant);
  return variant;
}

BodyCall::BodyCall(std::shared_ptr<const GraphVariant> variant)
    : inputs(variant->specs.size()),
      outputs(variant->compiled->graph().outputs.size() - variant->gradient_of.size()),
      heads(variant->heads.size()),
      gradients(variant->gradient_of.size()),
      variant_(std::move(variant)),
      arena_(std::make_unique<cpu::Scratch>(
          static_cast<size_t>(variant_->compiled->plan().arena_bytes))) {}

const Spec& BodyCall::output_spec(int k) const {
  const Graph& graph = variant_->compiled->graph();
  return graph.spec(graph.outputs[k]);
}

void BodyCall::Forward(RandomStream random) {
  std::vector<char*> in = inputs, out = outputs;
  in.resize(variant_->compiled->graph().inputs.size());
  out.resize(variant_->compiled->graph().outputs.size());
  GraphCall::RunHere(*variant_->compiled, GraphCall::kForward, arena_->As<char>(), in,
                     out, random);
}

void BodyCall::Backward(RandomStream random) {
  std::vector<char*> in = inputs, out = outputs;
  in.resize(variant_->compiled->graph().inputs.size());
  for (size_t k = 0; k < heads.size(); ++k)
    if (variant_->heads[k] >= 0) in[variant_->heads[k]] = heads[k];
  out.insert(out.end(), gradients.begin(), gradients.end());
  GraphCall::RunHere(*variant_->compiled, GraphCall::kBackward, arena_->As<char>(), in,
                     out, random);
}

}  // namespace plait
