// GraphFunction: a graph called like an operator: a hybridized block.
//
// Each combination of input shapes, dtypes, mode and wanted gradients is compiled once
// and kept. A recorded call is one node of the tape; its backward part runs the same
// compiled graph. Where higher derivatives are wanted, the graph's operators are called
// one by one instead.
//
// Thread safety: calls may come from several threads at once.

#ifndef PLAIT_RUN_GRAPH_FUNCTION_H_
#define PLAIT_RUN_GRAPH_FUNCTION_H_

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "graph/symbol.h"
#include "run/graph_variant.h"
#include "run/invoke.h"

namespace plait {

class GraphFunction : public RefCounted<GraphFunction> {
 public:
  GraphFunction(const Symbol& symbol, std::string name);
  GraphFunction(Graph graph, std::string name);  // one that was traced

  // Arrays by the graph's inputs. New output arrays.
  Arrays Call(std::span<const NDArray> inputs);

  int num_inputs() const { return static_cast<int>(graph_.inputs.size()); }

 private:
  using Variant = GraphVariant;
  std::shared_ptr<const Variant> Get(std::span<const NDArray> inputs, bool training,
                                     const std::vector<bool>& wanted);
  Arrays CallRecorded(std::span<const NDArray> inputs, const std::vector<bool>& wanted);
  // The graph's operators, called one after the other. With `call`: as they ran in that
  // call, with its random numbers and without their effects on auxiliary states.
  std::vector<NDArray> Replay(std::span<const NDArray> inputs,
                              const GraphCall* call = nullptr) const;

  const Graph graph_;
  const std::string name_;
  const std::shared_ptr<PrologueSet> prologues_ = std::make_shared<PrologueSet>();
  std::mutex mutex_;
  std::vector<std::shared_ptr<const Variant>> variants_;  // under mutex_
};

}  // namespace plait

#endif  // PLAIT_RUN_GRAPH_FUNCTION_H_
