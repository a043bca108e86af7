// GradNode: what the tape keeps of one recorded call.

#ifndef PLAIT_RUN_GRAD_NODE_H_
#define PLAIT_RUN_GRAD_NODE_H_

#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "graph/op.h"
#include "graph/symbol.h"
#include "run/kept_filters.h"
#include "run/tape.h"

namespace plait {

// A node's inputs by their nodes; the arrays themselves only where a gradient reads
// them.
class GradNode final : public TapeNode {
 public:
  struct Edge {
    Ref<TapeNode> node;  // null: the input is not tracked
    int index = 0;
  };

  const OpDef* op = nullptr;  // null: a leaf or a custom gradient
  ParamsRef params;
  std::string name;
  bool training = false;
  bool freed = false;
  SmallVector<Edge, 3> edges;
  SmallVector<NDArray, 3> inputs, outputs;  // empty handles where nothing reads them
  SmallVector<Spec, 3> input_specs;
  SmallVector<Spec, 1> output_specs;
  CustomGradient custom;
  // What `custom` is the gradient of, made of symbols: its outputs; null: no operators.
  std::function<std::vector<SymbolEntry>(const std::vector<Symbol>&)> symbol;

  // A leaf's.
  bool leaf = false;
  NDArray grad;
  GradReq req = GradReq::kNull;
  std::atomic<bool> fresh_grad{false};
  std::atomic<KeptFilters*> filters{nullptr};  // of its array; see kept_filters.h

  void ForgetFilters() noexcept;
  ~GradNode() override;

  void Free() {
    inputs.clear();
    outputs.clear();
    custom = nullptr;
    freed = true;
  }
};

inline GradNode* NodeOf(const NDArray& x) {
  return static_cast<GradNode*>(x.body()->tape.get());
}

// The same value in a body without a tape, so that a node does not own itself.
NDArray Untracked(const NDArray& x);

}  // namespace plait

#endif  // PLAIT_RUN_GRAD_NODE_H_
