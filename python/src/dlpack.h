// DLPack: sharing memory with other libraries in the same process.
//
// The structures are those of the DLPack standard, version 0.8 (unversioned capsules).

#ifndef PLAIT_PYTHON_DLPACK_H_
#define PLAIT_PYTHON_DLPACK_H_

#include <Python.h>

#include "ndarray/ndarray.h"

namespace plait::python {

// A capsule "dltensor" on the array's memory, once earlier writes are done.
PyObject* ToDLPack(const NDArray& a);
// Takes over the memory of a capsule "dltensor".
NDArray FromDLPack(PyObject* capsule);

}  // namespace plait::python

#endif  // PLAIT_PYTHON_DLPACK_H_
