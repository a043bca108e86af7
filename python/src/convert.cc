// Conversions: the code behind convert.h.

#include "convert.h"

#include <frameobject.h>

#include <array>
#include <atomic>
#include <mutex>
#include <string_view>

#include "base/error.h"
#include "kvstore/exchange.h"

namespace plait::python {
namespace {

// After the kinds: the class of what fails because a rank of the job is lost.
constexpr int kRankLost = static_cast<int>(ErrorKind::kIo) + 1;
constexpr int kNumKinds = kRankLost + 1;
std::array<PyObject*, kNumKinds> error_classes = {};

// A Python exception on its way through C++ code and the engine.
class CarriedError : public std::exception {
 public:
  CarriedError(PyObject* type, PyObject* value, PyObject* traceback)
      : type_(type), value_(value), traceback_(traceback) {}
  CarriedError(const CarriedError& other)
      : type_(other.type_), value_(other.value_), traceback_(other.traceback_) {
    const PyGILState_STATE state = PyGILState_Ensure();
    Py_XINCREF(type_);
    Py_XINCREF(value_);
    Py_XINCREF(traceback_);
    PyGILState_Release(state);
  }
  ~CarriedError() override {
    for (PyObject* object : {type_, value_, traceback_}) {
      if (object != nullptr) ReleaseLater(object);
    }
  }
  void Restore() const {
    Py_XINCREF(type_);
    Py_XINCREF(value_);
    Py_XINCREF(traceback_);
    PyErr_Restore(type_, value_, traceback_);
  }
  const char* what() const noexcept override { return "an exception of Python code"; }

 private:
  PyObject *type_, *value_, *traceback_;
};

PyObject* ClassOf(ErrorKind kind) {
  if (PyObject* cls = error_classes[static_cast<int>(kind)]) return cls;
  switch (kind) {
    case ErrorKind::kType:
      return PyExc_TypeError;
    case ErrorKind::kIndex:
      return PyExc_IndexError;
    case ErrorKind::kMemory:
      return PyExc_MemoryError;
    case ErrorKind::kRuntime:
      return PyExc_RuntimeError;
    case ErrorKind::kNotImplemented:
      return PyExc_NotImplementedError;
    case ErrorKind::kIo:
      return PyExc_OSError;
    default:
      return PyExc_ValueError;
  }
}

PyObject* ClassOf(const Error& error) {
  const std::string lost = WorldFault();
  if (!lost.empty() && error_classes[kRankLost] != nullptr &&
      std::string_view(error.what()).find(lost) != std::string_view::npos) {
    return error_classes[kRankLost];
  }
  return ClassOf(error.kind());
}

struct ReleaseQueue {
  std::mutex mutex;
  std::vector<PyObject*> objects;
  bool scheduled = false;
};
ReleaseQueue& Releases() {
  static auto* queue = new ReleaseQueue;
  return *queue;
}
int DrainReleases(void*) {
  std::vector<PyObject*> objects;
  {
    const std::lock_guard lock(Releases().mutex);
    objects.swap(Releases().objects);
    Releases().scheduled = false;
  }
  for (PyObject* object : objects) Py_DECREF(object);
  return 0;
}

std::string Utf8(PyObject* text) {
  Py_ssize_t size = 0;
  const char* data = PyUnicode_AsUTF8AndSize(text, &size);
  if (data == nullptr) throw PythonError();
  return std::string(data, static_cast<size_t>(size));
}

// numpy.dtype(object), or null with Python's error set.
PyObject* NumpyDType(PyObject* object) {
  static PyObject* dtype = [] {
    const Owned numpy = Owned::Checked(PyImport_ImportModule("numpy"));
    return PyObject_GetAttrString(numpy.get(), "dtype");
  }();
  return PyObject_CallOneArg(dtype, object);
}

// x.name of numpy.dtype(x), for types and dtypes.
std::string NumpyName(PyObject* object) {
  if (PyObject_HasAttrString(object, "names")) {  // a structured dtype: bfloat16
    const Owned names = Owned::Checked(PyObject_GetAttrString(object, "names"));
    if (PyTuple_Check(names.get()) && PyTuple_GET_SIZE(names.get()) == 1)
      return Utf8(PyTuple_GET_ITEM(names.get(), 0));
  }
  const Owned made = Owned::Checked(NumpyDType(object));
  const Owned name = Owned::Checked(PyObject_GetAttrString(made.get(), "name"));
  return Utf8(name.get());
}

AttrValue FromPython(PyObject* object, int depth);

// A Symbol is a sequence of itself, and a list may hold itself: the depth is bounded.
AttrValue ListFromPython(PyObject* sequence, int depth) {
  constexpr int kMostDepth = 8;
  Check(depth < kMostDepth, ErrorKind::kType, "an argument: got a value of the type ",
        Py_TYPE(sequence)->tp_name, " that holds values more than ", kMostDepth,
        " levels deep; a number, a text or a list of them was expected");
  const Owned fast =
      Owned::Checked(PySequence_Fast(sequence, "a sequence was expected"));
  AttrList items;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(fast.get()); ++i) {
    items.push_back(FromPython(PySequence_Fast_GET_ITEM(fast.get(), i), depth + 1));
  }
  return {std::move(items)};
}

AttrValue FromPython(PyObject* object, int depth) {
  if (object == Py_None) return {};
  if (PyBool_Check(object)) return {object == Py_True};
  if (PyLong_Check(object)) {
    int overflow = 0;
    const long long value = PyLong_AsLongLongAndOverflow(object, &overflow);
    if (overflow == 0) return {static_cast<int64_t>(value)};
    const double wide = PyLong_AsDouble(object);
    if (wide == -1 && PyErr_Occurred()) throw PythonError();
    return {wide};
  }
  if (PyFloat_Check(object)) return {PyFloat_AS_DOUBLE(object)};
  if (PyUnicode_Check(object)) return {Utf8(object)};
  if (PyTuple_Check(object) || PyList_Check(object))
    return ListFromPython(object, depth);
  if (PyType_Check(object)) return {NumpyName(object)};
  if (PyIndex_Check(object)) {
    const Owned number = Owned::Checked(PyNumber_Index(object));
    return FromPython(number.get(), depth);
  }
  if (PyObject_HasAttrString(object, "itemsize") &&
      PyObject_HasAttrString(object, "kind"))
    return {NumpyName(object)};
  if (PyNumber_Check(object) && !PySequence_Check(object)) {
    const Owned number = Owned::Checked(PyNumber_Float(object));
    return FromPython(number.get(), depth);
  }
  if (PySequence_Check(object)) return ListFromPython(object, depth);
  const Owned text = Owned::Checked(PyObject_Str(object));
  return {Utf8(text.get())};
}

}  // namespace

void RegisterErrorClass(int kind, PyObject* cls) {
  Check(kind >= 0 && kind < kNumKinds, ErrorKind::kRuntime, "internal: error kind ",
        kind);
  Py_INCREF(cls);
  error_classes[kind] = cls;
}

void SetErrorFromException() noexcept {
  try {
    throw;
  } catch (const CarriedError& e) {
    e.Restore();
  } catch (const Error& e) {
    PyErr_SetString(ClassOf(e), e.what());
  } catch (const std::bad_alloc&) {
    PyErr_SetString(ClassOf(ErrorKind::kMemory), "out of memory");
  } catch (const std::bad_cast&) {
    PyErr_SetString(ClassOf(ErrorKind::kType),
                    "an argument, or a value in one, has a type that the call of this "
                    "line cannot take");
  } catch (const PythonError&) {
  } catch (const std::exception& e) {
    PyErr_SetString(ClassOf(ErrorKind::kRuntime), e.what());
  } catch (...) {
    PyErr_SetString(ClassOf(ErrorKind::kRuntime), "an unknown C++ exception");
  }
}

std::exception_ptr TakePythonError() {
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  return std::make_exception_ptr(CarriedError(type, value, traceback));
}

void ReleaseNow() {
  DrainReleases(nullptr);
}

void ReleaseLater(PyObject* object) {
  ReleaseQueue& queue = Releases();
  const std::lock_guard lock(queue.mutex);
  queue.objects.push_back(object);
  // A full table of pending calls is no loss: the next release tries again.
  if (!queue.scheduled)
    queue.scheduled = Py_AddPendingCall(DrainReleases, nullptr) == 0;
}

AttrValue AttrFromPython(PyObject* object) {
  return FromPython(object, 0);
}

PyObject* AttrToPython(const AttrValue& value) {
  if (const auto* b = std::get_if<bool>(&value.v)) return PyBool_FromLong(*b);
  if (const auto* i = std::get_if<int64_t>(&value.v)) return PyLong_FromLongLong(*i);
  if (const auto* d = std::get_if<double>(&value.v)) return PyFloat_FromDouble(*d);
  if (const auto* s = std::get_if<std::string>(&value.v))
    return PyUnicode_FromStringAndSize(s->data(), static_cast<Py_ssize_t>(s->size()));
  if (const auto* items = std::get_if<AttrList>(&value.v)) {
    Owned tuple = Owned::Checked(PyTuple_New(static_cast<Py_ssize_t>(items->size())));
    for (size_t i = 0; i < items->size(); ++i) {
      PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i),
                       AttrToPython((*items)[i]));
    }
    return tuple.release();
  }
  Py_RETURN_NONE;
}

namespace {
std::atomic<DType> default_dtype{DType::kFloat32};
}  // namespace

DType DefaultDType() {
  return default_dtype.load(std::memory_order_relaxed);
}

void SetDefaultDType(DType dtype) {
  default_dtype.store(dtype, std::memory_order_relaxed);
}

DType DTypeFromPython(PyObject* object) {
  if (object == Py_None) return DefaultDType();
  if (PyUnicode_Check(object)) {
    try {
      return ParseDType(Utf8(object));
    } catch (const Error&) {
      // NumPy's other spellings: f4, int, double, ...
      if (PyObject* name = NumpyDType(object))
        return ParseDType(NumpyName(Owned(name).get()));
      PyErr_Clear();
      throw;
    }
  }
  if (PyLong_Check(object))
    return AttrCodec<DType>::Decode(AttrFromPython(object), "dtype");
  return ParseDType(NumpyName(object));
}

Shape ShapeFromPython(PyObject* object) {
  if (PyIndex_Check(object)) {
    const Py_ssize_t size = PyNumber_AsSsize_t(object, PyExc_OverflowError);
    if (size == -1 && PyErr_Occurred()) throw PythonError();
    return Shape{size};
  }
  const Owned fast = Owned::Checked(
      PySequence_Fast(object, "shape: an int or a sequence of ints was expected"));
  Shape shape;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(fast.get()); ++i) {
    PyObject* item = PySequence_Fast_GET_ITEM(fast.get(), i);
    const Py_ssize_t size = PyNumber_AsSsize_t(item, PyExc_OverflowError);
    if (size == -1 && PyErr_Occurred()) throw PythonError();
    shape.Append(size);
  }
  return shape;
}

PyObject* ShapeToPython(const Shape& shape) {
  PyObject* tuple = PyTuple_New(shape.rank());
  for (int i = 0; tuple != nullptr && i < shape.rank(); ++i) {
    PyTuple_SET_ITEM(tuple, i, PyLong_FromLongLong(shape[i]));
  }
  return tuple;
}

bool NumberFromPython(PyObject* object, double* value) {
  if (PyFloat_Check(object)) {
    *value = PyFloat_AS_DOUBLE(object);
    return true;
  }
  if (PyLong_Check(object)) {
    *value = PyLong_AsDouble(object);
    if (*value == -1 && PyErr_Occurred()) throw PythonError();
    return true;
  }
  // NumPy's scalars, and 0-d arrays; not sequences, whose __float__ may succeed too.
  PyNumberMethods* number = Py_TYPE(object)->tp_as_number;
  if (number == nullptr || number->nb_float == nullptr) return false;
  if (PyObject_CheckBuffer(object)) {
    const Owned shape = Owned(PyObject_GetAttrString(object, "shape"));
    if (!shape) PyErr_Clear();
    if (!shape || !PyTuple_Check(shape.get()) || PyTuple_GET_SIZE(shape.get()) != 0)
      return false;
  }
  *value = PyFloat_AsDouble(object);
  if (*value == -1 && PyErr_Occurred()) throw PythonError();
  return true;
}

std::string PythonCallSite() {
  if (!PyGILState_Check()) return {};
  // The innermost frame outside this package.
  PyFrameObject* frame = PyEval_GetFrame();
  Py_XINCREF(frame);
  std::string site;
  while (frame != nullptr) {
    PyCodeObject* code = PyFrame_GetCode(frame);
    const char* file = PyUnicode_AsUTF8(code->co_filename);
    const std::string name = file ? file : "?";
    if (site.empty() || name.find("/plait/") == std::string::npos) {
      site = name + ":" + std::to_string(PyFrame_GetLineNumber(frame));
    }
    Py_DECREF(code);
    PyFrameObject* back = PyFrame_GetBack(frame);
    Py_DECREF(frame);
    if (name.find("/plait/") == std::string::npos) {
      Py_XDECREF(back);
      break;
    }
    frame = back;
  }
  return site;
}

}  // namespace plait::python
