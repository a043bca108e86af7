// Custom operators: calls of Python functions that run as operations of the engine.
//
// The function gets arrays of its own on the memory of the call's arrays. Their Vars
// are new, so that it may read, write and wait for them, while the Vars of the call are
// held by the operation. What the function left under way is done before it ends.

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <utility>

#include "bindings.h"
#include "callback.h"
#include "engine/callback_lane.h"
#include "engine/engine.h"

namespace nb = nanobind;

namespace plait::python {
namespace {

// An array of the call, kept alive without its tape.
struct Operand {
  explicit Operand(const NDArray& x)
      : chunk(&x.chunk()),
        data(x.data()),
        shape(x.shape()),
        dtype(x.dtype()),
        device(x.device()) {}
  NDArray Alias() const {
    return NDArray::Borrow(data, shape, dtype, device, [keep = chunk] {});
  }

  Ref<Chunk> chunk;
  void* data;
  Shape shape;
  DType dtype;
  Device device;
};

class CallbackOperation final : public Operation {
 public:
  CallbackOperation(std::string name, PyObject* function, bool training)
      : name_(std::move(name)),
        scope_(name_ + "::"),
        function_(function),
        training_(training) {
    Py_INCREF(function_);
    lane = Lane::kCallback;  // or that of the device it writes on
  }
  ~CallbackOperation() override { ReleaseLater(function_); }

  void Run() override {
    Check(Py_IsInitialized(), ErrorKind::kRuntime, name_,
          ": Python has ended before the call could run");
    std::vector<NDArray> in, out;
    for (const Operand& x : reads) in.push_back(x.Alias());
    for (const Operand& x : writes) out.push_back(x.Alias());
    RunCallback(training_, scope_.c_str(), in, out, [&] {
      const Owned ins = ListOf(in), outs = ListOf(out);
      Owned::Checked(
          PyObject_CallFunctionObjArgs(function_, ins.get(), outs.get(), nullptr));
    });
  }
  void Abandon() noexcept override {
    for (const Operand& x : writes) FillFailed(x.data, x.dtype, x.shape.size());
  }
  const char* name() const override { return name_.c_str(); }

  std::vector<Operand> reads, writes;

 private:
  const std::string name_, scope_;
  PyObject* function_;
  bool training_;
};

void PushCallback(const std::string& name, nb::callable function,
                  const std::vector<NDArray>& reads, const std::vector<NDArray>& writes,
                  bool training) {
  auto call = std::make_unique<CallbackOperation>(name, function.ptr(), training);
  std::vector<Var*> read_vars, write_vars;
  for (const NDArray& x : reads) {
    call->reads.emplace_back(x);
    x.chunk().SettleForRead();
    read_vars.push_back(&x.var());
  }
  for (const NDArray& x : writes) {
    call->writes.emplace_back(x);
    call->lane = CallbackLane(x.device().id);
    call->bytes += static_cast<size_t>(x.nbytes());
    x.chunk().SettleForWrite();
    write_vars.push_back(&x.var());
  }
  Engine::Get().Push(std::move(call), read_vars, write_vars);
}

}  // namespace

Owned ListOf(std::span<const NDArray> arrays) {
  Owned list = Owned::Checked(PyList_New(0));
  for (const NDArray& x : arrays) {
    Owned item;
    if (x) item = Owned(WrapAny(x));
    if (PyList_Append(list.get(), x ? item.get() : Py_None) != 0) throw PythonError();
  }
  return list;
}

void BindCustom(nb::module_& m) {
  m.def("push_callback", &PushCallback, nb::arg("name"), nb::arg("function"),
        nb::arg("reads"), nb::arg("writes"), nb::arg("training"),
        "Runs function(reads, writes) when the engine has the arrays ready.");
}

}  // namespace plait::python
