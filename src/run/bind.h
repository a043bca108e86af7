// Bind: an Executor over arrays by name; those that nobody gives are made.

#ifndef PLAIT_RUN_BIND_H_
#define PLAIT_RUN_BIND_H_

#include <map>
#include <memory>
#include <string>

#include "run/executor.h"

namespace plait {

enum class Gradients : uint8_t {
  kNone,
  kParameters,  // of arguments without a shape in BindRequest::shapes, but for labels
  kAll,
};

struct BindRequest {
  // The data; other shapes follow from them.
  std::map<std::string, Shape> shapes = {};
  // Parameters and auxiliary states by name, also with "arg:" or "aux:" before it.
  // Arrays that the symbol does not have are left alone.
  std::map<std::string, NDArray> arrays = {};
  Gradients gradients = Gradients::kNone;
};

// Uses the request's arrays themselves and fills those that it makes with zeros. Where
// arrays are given, all but labels (names that end in "label") must be among them or
// the shapes. Throws kValue or kType, with the variable's name, where something is
// missing or does not fit.
std::unique_ptr<Executor> Bind(const Symbol& symbol, const BindRequest& request);

// Whether a variable holds labels, by its name.
bool IsLabel(std::string_view name);

}  // namespace plait

#endif  // PLAIT_RUN_BIND_H_
