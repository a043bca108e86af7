// Body: a graph inside an operator: of a loop, a condition, a branch.
//
// The operator's kernel runs it, step by step, over plain memory, as part of one
// operation of the engine. Compiled once for each combination of inputs and mode.
//
// Thread safety: all of Body may be used by several threads at once; a BodyCall belongs
// to one.

#ifndef PLAIT_RUN_BODY_H_
#define PLAIT_RUN_BODY_H_

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "cpu/scratch.h"
#include "graph/symbol.h"
#include "run/graph_variant.h"

namespace plait {

class Body : public RefCounted<Body> {
 public:
  // `name` stands in errors.
  Body(Symbol symbol, std::string name);

  int num_inputs() const { return static_cast<int>(graph_.inputs.size()); }
  int num_outputs() const { return static_cast<int>(graph_.outputs.size()); }
  size_t num_nodes() const { return graph_.size(); }
  bool is_host() const { return host_; }
  bool draws() const { return draws_; }
  // Whether it may write input i: an auxiliary state of a node.
  bool Writes(int i, bool training) const;

  // Fills in what follows; `in` and `out` by its inputs and outputs.
  void Infer(Specs& in, Specs& out) const;

  // REQUIRES: `in` is known. `wanted`: by input; empty: no gradients.
  std::shared_ptr<const GraphVariant> Get(const Specs& in, bool training,
                                          const std::vector<bool>& wanted = {}) const;

 private:
  const Symbol symbol_;
  const Graph graph_;
  const std::string name_;
  bool host_ = false, draws_ = false;
  mutable std::mutex mutex_;
  mutable std::vector<std::shared_ptr<const GraphVariant>> variants_;  // under mutex_
};

// One run of a body: forward, and perhaps backward. Addresses must be set before.
class BodyCall {
 public:
  explicit BodyCall(std::shared_ptr<const GraphVariant> variant);

  void Forward(RandomStream random);
  void Backward(RandomStream random);

  const GraphVariant& variant() const { return *variant_; }
  const Spec& output_spec(int k) const;

  std::vector<char*> inputs;   // by the body's inputs
  std::vector<char*> outputs;  // by its outputs
  // For Backward: head gradients by output, gradients by what is wanted, in order.
  std::vector<char*> heads, gradients;

 private:
  std::shared_ptr<const GraphVariant> variant_;
  std::unique_ptr<cpu::Scratch> arena_;
};

}  // namespace plait

#endif  // PLAIT_RUN_BODY_H_
