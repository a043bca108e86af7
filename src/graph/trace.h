// Tracer: records operator calls as nodes of a graph instead of running them.
//
// While a thread has a Tracer, Invoke and the functions of graph/math.h append nodes. A
// traced array is a placeholder: it has shape and dtype, but no memory; whoever needs
// its values gets an error. Gradients are written over arrays and so are traced with no
// change; so are functions of a front end.

#ifndef PLAIT_GRAPH_TRACE_H_
#define PLAIT_GRAPH_TRACE_H_

#include <unordered_map>
#include <vector>

#include "graph/graph.h"
#include "ndarray/ndarray.h"

namespace plait {

class Tracer {
 public:
  // Current for this thread until it is destroyed; they nest. REQUIRES: the graph
  // outlives it.
  explicit Tracer(Graph* graph);
  ~Tracer();
  Tracer(const Tracer&) = delete;
  Tracer& operator=(const Tracer&) = delete;

  static Tracer* Current();

  // What the nodes that follow are marked with.
  bool backward = false;
  bool training = false;

  NDArray Placeholder(GraphEntry entry);
  // A new input of the graph.
  NDArray AddInput(const std::string& name, const Spec& spec);
  // The value that an array stands for. A real array becomes an input of the graph, and
  // is kept in captured().
  GraphEntry EntryOf(const NDArray& x);
  bool IsPlaceholder(const NDArray& x) const;

  // Appends a node. A placeholder in `out` stands for the result from then on.
  SmallVector<NDArray, 4> Invoke(const OpDef& op, const ParamsRef& params,
                                 std::span<const NDArray> in,
                                 std::span<const NDArray> out = {});

  // Real arrays that calls read, by the input that stands for them.
  struct Captured {
    int node;
    NDArray array;
  };
  const std::vector<Captured>& captured() const { return captured_; }

 private:
  Graph* graph_;
  Tracer* outer_;
  int64_t id_;
  std::vector<Captured> captured_;
  std::unordered_map<const ArrayBody*, int> captured_nodes_;
};

}  // namespace plait

#endif  // PLAIT_GRAPH_TRACE_H_
