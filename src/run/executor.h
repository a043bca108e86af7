// Executor: a symbol bound to arrays: forward, backward, and the arrays to read.
//
// Thread safety: one thread at a time uses an Executor; its arrays may be used by any.

#ifndef PLAIT_RUN_EXECUTOR_H_
#define PLAIT_RUN_EXECUTOR_H_

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "graph/symbol.h"
#include "passes/gradient.h"
#include "run/compiled_graph.h"
#include "run/plan_sizes.h"
#include "run/tape.h"

namespace plait {

class Executor {
 public:
  // Arrays by ListInputs(): arguments and auxiliary states. `grads` has empty handles
  // where `reqs` is kNull. Throws kValue or kType where they do not fit the symbol.
  // The outputs take their memory from `outputs` where it is large enough.
  Executor(const Symbol& symbol, std::vector<NDArray> inputs,
           std::vector<NDArray> grads, std::vector<GradReq> reqs,
           const std::vector<NDArray>& outputs = {});

  const std::vector<NDArray>& inputs() const { return inputs_; }
  const std::vector<NDArray>& grads() const { return grads_; }
  const std::vector<NDArray>& outputs() const { return outputs_; }
  const Symbol& symbol() const { return symbol_; }

  // The array of a variable, and its gradient. Throw kValue where there is none.
  const NDArray& input(std::string_view name) const;
  const NDArray& grad(std::string_view name) const;
  // The name of input i.
  const std::string& NameOf(size_t i) const {
    return inferred_.nodes[inferred_.inputs[i]].name;
  }

  // Values that follow from parameters are kept once for both, where the arrays are the
  // same. REQUIRES: this one has not run.
  void ShareKept(const Executor& other) { prologues_ = other.prologues_; }

  // Computes the outputs, into the same arrays each time.
  void Forward(bool is_train);
  // Writes gradients into the grad arrays. Head gradients by output; where they are
  // missing, or empty handles, ones are taken. After a Forward for prediction, or none,
  // the outputs are computed first, as nothing was kept. Throws kRuntime when it is
  // called twice after one Forward for training.
  void Backward(const std::vector<NDArray>& head_gradients);

  // Called with the name and value of every output of every node, after each forward;
  // with `inputs`, of its inputs too, as NODE_input, after those of a variable's own
  // name. After each backward, with NODE_backward_output and
  // the number of an input, and the gradient that the node gives to it. Null: no more.
  using Monitor = std::function<void(const std::string& name, const NDArray& value)>;
  void SetMonitor(Monitor monitor, bool inputs);

  // Bytes of the values between inputs and outputs, as each strategy would plan them.
  PlanSizes SizesOfPlan(bool is_train) const;
  std::string DebugText();

 private:
  struct Compiled {
    Ref<const CompiledGraph> graph;
    std::vector<int> heads;         // by output: the input of its head gradient
    std::vector<int> gradient_of;   // by output after the symbol's: which variable
    std::vector<int> old_gradient;  // the same: the input that is its old value, or -1
    struct Watched {
      std::string name;
      int output;
    };
    std::vector<Watched> watched, watched_backward;  // for the monitor
  };
  Compiled& Get(bool is_train, bool gradients);
  Compiled Compile(bool is_train, bool gradients) const;
  void Run(bool is_train, bool gradients);
  void Fill(GraphCall& call, const Compiled& compiled) const;
  void Watch(Graph& graph, const GradientResult& gradients, Compiled& compiled,
             CompileOptions& options) const;
  void Report(const std::vector<Compiled::Watched>& watched,
              const GraphCall& call) const;
  bool WantsGradients() const;
  bool Repeatable() const;  // whether running it once more changes nothing
  size_t Find(std::string_view name) const;

  Symbol symbol_;
  Graph inferred_;
  std::vector<NDArray> inputs_, grads_, outputs_;
  std::vector<GradReq> reqs_;
  // For prediction, training, gradients of a prediction; the same monitored.
  std::unique_ptr<Compiled> compiled_[6];
  std::unique_ptr<GraphCall> call_;  // a forward that waits for its backward
  bool call_trains_ = false;
  bool predicted_ = true;      // whether the last forward was for prediction
  std::vector<NDArray> ones_;  // by output, made when they are needed
  Monitor monitor_;
  bool monitor_inputs_ = false;
  std::shared_ptr<PrologueSet> prologues_ = std::make_shared<PrologueSet>();
};

}  // namespace plait

#endif  // PLAIT_RUN_EXECUTOR_H_
