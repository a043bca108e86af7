// Initializers and optimizers over the arrays of an executor, by their names.
//
// A parameter is an argument with a gradient.

#ifndef PLAIT_TRAIN_ON_EXECUTOR_H_
#define PLAIT_TRAIN_ON_EXECUTOR_H_

#include <string_view>

#include "run/executor.h"
#include "train/optimizer.h"

namespace plait {

// Fills parameters and auxiliary states: by the variable's attribute __init__ where it
// has one, else by what the name says; `weights` is an initializer as MakeInitializer
// takes it. Throws kValue for a name that says nothing.
void Initialize(const Executor& executor, std::string_view weights);

// One update of every parameter. Keys are names; auxiliary states and arguments without
// a gradient stay.
void Step(Updater& updater, const Executor& executor);

}  // namespace plait

#endif  // PLAIT_TRAIN_ON_EXECUTOR_H_
