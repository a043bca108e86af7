// plait.h: executors, and optimizers that update what they bind.

#include <map>

#include "capi/handles.h"
#include "train/on_executor.h"

namespace plait::capi {
namespace {

std::map<std::string, Shape> ShapesOf(int count, const plait_named_shape* shapes,
                                      const char* self) {
  NeedAll(shapes, count, self, "shapes");
  std::map<std::string, Shape> result;
  for (int i = 0; i < count; ++i) {
    const std::string name = &Need(shapes[i].name, self, "a name");
    const Shape shape = ShapeFrom(shapes[i].sizes, shapes[i].rank, false, self);
    Check(result.emplace(name, shape).second, self, ": the shape of ", name,
          " is given twice");
  }
  return result;
}

BindRequest RequestOf(const plait_params* params, int count,
                      const plait_named_shape* shapes, int gradients) {
  const char* const self = "plait_executor_bind";
  Check(gradients >= PLAIT_GRADIENTS_NONE && gradients <= PLAIT_GRADIENTS_ALL, self,
        ": gradients is ", gradients, "; 0, 1 or 2 was expected");
  BindRequest request;
  request.gradients = static_cast<Gradients>(gradients);
  request.shapes = ShapesOf(count, shapes, self);
  if (params == nullptr) return request;
  const NamedArrays& content = params->content;
  for (size_t i = 0; i < content.names.size(); ++i)
    request.arrays.emplace(content.names[i], content.arrays[i]);
  return request;
}

Executor& Bound(const plait_executor* executor, const char* function) {
  return *Need(executor, function, "executor").value;
}

std::vector<NamedAttr> NamedFrom(const SymbolAttrs& attrs) {
  std::vector<NamedAttr> named;
  for (const auto& [key, value] : attrs) named.push_back({key, ParseAttr(value)});
  return named;
}

}  // namespace
}  // namespace plait::capi

using namespace plait::capi;  // NOLINT: this file is the inside of the interface
using plait::Check;
using plait::NDArray;

int plait_executor_bind(const plait_symbol* symbol, const plait_params* params,
                        int count, const plait_named_shape* shapes, int gradients,
                        plait_executor** out) {
  return Guarded([&] {
    const char* const self = "plait_executor_bind";
    Need(out, self, "out");
    const plait::Symbol& s = Need(symbol, self, "symbol").value;
    plait::BindRequest request = RequestOf(params, count, shapes, gradients);
    auto bound = plait::Bind(s, request);
    *out = new plait_executor{std::move(bound), std::move(request.shapes),
                              request.gradients};
  });
}

int plait_executor_reshape(plait_executor* executor, int count,
                           const plait_named_shape* shapes) {
  return Guarded([&] {
    const char* const self = "plait_executor_reshape";
    const plait::Executor& old = Bound(executor, self);
    plait::BindRequest request;
    request.gradients = executor->gradients;
    request.shapes = ShapesOf(count, shapes, self);
    const auto given = request.shapes;
    for (const auto& [name, shape] : given) {
      Check(executor->shapes.contains(name), self, ": ", name,
            " had no shape when the executor was bound; data was expected");
    }
    request.shapes.insert(executor->shapes.begin(), executor->shapes.end());
    for (size_t i = 0; i < old.inputs().size(); ++i) {
      const std::string& name = old.NameOf(i);
      // What has another shape now, or is a label, begins anew.
      if (!given.contains(name) && !plait::IsLabel(name))
        request.arrays.emplace(name, old.inputs()[i]);
    }
    auto bound = plait::Bind(old.symbol(), request);
    bound->ShareKept(old);
    executor->value = std::move(bound);
    executor->shapes = std::move(request.shapes);
  });
}

void plait_executor_free(plait_executor* executor) {
  delete executor;
}

int plait_executor_set_input(plait_executor* executor, const char* name,
                             const void* data, size_t bytes) {
  return Guarded([&] {
    const char* const self = "plait_executor_set_input";
    const NDArray& x = Bound(executor, self).input(&Need(name, self, "name"));
    Check(bytes == static_cast<size_t>(x.nbytes()), self, ": ", bytes,
          " bytes are given for ", name, ", which is ", x, "; ", x.nbytes(),
          " were expected");
    Check(data != nullptr || bytes == 0, self, ": data is NULL; ", bytes,
          " bytes were expected");
    if (bytes > 0) x.CopyFromHost(data);
  });
}

int plait_executor_array(const plait_executor* executor, const char* name,
                         plait_ndarray** out) {
  return Guarded([&] {
    const char* const self = "plait_executor_array";
    const NDArray& x = Bound(executor, self).input(&Need(name, self, "name"));
    Need(out, self, "out");
    *out = NewArray(x);
  });
}

int plait_executor_gradient(const plait_executor* executor, const char* name,
                            plait_ndarray** out) {
  return Guarded([&] {
    const char* const self = "plait_executor_gradient";
    const NDArray& x = Bound(executor, self).grad(&Need(name, self, "name"));
    Need(out, self, "out");
    *out = NewArray(x);
  });
}

int plait_executor_output(const plait_executor* executor, int index,
                          plait_ndarray** out) {
  return Guarded([&] {
    const char* const self = "plait_executor_output";
    const auto& outputs = Bound(executor, self).outputs();
    CheckIndex(index, outputs.size(), self, "outputs");
    Need(out, self, "out");
    *out = NewArray(outputs[static_cast<size_t>(index)]);
  });
}

int plait_executor_forward(plait_executor* executor, int training) {
  return Guarded(
      [&] { Bound(executor, "plait_executor_forward").Forward(training != 0); });
}

int plait_executor_backward(plait_executor* executor, int count,
                            plait_ndarray* const* head_gradients) {
  return Guarded([&] {
    const char* const self = "plait_executor_backward";
    plait::Executor& bound = Bound(executor, self);
    NeedAll(head_gradients, count, self, "head_gradients");
    std::vector<NDArray> heads;
    for (int i = 0; i < count; ++i)
      heads.push_back(head_gradients[i] ? head_gradients[i]->value : NDArray());
    bound.Backward(heads);
  });
}

int plait_executor_memory(plait_executor* executor, int training, int what,
                          uint64_t* out) {
  return Guarded([&] {
    const char* const self = "plait_executor_memory";
    plait::Executor& bound = Bound(executor, self);
    CheckWhat(what, 5, self);
    Need(out, self, "out");
    const auto s = bound.SizesOfPlan(training != 0);
    const int64_t values[] = {s.none, s.inplace, s.co_share, s.both, s.lower_bound};
    *out = static_cast<uint64_t>(values[what]);
  });
}

int plait_optimizer_create(const char* name, int count, const char* const* keys,
                           const char* const* values, plait_optimizer** out) {
  return Guarded([&] {
    const char* const self = "plait_optimizer_create";
    Need(out, self, "out");
    const auto attrs = AttrsFrom(count, keys, values, self);
    auto made =
        std::make_unique<plait::Optimizer>(&Need(name, self, "name"), NamedFrom(attrs));
    *out = new plait_optimizer{plait::Updater(std::move(made))};
  });
}

void plait_optimizer_free(plait_optimizer* optimizer) {
  delete optimizer;
}

int plait_optimizer_set(plait_optimizer* optimizer, const char* key,
                        const char* value) {
  return Guarded([&] {
    const char* const self = "plait_optimizer_set";
    plait::Updater& updater = Need(optimizer, self, "optimizer").value;
    updater.optimizer().Set(&Need(key, self, "key"),
                            plait::ParseAttr(&Need(value, self, "value")));
  });
}

int plait_optimizer_step(plait_optimizer* optimizer, plait_executor* executor) {
  return Guarded([&] {
    const char* const self = "plait_optimizer_step";
    plait::Step(Need(optimizer, self, "optimizer").value, Bound(executor, self));
  });
}

int plait_optimizer_update(plait_optimizer* optimizer, const char* name,
                           plait_ndarray* weight, const plait_ndarray* gradient) {
  return Guarded([&] {
    const char* const self = "plait_optimizer_update";
    plait::Updater& updater = Need(optimizer, self, "optimizer").value;
    const plait::Key key = std::string(&Need(name, self, "name"));
    const NDArray w = Need(weight, self, "weight").value;
    const NDArray g = Need(gradient, self, "gradient").value;
    updater.optimizer().SetName(key, name);
    updater.Update({&key, 1}, {&g, 1}, {&w, 1});
  });
}
