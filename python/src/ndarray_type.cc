// The Python class NDArray: creation, arithmetic and properties.
//
// Everything here is on the path of small calls, so it is plain CPython. Methods that
// need not be quick are added to the class by python/plait/ndarray/.

#include "ndarray_type.h"

#include <structmember.h>

#include <new>

#include "convert.h"
#include "graph/op.h"
#include "ndarray/sparse.h"
#include "run/invoke.h"
#include "run/tape.h"

namespace plait::python {

PyTypeObject* ndarray_type = nullptr;

namespace {

// The operators behind Python's arithmetic. Looked up once, when the module loads.
struct Arithmetic {
  const OpDef* arrays;   // array with array
  const OpDef* scalar;   // array with number
  const OpDef* reverse;  // number with array
};
struct ScalarParamsView {  // of the scalar operators: made through their fields
  double scalar;
};

struct OpTable {
  Arithmetic add, sub, mul, div, mod, pow;
  Arithmetic compare[6];  // in the order of Py_LT, LE, EQ, NE, GT, GE
  const OpDef* negative;
};
OpTable ops;

void LoadOps() {
  const auto load = [](const char* arrays, const char* scalar, const char* reverse) {
    return Arithmetic{&GetOp(arrays), &GetOp(scalar), &GetOp(reverse)};
  };
  ops.add = load("broadcast_add", "_plus_scalar", "_plus_scalar");
  ops.sub = load("broadcast_sub", "_minus_scalar", "_rminus_scalar");
  ops.mul = load("broadcast_mul", "_mul_scalar", "_mul_scalar");
  ops.div = load("broadcast_div", "_div_scalar", "_rdiv_scalar");
  ops.mod = load("broadcast_mod", "_mod_scalar", "_rmod_scalar");
  ops.pow = load("broadcast_power", "_power_scalar", "_rpower_scalar");
  ops.compare[Py_LT] = load("broadcast_lesser", "_lesser_scalar", "_greater_scalar");
  ops.compare[Py_LE] =
      load("broadcast_lesser_equal", "_lesser_equal_scalar", "_greater_equal_scalar");
  ops.compare[Py_EQ] = load("broadcast_equal", "_equal_scalar", "_equal_scalar");
  ops.compare[Py_NE] =
      load("broadcast_not_equal", "_not_equal_scalar", "_not_equal_scalar");
  ops.compare[Py_GT] = load("broadcast_greater", "_greater_scalar", "_lesser_scalar");
  ops.compare[Py_GE] =
      load("broadcast_greater_equal", "_greater_equal_scalar", "_lesser_equal_scalar");
  ops.negative = &GetOp("negative");
}

ParamsRef ScalarParams(const OpDef& op, double value) {
  const NamedAttr attr{"scalar", {value}};
  return MakeParams(op, {&attr, 1});
}

// x op y where one is sparse.
PyObject* ComputeSparse(const Arithmetic& a, PyObject* x, PyObject* y, bool in_place) {
  const bool array_x = IsNDArray(x), array_y = IsNDArray(y);
  const OpDef& op = array_x && array_y ? *a.arrays : array_x ? *a.scalar : *a.reverse;
  PyObject* out = in_place ? x : Py_None;
  Owned arrays, params = Owned::Checked(PyDict_New());
  if (array_x && array_y) {
    arrays = Owned::Checked(PyList_New(0));
    if (PyList_Append(arrays.get(), x) < 0 || PyList_Append(arrays.get(), y) < 0)
      throw PythonError();
  } else {
    double number;
    if (!NumberFromPython(array_x ? y : x, &number)) Py_RETURN_NOTIMPLEMENTED;
    arrays = Owned::Checked(Py_BuildValue("[O]", array_x ? x : y));
    const Owned value = Owned::Checked(PyFloat_FromDouble(number));
    if (PyDict_SetItemString(params.get(), "scalar", value.get()) < 0)
      throw PythonError();
  }
  return CallSparse(op.name.c_str(), arrays.get(), params.get(), out);
}

// x op y, either of which may be a number; `out` overwrites an array.
PyObject* Compute(const Arithmetic& a, PyObject* x, PyObject* y, const NDArray* out) {
  return Guarded<PyObject*>(nullptr, [&]() -> PyObject* {
    if (IsSparseObject(x) || IsSparseObject(y))
      return ComputeSparse(a, x, y, out != nullptr);
    const bool array_x = IsNDArray(x), array_y = IsNDArray(y);
    Arrays result;
    const std::span<const NDArray> into =
        out ? std::span(out, 1) : std::span<const NDArray>();
    if (array_x && array_y) {
      const NDArray in[] = {ArrayOf(x), ArrayOf(y)};
      result = Invoke(*a.arrays, a.arrays->defaults, in, into);
    } else {
      double number;
      if (!NumberFromPython(array_x ? y : x, &number)) Py_RETURN_NOTIMPLEMENTED;
      const OpDef& op = array_x ? *a.scalar : *a.reverse;
      const NDArray& array = ArrayOf(array_x ? x : y);
      result = Invoke(op, ScalarParams(op, number), {&array, 1}, into);
    }
    if (out == nullptr) return Wrap(std::move(result[0]));
    Py_INCREF(x);
    return x;
  });
}

template <Arithmetic OpTable::*kOp>
PyObject* Binary(PyObject* x, PyObject* y) {
  return Compute(ops.*kOp, x, y, nullptr);
}

// As a float, where x is an array of whole numbers.
Owned AsFloat(PyObject* x) {
  if (!IsNDArray(x) || IsSparseObject(x) || IsFloat(ArrayOf(x).dtype())) {
    Py_INCREF(x);
    return Owned(x);
  }
  static const OpDef& cast = GetOp("Cast");
  const NamedAttr attr{"dtype", {std::string(Name(DefaultDType()))}};
  const NDArray& array = ArrayOf(x);
  return Owned::Checked(
      Wrap(std::move(Invoke(cast, MakeParams(cast, {&attr, 1}), {&array, 1}, {})[0])));
}

// x / y: of whole numbers the quotient is a whole number as well, but not where NumPy's
// default dtype is asked for.
PyObject* Divide(PyObject* x, PyObject* y) {
  if (DefaultDType() == DType::kFloat32) return Compute(ops.div, x, y, nullptr);
  return Guarded<PyObject*>(nullptr, [&]() -> PyObject* {
    const auto is_float = [](PyObject* v) {
      return IsNDArray(v) && IsFloat(ArrayOf(v).dtype());
    };
    if (is_float(x) || is_float(y)) return Compute(ops.div, x, y, nullptr);
    const Owned a = AsFloat(x), b = AsFloat(y);
    return Compute(ops.div, a.get(), b.get(), nullptr);
  });
}

template <Arithmetic OpTable::*kOp>
PyObject* InPlace(PyObject* x, PyObject* y) {
  if (Recording() && IsTracked(ArrayOf(x))) {
    return Guarded<PyObject*>(nullptr, [&]() -> PyObject* {
      Fail(ErrorKind::kRuntime,
           "ndarray: Inplace operations (+=, -=, x[:]=, etc) are not supported when "
           "recording with autograd; x = x + y was expected");
    });
  }
  return Compute(ops.*kOp, x, y, &ArrayOf(x));
}

PyObject* Power(PyObject* x, PyObject* y, PyObject* modulus) {
  if (modulus != Py_None) Py_RETURN_NOTIMPLEMENTED;
  return Binary<&OpTable::pow>(x, y);
}
PyObject* InPlacePower(PyObject* x, PyObject* y, PyObject* modulus) {
  if (modulus != Py_None) Py_RETURN_NOTIMPLEMENTED;
  return InPlace<&OpTable::pow>(x, y);
}

PyObject* Negative(PyObject* x) {
  return Guarded<PyObject*>(nullptr, [&] {
    if (IsSparseObject(x)) {
      const Owned arrays = Owned::Checked(Py_BuildValue("[O]", x));
      const Owned params = Owned::Checked(PyDict_New());
      return CallSparse("negative", arrays.get(), params.get(), Py_None);
    }
    return Wrap(
        std::move(Invoke(*ops.negative, ops.negative->defaults, {&ArrayOf(x), 1})[0]));
  });
}

PyObject* Compare(PyObject* x, PyObject* y, int kind) {
  if (y == Py_None && (kind == Py_EQ || kind == Py_NE)) {
    return PyBool_FromLong(kind == Py_NE);
  }
  return Compute(ops.compare[kind], x, y, nullptr);
}

Py_hash_t Hash(PyObject* self) {
  return _Py_HashPointer(self);
}

void Dealloc(PyObject* self) {
  auto* object = reinterpret_cast<PyNDArray*>(self);
  if (object->weakrefs != nullptr) PyObject_ClearWeakRefs(self);
  object->array.~NDArray();
  PyTypeObject* type = Py_TYPE(self);
  type->tp_free(self);
  Py_DECREF(type);
}

// NDArray() has no elements, as every object must stand for some array; NDArray(x)
// stands for x's. Arrays of values are made by functions.
PyObject* New(PyTypeObject* type, PyObject* args, PyObject*) {
  return Guarded<PyObject*>(nullptr, [&]() -> PyObject* {
    PyObject* source = PyTuple_GET_SIZE(args) > 0 ? PyTuple_GET_ITEM(args, 0) : nullptr;
    Check(source == nullptr || IsNDArray(source), ErrorKind::kType, "NDArray: got ",
          source ? Py_TYPE(source)->tp_name : "",
          "; an NDArray was expected (nd.array makes arrays of values)");
    NDArray array = source ? ArrayOf(source) : NDArray::Empty(Shape{0});
    PyObject* self = type->tp_alloc(type, 0);
    if (self == nullptr) throw PythonError();
    ::new (&reinterpret_cast<PyNDArray*>(self)->array) NDArray(std::move(array));
    return self;
  });
}

Py_ssize_t Length(PyObject* self) {
  return Guarded<Py_ssize_t>(-1, [&]() -> Py_ssize_t {
    const Shape& shape = ArrayOf(self).shape();
    Check(shape.rank() > 0, ErrorKind::kType, "len: of an array without axes");
    return shape[0];
  });
}

PyObject* GetShape(PyObject* self, void*) {
  return ShapeToPython(ArrayOf(self).shape());
}
PyObject* GetNdim(PyObject* self, void*) {
  return PyLong_FromLong(ArrayOf(self).shape().rank());
}
PyObject* GetSize(PyObject* self, void*) {
  return PyLong_FromLongLong(ArrayOf(self).size());
}
PyObject* GetDTypeName(PyObject* self, void*) {
  const std::string_view name = Name(ArrayOf(self).dtype());
  return PyUnicode_FromStringAndSize(name.data(), static_cast<Py_ssize_t>(name.size()));
}
PyObject* GetFreshGrad(PyObject* self, void*) {
  return PyBool_FromLong(FreshGrad(ArrayOf(self)));
}
int SetFreshGradOf(PyObject* self, PyObject* value, void*) {
  SetFreshGrad(ArrayOf(self), value != nullptr && PyObject_IsTrue(value) == 1);
  return 0;
}
PyObject* GetDevice(PyObject* self, void*) {
  const Device d = ArrayOf(self).device();
  return Py_BuildValue("(ii)", static_cast<int>(d.type), static_cast<int>(d.id));
}

// The memory behind an array: its own, or that of its parts.
template <typename F>
void EachPart(const NDArray& x, F&& f) {
  if (!IsSparse(x)) return f(x);
  const SparseParts p = PartsOf(x);
  f(p.data);
  f(p.indices);
  if (p.indptr) f(p.indptr);
}

PyObject* WaitToRead(PyObject* self, PyObject*) {
  return Guarded<PyObject*>(nullptr, [&]() -> PyObject* {
    EachPart(ArrayOf(self), [](const NDArray& a) { a.WaitToRead(); });
    Py_RETURN_NONE;
  });
}
PyObject* WaitToWrite(PyObject* self, PyObject*) {
  return Guarded<PyObject*>(nullptr, [&]() -> PyObject* {
    EachPart(ArrayOf(self), [](const NDArray& a) { a.WaitToWrite(); });
    Py_RETURN_NONE;
  });
}

PyGetSetDef getset[] = {
    {"shape", GetShape, nullptr, "Sizes of the axes, a tuple.", nullptr},
    {"ndim", GetNdim, nullptr, "Number of axes.", nullptr},
    {"size", GetSize, nullptr, "Number of elements.", nullptr},
    {"_dtype_name", GetDTypeName, nullptr, "Name of the dtype.", nullptr},
    {"_fresh_grad", GetFreshGrad, SetFreshGradOf,
     "Whether backward() has written the gradient since the last update.", nullptr},
    {"_device", GetDevice, nullptr, "(type, id) of the device.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyMethodDef methods[] = {
    {"wait_to_read", WaitToRead, METH_NOARGS,
     "Returns when all writes of the array asked for so far are done. Raises the error "
     "of an operation that failed on the way, once."},
    {"wait_to_write", WaitToWrite, METH_NOARGS,
     "Returns when all reads and writes of the array asked for so far are done."},
    {nullptr, nullptr, 0, nullptr},
};

PyMemberDef members[] = {
    {"__weaklistoffset__", T_PYSSIZET, offsetof(PyNDArray, weakrefs), READONLY,
     nullptr},
    {nullptr, 0, 0, 0, nullptr},
};

template <typename F>
PyType_Slot Slot(int slot, F* function) {
  return {slot, reinterpret_cast<void*>(function)};
}

}  // namespace

void AddNDArrayType(PyObject* module) {
  LoadOps();
  PyType_Slot slots[] = {
      Slot(Py_tp_new, New),
      Slot(Py_tp_dealloc, Dealloc),
      Slot(Py_tp_hash, Hash),
      Slot(Py_tp_richcompare, Compare),
      {Py_tp_getset, getset},
      {Py_tp_methods, methods},
      {Py_tp_members, members},
      {Py_tp_doc,
       const_cast<char*>(
           "An n-dimensional array on a device. Operations return at once; the "
           "values are computed in the background and waited for when read.")},
      Slot(Py_sq_length, Length),
      Slot(Py_mp_length, Length),
      Slot(Py_nb_add, Binary<&OpTable::add>),
      Slot(Py_nb_subtract, Binary<&OpTable::sub>),
      Slot(Py_nb_multiply, Binary<&OpTable::mul>),
      Slot(Py_nb_true_divide, Divide),
      Slot(Py_nb_remainder, Binary<&OpTable::mod>),
      Slot(Py_nb_power, Power),
      Slot(Py_nb_negative, Negative),
      Slot(Py_nb_inplace_add, InPlace<&OpTable::add>),
      Slot(Py_nb_inplace_subtract, InPlace<&OpTable::sub>),
      Slot(Py_nb_inplace_multiply, InPlace<&OpTable::mul>),
      Slot(Py_nb_inplace_true_divide, InPlace<&OpTable::div>),
      Slot(Py_nb_inplace_remainder, InPlace<&OpTable::mod>),
      Slot(Py_nb_inplace_power, InPlacePower),
      {0, nullptr},
  };
  PyType_Spec spec = {"plait.ndarray.ndarray.NDArray", sizeof(PyNDArray), 0,
                      Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, slots};
  PyObject* type = PyType_FromSpec(&spec);
  if (type == nullptr) throw PythonError();
  ndarray_type = reinterpret_cast<PyTypeObject*>(type);
  if (PyModule_AddObjectRef(module, "NDArray", type) < 0) throw PythonError();
}

namespace {
PyObject* WrapAs(PyTypeObject* type, NDArray array) {
  PyObject* self = type->tp_alloc(type, 0);
  if (self == nullptr) throw PythonError();
  ::new (&reinterpret_cast<PyNDArray*>(self)->array) NDArray(std::move(array));
  return self;
}
}  // namespace

PyObject* Wrap(NDArray array) {
  return WrapAs(ndarray_type, std::move(array));
}

namespace {
PyTypeObject *row_sparse_type = nullptr, *csr_type = nullptr;
PyObject* sparse_dispatch = nullptr;
}  // namespace

void RegisterSparse(PyObject* row_sparse, PyObject* csr, PyObject* dispatch) {
  Py_INCREF(row_sparse);
  Py_INCREF(csr);
  Py_INCREF(dispatch);
  row_sparse_type = reinterpret_cast<PyTypeObject*>(row_sparse);
  csr_type = reinterpret_cast<PyTypeObject*>(csr);
  sparse_dispatch = dispatch;
}

bool IsSparseObject(PyObject* object) {
  if (Py_TYPE(object) == ndarray_type || csr_type == nullptr) return false;
  return PyObject_TypeCheck(object, row_sparse_type) ||
         PyObject_TypeCheck(object, csr_type);
}

PyObject* CallSparse(const char* op, PyObject* arrays, PyObject* params,
                     PyObject* out) {
  PyObject* result =
      PyObject_CallFunction(sparse_dispatch, "sOOO", op, arrays, params, out);
  if (result == nullptr) throw PythonError();
  return result;
}

PyObject* WrapAny(NDArray array) {
  const Storage storage = array.body()->chunk ? Storage::kDefault : StorageOf(array);
  if (storage == Storage::kDefault) return Wrap(std::move(array));
  return WrapAs(storage == Storage::kCsr ? csr_type : row_sparse_type,
                std::move(array));
}

}  // namespace plait::python
