// `_fused`: the operator that a group of pointwise nodes becomes.
//
// Its parameters are the program; inputs broadcast to the space, the shape of every
// output (their common shape, if the parameters name no other). An input of the space's
// shape may share its memory with an output of the same element size.

#ifndef PLAIT_GRAPH_FUSED_H_
#define PLAIT_GRAPH_FUSED_H_

#include <optional>

#include "graph/op.h"

namespace plait {

struct FusedParams {
  PointwiseProgram program;
  // The last outputs of the program overwrite these inputs instead of being outputs.
  SmallVector<int, 2> updates;
  // Then the program's last output is reduced, and the result is the last output.
  std::optional<PointwiseReduction> reduction = {};
  // Known where there is a reduction, and where an operator stretches its input beyond
  // the shape to which all broadcast.
  Shape space = Shape::Unknown();
  int CountOutputs() const {
    return program.num_outputs - static_cast<int>(updates.size());
  }
};

inline const OpDef& FusedOp() {
  static const OpDef& op = GetOp("_fused");
  return op;
}

// Drops steps that no output needs.
void PruneProgram(PointwiseProgram& program);

}  // namespace plait

#endif  // PLAIT_GRAPH_FUSED_H_
