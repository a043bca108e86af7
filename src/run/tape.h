// The tape: what was recorded of imperative calls, and gradients through it.
//
// While a thread records, a call with a tracked input makes a GradNode: the operator,
// its parameters, its inputs' nodes, and the arrays that its gradient reads. A tracked
// array points to its node (ArrayBody::tape); a leaf is a node that holds a gradient
// array. Nodes point only backwards, so dropping the outputs frees the graph.

#ifndef PLAIT_RUN_TAPE_H_
#define PLAIT_RUN_TAPE_H_

#include <functional>
#include <span>
#include <vector>

#include "graph/op.h"
#include "ndarray/ndarray.h"

namespace plait {

// Flags of the calling thread.
bool& Recording();
bool& Training();

enum class GradReq : uint8_t { kNull = 0, kWrite = 1, kAdd = 3 };

// Makes x a leaf whose gradient goes to `grad` (same shape) on each backward.
void AttachGrad(const NDArray& x, const NDArray& grad, GradReq req);
// The gradient array of a leaf; an empty handle when x is none.
NDArray GradOf(const NDArray& x);
GradReq GradReqOf(const NDArray& x);
bool IsTracked(const NDArray& x);  // made by a recorded call, or a leaf
// True once after each backward that wrote x's gradient (Trainer's stale check).
bool FreshGrad(const NDArray& x);
void SetFreshGrad(const NDArray& x, bool fresh);

// Notes a call. `hidden` outputs too; every array is as the call left it.
void RecordCall(const OpDef& op, const ParamsRef& params, std::span<const NDArray> in,
                std::span<const NDArray> out, bool training);

// One call of a gradient that is a function.
struct GradientCall {
  const std::vector<NDArray>&
      douts;  // the heads' gradients; zeros where nothing flowed
  // By input: the array that its gradient ends up in, if that may be overwritten at
  // once; else an empty handle. Whoever writes there returns that array.
  const std::vector<NDArray>& places;
  bool retain;  // the gradient will be asked for again
};

// Notes a call whose gradient is a function (a Python Function or CustomOp, a graph).
// It returns one array for each input; empty handles mean zero.
using CustomGradient = std::function<std::vector<NDArray>(const GradientCall&)>;
void RecordCustom(const std::string& name, std::span<const NDArray> in,
                  std::span<const NDArray> out, CustomGradient gradient);

// Computes gradients of the heads (with head gradients, ones where empty) into the
// leaves.
void Backward(std::span<const NDArray> heads, std::span<const NDArray> head_gradients,
              bool retain_graph, bool training);

// Gradients with respect to `variables`, as new arrays; leaves' own are not touched.
// With create_graph the gradients are recorded themselves.
std::vector<NDArray> Grad(std::span<const NDArray> heads,
                          std::span<const NDArray> variables,
                          std::span<const NDArray> head_gradients, bool retain_graph,
                          bool create_graph, bool training);

}  // namespace plait

#endif  // PLAIT_RUN_TAPE_H_
