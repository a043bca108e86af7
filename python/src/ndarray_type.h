// The Python class NDArray: a thin object around an array handle.

#ifndef PLAIT_PYTHON_NDARRAY_TYPE_H_
#define PLAIT_PYTHON_NDARRAY_TYPE_H_

#include <Python.h>

#include "ndarray/ndarray.h"

namespace plait::python {

struct PyNDArray {
  PyObject_HEAD NDArray array;
  PyObject* weakrefs;
};

extern PyTypeObject* ndarray_type;

// Makes the class and adds it to the module; throws PythonError.
void AddNDArrayType(PyObject* module);

inline bool IsNDArray(PyObject* object) {
  return Py_TYPE(object) == ndarray_type || PyObject_TypeCheck(object, ndarray_type);
}
inline NDArray& ArrayOf(PyObject* object) {
  return reinterpret_cast<PyNDArray*>(object)->array;
}
PyObject* Wrap(NDArray array);  // a new object

}  // namespace plait::python

#endif  // PLAIT_PYTHON_NDARRAY_TYPE_H_
