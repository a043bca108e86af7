// OpFunction: the Python callable of an operator, with positional arrays and
// parameters.

#ifndef PLAIT_PYTHON_OP_FUNCTION_H_
#define PLAIT_PYTHON_OP_FUNCTION_H_

#include <Python.h>

#include "graph/op.h"

namespace plait::python {

void AddOpFunctionType(PyObject* module);
// A callable named `name` for the operator; a new reference.
PyObject* NewOpFunction(const OpDef& op, const std::string& name);

}  // namespace plait::python

#endif  // PLAIT_PYTHON_OP_FUNCTION_H_
