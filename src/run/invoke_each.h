// InvokeEach: one pointwise operator on many groups of arrays, as one operation of the
// engine.
//
// The small parameters of a network are many, and a call for each costs more than its
// arithmetic. One pass over memory is made for each group, in the order given.

#ifndef PLAIT_RUN_INVOKE_EACH_H_
#define PLAIT_RUN_INVOKE_EACH_H_

#include <span>

#include "graph/op.h"
#include "ndarray/ndarray.h"

namespace plait {

struct EachCall {
  // Of the operator. Groups in a row that share one object are prepared once.
  ParamsRef params;
  // The operator's inputs: floats of one shape, or of one element. The first is
  // overwritten by the result; what the operator mutates is updated. Dtypes may differ.
  SmallVector<NDArray, 6> arrays;
  // Gets the result in its own dtype too, when there is one: the float16 weight of a
  // float32 master copy.
  NDArray copy;
};

// REQUIRES: `op` is pointwise with one output. Not recorded by the tape. Throws at once
// for shapes and dtypes that do not fit; all groups fail together where one does.
void InvokeEach(const OpDef& op, std::span<const EachCall> calls);

}  // namespace plait

#endif  // PLAIT_RUN_INVOKE_EACH_H_
