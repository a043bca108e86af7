// The parts of the extension module, and how arrays pass through nanobind.

#ifndef PLAIT_PYTHON_BINDINGS_H_
#define PLAIT_PYTHON_BINDINGS_H_

#include <nanobind/nanobind.h>

#include "convert.h"
#include "ndarray_type.h"

namespace plait::python {

void BindOperators(nanobind::module_& m);
void BindArrays(nanobind::module_& m);
void BindAutograd(nanobind::module_& m);
void BindCustom(nanobind::module_& m);
void BindData(nanobind::module_& m);
void BindLoader(nanobind::module_& m);
void BindSamples(nanobind::module_& m);
void BindImage(nanobind::module_& m);
void BindKVStore(nanobind::module_& m);
void BindProfiler(nanobind::module_& m);
void BindExecutor(nanobind::module_& m);
void BindGraph(nanobind::module_& m);
void BindPrecision(nanobind::module_& m);
void BindSparse(nanobind::module_& m);
void BindSymbol(nanobind::module_& m);
void BindSystem(nanobind::module_& m);
void BindTrain(nanobind::module_& m);

}  // namespace plait::python

namespace nanobind::detail {

// NDArray: plait's own Python class.
template <>
struct type_caster<plait::NDArray> {
  NB_TYPE_CASTER(plait::NDArray, const_name("NDArray"))
  bool from_python(handle src, uint8_t, cleanup_list*) noexcept {
    if (src.is_none()) {
      value = plait::NDArray();
      return true;
    }
    if (!plait::python::IsNDArray(src.ptr())) return false;
    value = plait::python::ArrayOf(src.ptr());
    return true;
  }
  static handle from_cpp(plait::NDArray array, rv_policy, cleanup_list*) noexcept {
    if (!array) return none().release();
    return plait::python::Guarded<PyObject*>(
        nullptr, [&] { return plait::python::WrapAny(std::move(array)); });
  }
};

}  // namespace nanobind::detail

#endif  // PLAIT_PYTHON_BINDINGS_H_
