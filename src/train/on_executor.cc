// Initializers and optimizers over the arrays of an executor.

#include "train/on_executor.h"

#include <algorithm>

#include "train/initializer.h"

namespace plait {

void Initialize(const Executor& executor, std::string_view weights) {
  const auto initializer = MakeInitializer(weights);
  const std::vector<std::string> states = executor.symbol().ListAuxiliaryStates();
  size_t i = 0;
  for (const SymbolNode* node : executor.symbol().Nodes()) {
    if (!node->is_variable()) continue;
    const bool state =
        std::find(states.begin(), states.end(), node->name) != states.end();
    const auto own = node->attrs.find("__init__");
    if (executor.grads()[i] || state) {
      InitializeParameter(node->name, own == node->attrs.end() ? "" : own->second,
                          executor.inputs()[i], *initializer);
    }
    ++i;
  }
}

void Step(Updater& updater, const Executor& executor) {
  std::vector<Key> keys;
  std::vector<NDArray> weights, grads;
  for (size_t i = 0; i < executor.grads().size(); ++i) {
    if (!executor.grads()[i]) continue;
    const std::string& name = executor.NameOf(i);
    keys.emplace_back(name);
    weights.push_back(executor.inputs()[i]);
    grads.push_back(executor.grads()[i]);
    if (!updater.states().contains(keys.back()))
      updater.optimizer().SetName(keys.back(), name);
  }
  updater.Update(keys, grads, weights);
}

}  // namespace plait
