// Value: what gradients are written over: an array now, or an output of a graph's node.
//
// A gradient is written once, with the functions of graph/math.h. With arrays each call
// runs (and is recorded when higher derivatives are wanted); no graph is built.

#ifndef PLAIT_GRAPH_VALUE_H_
#define PLAIT_GRAPH_VALUE_H_

#include <span>

#include "base/small_vector.h"
#include "graph/params.h"
#include "ndarray/ndarray.h"

namespace plait {

class Value {
 public:
  Value() = default;  // no value: "no gradient"
  Value(NDArray array) : array_(std::move(array)) {}

  explicit operator bool() const { return static_cast<bool>(array_); }
  const NDArray& array() const { return array_; }
  const Shape& shape() const { return array_.shape(); }
  DType dtype() const { return array_.dtype(); }

 private:
  NDArray array_;
};
using Values = SmallVector<Value, 4>;

// Runs an operator imperatively, implemented in run/: the one way from lower rooms up.
class Invoker {
 public:
  virtual Values Invoke(const OpDef& op, const ParamsRef& params,
                        std::span<const Value> inputs) = 0;

 protected:
  ~Invoker() = default;
};
void SetInvoker(Invoker* invoker);

// Applies an operator; params null means its defaults.
Values Apply(const OpDef& op, const ParamsRef& params, std::span<const Value> inputs);
Value ApplyOne(const OpDef& op, const ParamsRef& params, std::span<const Value> inputs);

}  // namespace plait

#endif  // PLAIT_GRAPH_VALUE_H_
