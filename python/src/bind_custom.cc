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
#include "engine/engine.h"
#include "run/push.h"
#include "run/tape.h"

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

// Python's lock, from any thread.
class PythonLock {
 public:
  PythonLock() : state_(PyGILState_Ensure()) {}
  ~PythonLock() { PyGILState_Release(state_); }
  PythonLock(const PythonLock&) = delete;
  PythonLock& operator=(const PythonLock&) = delete;

 private:
  PyGILState_STATE state_;
};

// The modes of the thread while it runs a callback: not recording, and operators run
// under the callback's name.
class CallbackMode {
 public:
  CallbackMode(bool training, const char* scope)
      : recording_(std::exchange(Recording(), false)),
        training_(std::exchange(Training(), training)),
        layer_(std::exchange(CurrentLayer(), scope)) {}
  ~CallbackMode() {
    Recording() = recording_;
    Training() = training_;
    CurrentLayer() = layer_;
  }
  CallbackMode(const CallbackMode&) = delete;
  CallbackMode& operator=(const CallbackMode&) = delete;

 private:
  bool recording_, training_;
  const char* layer_;
};

class CallbackOperation final : public Operation {
 public:
  CallbackOperation(std::string name, PyObject* function, bool training)
      : name_(std::move(name)),
        scope_(name_ + "::"),
        function_(function),
        training_(training) {
    Py_INCREF(function_);
    lane = Lane::kCallback;
  }
  ~CallbackOperation() override { ReleaseLater(function_); }

  void Run() override {
    Check(Py_IsInitialized(), ErrorKind::kRuntime, name_,
          ": Python has ended before the call could run");
    const PythonLock lock;
    const CallbackMode mode(training_, scope_.c_str());
    std::vector<NDArray> in, out;
    for (const Operand& x : reads) in.push_back(x.Alias());
    for (const Operand& x : writes) out.push_back(x.Alias());
    std::exception_ptr error = Call(in, out);
    // Both free Python's lock while they wait.
    for (const NDArray& x : in) x.WaitToWrite();
    for (const NDArray& x : out) {
      try {
        x.WaitToRead();
        x.WaitToWrite();
      } catch (...) {
        if (!error) error = std::current_exception();
      }
    }
    if (error) std::rethrow_exception(error);
  }
  void Abandon() noexcept override {
    for (const Operand& x : writes) FillFailed(x.data, x.dtype, x.shape.size());
  }
  const char* name() const override { return name_.c_str(); }

  std::vector<Operand> reads, writes;

 private:
  std::exception_ptr Call(const std::vector<NDArray>& in,
                          const std::vector<NDArray>& out) {
    try {
      const Owned ins = Listed(in), outs = Listed(out);
      Owned::Checked(
          PyObject_CallFunctionObjArgs(function_, ins.get(), outs.get(), nullptr));
      return nullptr;
    } catch (const PythonError&) {
      return TakePythonError();
    } catch (...) {
      return std::current_exception();
    }
  }
  static Owned Listed(const std::vector<NDArray>& arrays) {
    Owned list = Owned::Checked(PyList_New(0));
    for (const NDArray& x : arrays) {
      const Owned item(Wrap(x));
      if (PyList_Append(list.get(), item.get()) != 0) throw PythonError();
    }
    return list;
  }

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
    call->bytes += static_cast<size_t>(x.nbytes());
    x.chunk().SettleForWrite();
    write_vars.push_back(&x.var());
  }
  Engine::Get().Push(std::move(call), read_vars, write_vars);
}

}  // namespace

void BindCustom(nb::module_& m) {
  m.def("push_callback", &PushCallback, nb::arg("name"), nb::arg("function"),
        nb::arg("reads"), nb::arg("writes"), nb::arg("training"),
        "Runs function(reads, writes) when the engine has the arrays ready.");
}

}  // namespace plait::python
