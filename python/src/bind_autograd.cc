// Recording, gradients and custom gradients.

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <memory>

#include "bindings.h"
#include "run/tape.h"
#include "run/tape_symbol.h"

namespace nb = nanobind;

namespace plait::python {
namespace {

GradReq ReqFromName(const std::string& name) {
  if (name == "write") return GradReq::kWrite;
  if (name == "add") return GradReq::kAdd;
  if (name == "null") return GradReq::kNull;
  Fail(ErrorKind::kValue, "attach_grad: grad_req is '", name,
       "'; one of write, add, null was expected");
}

// The context manager of record() and its kin; a C object, as it wraps every step.
struct Mode {
  int recording;  // -1: leave as it is
  int training;
  bool before_recording = false, before_training = false;
  void Enter() {
    before_recording = Recording();
    before_training = Training();
    if (recording >= 0) Recording() = recording != 0;
    if (training >= 0) Training() = training != 0;
  }
  void Exit() {
    if (recording >= 0) Recording() = before_recording;
    if (training >= 0) Training() = before_training;
  }
};

// A gradient function of Python, released under Python's lock.
CustomGradient FromPython(nb::callable function) {
  std::shared_ptr<PyObject> held(function.release().ptr(), ReleaseLater);
  return [held](const GradientCall& call) {
    nb::gil_scoped_acquire lock;
    nb::list heads;
    for (const NDArray& g : call.douts) heads.append(nb::steal(Wrap(g)));
    PyObject* result = PyObject_CallOneArg(held.get(), heads.ptr());
    if (result == nullptr) std::rethrow_exception(TakePythonError());
    std::vector<NDArray> gradients;
    for (nb::handle item : nb::list(nb::steal(result))) {
      gradients.push_back(item.is_none() ? NDArray() : ArrayOf(item.ptr()));
    }
    return gradients;
  };
}

}  // namespace

void BindAutograd(nb::module_& m) {
  nb::class_<Mode>(m, "Mode")
      .def("__init__",
           [](Mode* self, int recording, int training) {
             new (self) Mode{recording, training};
           })
      .def("__enter__", [](Mode& self) { self.Enter(); })
      .def("__exit__", [](Mode& self, nb::args) { self.Exit(); });
  m.def("is_recording", [] { return Recording(); });
  m.def("is_training", [] { return Training(); });
  m.def("set_recording", [](bool on) { return std::exchange(Recording(), on); });
  m.def("set_training", [](bool on) { return std::exchange(Training(), on); });
  m.def("attach_grad",
        [](const NDArray& x, const NDArray& grad, const std::string& req) {
          AttachGrad(x, grad, ReqFromName(req));
        });
  m.def("drop_grad", [](const NDArray& x) { x.body()->tape = nullptr; });
  m.def("grad_of", &GradOf);
  m.def("grad_req_of", [](const NDArray& x) {
    const GradReq req = GradReqOf(x);
    return req == GradReq::kWrite ? "write" : req == GradReq::kAdd ? "add" : "null";
  });
  m.def("is_tracked", &IsTracked);
  m.def("fresh_grad", &FreshGrad);
  m.def("set_fresh_grad", &SetFreshGrad);
  m.def("backward",
        [](const std::vector<NDArray>& heads, const std::vector<NDArray>& grads,
           bool retain_graph,
           bool train_mode) { Backward(heads, grads, retain_graph, train_mode); });
  m.def("grad", [](const std::vector<NDArray>& heads,
                   const std::vector<NDArray>& variables,
                   const std::vector<NDArray>& head_grads, bool retain_graph,
                   bool create_graph, bool train_mode) {
    return Grad(heads, variables, head_grads, retain_graph, create_graph, train_mode);
  });
  m.def("symbol_of_tape", &SymbolOfTape);
  m.def("record_custom", [](const std::string& name, const std::vector<NDArray>& in,
                            const std::vector<NDArray>& out, nb::callable gradient) {
    RecordCustom(name, in, out, FromPython(std::move(gradient)));
  });
}

}  // namespace plait::python
