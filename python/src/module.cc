// The extension module plait._plait.

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "base/blocking.h"
#include "bindings.h"
#include "convert.h"
#include "ndarray_type.h"
#include "op_function.h"
#include "run/invoke.h"
#include "run/push.h"

namespace nb = nanobind;

namespace plait::python {
namespace {

// nanobind passes other exceptions to this one; Python errors are set already.
void Translate(const std::exception_ptr& error, void*) {
  try {
    std::rethrow_exception(error);
  } catch (const PythonError&) {
  } catch (const nb::python_error&) {
    throw;
  } catch (const std::exception&) {
    SetErrorFromException();
  }
}

// While a thread waits, others may run Python.
void* ReleaseLock() {
  return Py_IsInitialized() && PyGILState_Check() ? PyEval_SaveThread() : nullptr;
}
void TakeLock(void* state) {
  PyEval_RestoreThread(static_cast<PyThreadState*>(state));
}

}  // namespace
}  // namespace plait::python

NB_MODULE(_plait, m) {
  using namespace plait::python;
  nb::register_exception_translator(Translate);
  nb::set_leak_warnings(false);
  plait::GlobalBlockingHooks() = {ReleaseLock, TakeLock};
  plait::SetCallSite(PythonCallSite);
  plait::AttachToEngine();
  try {
    AddNDArrayType(m.ptr());
    AddOpFunctionType(m.ptr());
  } catch (const PythonError&) {
    throw nb::python_error();
  }
  m.def("register_error",
        [](int kind, nb::object cls) { RegisterErrorClass(kind, cls.ptr()); });
  BindOperators(m);
  BindArrays(m);
  BindAutograd(m);
  BindCustom(m);
  BindData(m);
  BindImage(m);
  BindKVStore(m);
  BindLoader(m);
  BindSamples(m);
  BindProfiler(m);
  BindExecutor(m);
  BindGraph(m);
  BindPrecision(m);
  BindSparse(m);
  BindSymbol(m);
  BindSystem(m);
  BindTrain(m);
}
