// Executors: symbols bound to arrays.

#include <nanobind/stl/function.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include "bindings.h"
#include "convert.h"
#include "run/executor.h"
#include "run/plan_sizes.h"

namespace nb = nanobind;

namespace plait::python {
namespace {

std::vector<NDArray> ArraysFrom(const nb::list& list) {
  std::vector<NDArray> arrays;
  for (nb::handle item : list) arrays.push_back(nb::cast<NDArray>(item));
  return arrays;
}

nb::list ListOf(const std::vector<NDArray>& arrays) {
  nb::list list;
  for (const NDArray& x : arrays) list.append(x);
  return list;
}

nb::dict DictOf(const PlanSizes& s) {
  nb::dict d;
  d["none"] = s.none;
  d["inplace"] = s.inplace;
  d["co_share"] = s.co_share;
  d["both"] = s.both;
  d["lower_bound"] = s.lower_bound;
  d["unfused"] = s.unfused;
  return d;
}

std::unique_ptr<Executor> Bind(const Symbol& symbol, const nb::list& inputs,
                               const nb::list& grads, const std::vector<int>& reqs,
                               const nb::list& outputs) {
  std::vector<GradReq> requests;
  for (int r : reqs) requests.push_back(static_cast<GradReq>(r));
  return std::make_unique<Executor>(symbol, ArraysFrom(inputs), ArraysFrom(grads),
                                    std::move(requests), ArraysFrom(outputs));
}

// Shapes, dtypes' numbers and whether gradients are wanted, in the order of inputs.
nb::dict PlanOf(const Symbol& symbol, const nb::list& shapes,
                const std::vector<int>& dtypes, const std::vector<bool>& wanted,
                bool training) {
  Specs specs;
  for (size_t i = 0; i < dtypes.size(); ++i)
    specs.push_back(
        {ShapeFromPython(nb::object(shapes[i]).ptr()), static_cast<DType>(dtypes[i])});
  return DictOf(SizesOfPlan(symbol, specs, wanted, training));
}

}  // namespace

void BindExecutor(nb::module_& m) {
  nb::class_<Executor>(m, "ExecutorHandle", "A bound symbol; see plait.executor.")
      .def("forward", &Executor::Forward)
      .def("backward",
           [](Executor& e, const nb::list& heads) { e.Backward(ArraysFrom(heads)); })
      .def("outputs", [](const Executor& e) { return ListOf(e.outputs()); })
      .def(
          "set_monitor",
          [](Executor& e, nb::object callback, bool inputs) {
            if (callback.is_none()) return e.SetMonitor(nullptr, false);
            e.SetMonitor([callback](const std::string& name,
                                    const NDArray& value) { callback(name, value); },
                         inputs);
          },
          nb::arg("callback").none(), nb::arg("inputs"))
      .def("share_kept", &Executor::ShareKept)
      .def("plan_sizes",
           [](Executor& e, bool is_train) { return DictOf(e.SizesOfPlan(is_train)); })
      .def("debug_text", &Executor::DebugText);
  m.def("bind", &Bind);
  m.def("plan_sizes", &PlanOf);
}

}  // namespace plait::python
