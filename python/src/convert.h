// Conversions between Python objects and Plait's values, and errors in both directions.

#ifndef PLAIT_PYTHON_CONVERT_H_
#define PLAIT_PYTHON_CONVERT_H_

#include <Python.h>

#include <string>
#include <vector>

#include "graph/attr.h"
#include "ndarray/ndarray.h"

namespace plait::python {

// Thrown where a Python exception is set already.
struct PythonError {};

// An owned reference.
class Owned {
 public:
  explicit Owned(PyObject* object = nullptr) : object_(object) {}
  Owned(Owned&& other) noexcept : object_(other.release()) {}
  Owned& operator=(Owned&& other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Owned() { Py_XDECREF(object_); }
  // Takes over a new reference; throws PythonError when it is null.
  static Owned Checked(PyObject* object) {
    if (object == nullptr) throw PythonError();
    return Owned(object);
  }
  PyObject* get() const { return object_; }
  PyObject* release() { return std::exchange(object_, nullptr); }
  explicit operator bool() const { return object_ != nullptr; }

 private:
  PyObject* object_;
};

// Sets the Python exception for the C++ exception being handled.
void SetErrorFromException() noexcept;
// The class that stands for a kind of error; registered by plait/error.py.
void RegisterErrorClass(int kind, PyObject* cls);
// The current Python exception as a C++ one that keeps it; clears it.
std::exception_ptr TakePythonError();

// Runs f and returns its result, or sets a Python exception and returns `failed`.
template <typename T, typename F>
T Guarded(T failed, F&& f) noexcept {
  try {
    return f();
  } catch (const PythonError&) {
    return failed;
  } catch (...) {
    SetErrorFromException();
    return failed;
  }
}

AttrValue AttrFromPython(PyObject* object);
PyObject* AttrToPython(const AttrValue& value);  // a new reference

// The dtype where none is given: float32, or float64 where NumPy's rules are asked for.
DType DefaultDType();
void SetDefaultDType(DType dtype);

// Of a name, a type, a numpy.dtype, a number; of None the default.
DType DTypeFromPython(PyObject* object);
Shape ShapeFromPython(PyObject* object);      // a number or a sequence of them
PyObject* ShapeToPython(const Shape& shape);  // a new tuple

// True for int, float, bool and NumPy's numbers; sets *value.
bool NumberFromPython(PyObject* object, double* value);

// Gives up a reference from any thread, later, on a thread that holds the lock.
void ReleaseLater(PyObject* object);
// Does it now, for a caller that holds the lock. Until then the interpreter may take
// its time: a call that another thread asked for waits until the lock changes hands.
void ReleaseNow();

std::string PythonCallSite();

}  // namespace plait::python

#endif  // PLAIT_PYTHON_CONVERT_H_
