// Softmax along one axis, as the operators of its family share it.

#ifndef PLAIT_OPS_NN_SOFTMAX_H_
#define PLAIT_OPS_NN_SOFTMAX_H_

#include "graph/op.h"

namespace plait {

// x and y are seen as (outer, n, inner); every slice along n sums to one.
struct SoftmaxProblem {
  int64_t outer = 1, n = 1, inner = 1;
  double temperature = 1;
  bool negate = false;  // softmin
  bool log = false;
  // How many of the n elements count, for each of outer * inner slices; the others
  // become 0. Null: all.
  const View* length = nullptr;
};

SoftmaxProblem SoftmaxAlong(const Shape& x, int axis);  // REQUIRES: 0 <= axis < rank

// The maximum is taken off first, so that exp() cannot overflow. The dtypes of x and y
// may differ; halves are computed in float. The first one takes the pointwise machine
// where that pays.
void Softmax(const SoftmaxProblem& p, const View& x, const View& y);
void PlainSoftmax(const SoftmaxProblem& p, const View& x, const View& y);

// The gradient by x from y and dy. temperature: below zero for softmin.
Value SoftmaxBackward(int axis, double temperature, bool log, const Value& y,
                      const Value& dy);

}  // namespace plait

#endif  // PLAIT_OPS_NN_SOFTMAX_H_
