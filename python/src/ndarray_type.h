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
PyObject* Wrap(NDArray array);     // a new object, of the class for dense arrays
PyObject* WrapAny(NDArray array);  // of the class of its storage

// Sparse arrays are objects of subclasses written in Python; for exact NDArrays the
// test is one comparison. `dispatch(name, arrays, params, out)` calls an operator that
// has a sparse argument.
void RegisterSparse(PyObject* row_sparse, PyObject* csr, PyObject* dispatch);
bool IsSparseObject(PyObject* object);
PyObject* CallSparse(const char* op, PyObject* arrays, PyObject* params, PyObject* out);

}  // namespace plait::python

#endif  // PLAIT_PYTHON_NDARRAY_TYPE_H_
