// OpFunction: a vectorcall object, because a Python wrapper costs what a small call
// may.
//
// Arguments are MXNet's: arrays first (by position or name, any number for operators of
// variable inputs), then parameters in their order, then out= and name=.

#include "op_function.h"

#include <structmember.h>

#include <algorithm>
#include <cstring>

#include "convert.h"
#include "ndarray_type.h"
#include "run/autocast.h"
#include "run/invoke.h"

namespace plait::python {
namespace {

PyTypeObject* op_function_type = nullptr;

// The parameters of one call site: the same constants come again and again.
struct CachedParams {
  std::vector<PyObject*> keys;  // owned: names and values in turn
  ParamsRef params;
};

struct OpFunction {
  PyObject_HEAD vectorcallfunc call;
  const OpDef* op;
  PyObject* name;
  std::vector<PyObject*> field_names;  // interned
  std::vector<PyObject*> input_names;  // interned
  std::vector<CachedParams> cache;
  size_t next_cached;
  bool needs_params;  // some parameter has no default
};

PyObject *kOut, *kName, *kCtx;
PyObject* null_value = nullptr;  // MXNet's _Null: a parameter that is not given

int IndexOf(const std::vector<PyObject*>& names, PyObject* name) {
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i] == name) return static_cast<int>(i);
  }
  for (size_t i = 0; i < names.size(); ++i) {  // a name that is not interned
    if (PyUnicode_Compare(names[i], name) == 0) return static_cast<int>(i);
  }
  return -1;
}

// What a call gave, sorted.
struct Arguments {
  SmallVector<NDArray, 6> inputs;  // by position; empty handles for those not given
  SmallVector<PyObject*, 8> keys;  // borrowed: field names and values in turn
  PyObject* out = nullptr;
  PyObject* device = nullptr;
  bool sparse = false;  // some input is
};

// Constants may be compared by identity: they cannot change.
bool IsConstant(PyObject* v) {
  if (v == Py_None || PyBool_Check(v) || PyUnicode_CheckExact(v) ||
      PyLong_CheckExact(v) || PyFloat_CheckExact(v) || PyType_Check(v))
    return true;
  if (!PyTuple_CheckExact(v)) return false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(v); ++i) {
    if (!IsConstant(PyTuple_GET_ITEM(v, i))) return false;
  }
  return true;
}

void AddInput(const OpFunction& f, Arguments& args, size_t index, PyObject* value) {
  const OpDef& op = *f.op;
  if (args.inputs.size() <= index) args.inputs.resize(index + 1);
  if (value == Py_None) return;
  Check(IsNDArray(value), ErrorKind::kType, op.name, ": argument ",
        op.inputs.empty() ? "data"
                          : op.inputs[std::min(index, op.inputs.size() - 1)].name,
        " must have NDArray type, but got ", Py_TYPE(value)->tp_name);
  args.inputs[index] = ArrayOf(value);
  args.sparse |= IsSparseObject(value);
}

void AddParam(Arguments& args, PyObject* name, PyObject* value) {
  if (value == null_value) return;
  args.keys.push_back(name);
  args.keys.push_back(value);
}

void AddVariable(const OpFunction& f, Arguments& args, PyObject* value) {
  if (PyList_Check(value) || (PyTuple_Check(value) && args.inputs.empty())) {
    const Owned items = Owned::Checked(PySequence_Fast(value, "arrays were expected"));
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(items.get()); ++i) {
      AddInput(f, args, args.inputs.size(), PySequence_Fast_GET_ITEM(items.get(), i));
    }
    return;
  }
  AddInput(f, args, args.inputs.size(), value);
}

void AddPositional(const OpFunction& f, Arguments& args, size_t i, PyObject* value) {
  const OpDef& op = *f.op;
  if (op.variable_inputs) {
    AddVariable(f, args, value);
    return;
  }
  const size_t inputs = op.inputs.size();
  if (i < inputs) {
    AddInput(f, args, i, value);
    return;
  }
  Check(i - inputs < f.field_names.size(), ErrorKind::kType, op.name, ": got ", i + 1,
        " positional arguments; at most ", inputs + f.field_names.size(),
        " were expected");
  AddParam(args, f.field_names[i - inputs], value);
}

void AddKeyword(const OpFunction& f, Arguments& args, PyObject* name, PyObject* value) {
  if (name == kOut) {
    args.out = value == Py_None ? nullptr : value;
    return;
  }
  if (name == kCtx) {
    args.device = value == Py_None ? nullptr : value;
    return;
  }
  const int input = f.op->variable_inputs ? -1 : IndexOf(f.input_names, name);
  if (input >= 0) {
    AddInput(f, args, static_cast<size_t>(input), value);
    return;
  }
  const int field = IndexOf(f.field_names, name);
  if (field >= 0) {
    AddParam(args, f.field_names[field], value);
    return;
  }
  if (PyUnicode_Compare(name, kName) == 0) return;
  if (PyUnicode_Compare(name, kOut) == 0) {
    args.out = value == Py_None ? nullptr : value;
    return;
  }
  if (PyUnicode_Compare(name, kCtx) == 0) {
    args.device = value;
    return;
  }
  if (f.op->variable_inputs) {
    const char* text = PyUnicode_AsUTF8(name);
    // The count that other front ends must give, and arg0, arg1, ...
    if (f.op->count_param && std::strcmp(text, f.op->count_param) == 0) return;
    if (IsNDArray(value)) return AddVariable(f, args, value);
  }
  AddParam(args, name, value);  // MakeParams says what is wrong with it
}

ParamsRef ParamsFor(OpFunction& f, const Arguments& args) {
  if (args.keys.empty()) {
    if (f.needs_params) return MakeParams(*f.op, {});  // throws, with the name
    return f.op->defaults;
  }
  const auto& keys = args.keys;
  for (const CachedParams& c : f.cache) {
    if (c.keys.size() == keys.size() &&
        std::equal(keys.begin(), keys.end(), c.keys.begin()))
      return c.params;
  }
  SmallVector<NamedAttr, 8> attrs;
  bool constant = true;
  for (size_t i = 0; i < keys.size(); i += 2) {
    Py_ssize_t size = 0;
    const char* name = PyUnicode_AsUTF8AndSize(keys[i], &size);
    attrs.push_back({{name, static_cast<size_t>(size)}, AttrFromPython(keys[i + 1])});
    constant &= IsConstant(keys[i + 1]);
  }
  ParamsRef params = MakeParams(*f.op, attrs);
  if (constant) {
    constexpr size_t kMaxCached = 8;
    CachedParams entry;
    for (PyObject* key : keys) {
      Py_INCREF(key);
      entry.keys.push_back(key);
    }
    entry.params = params;
    if (f.cache.size() < kMaxCached) {
      f.cache.push_back(std::move(entry));
    } else {
      std::swap(f.cache[f.next_cached++ % kMaxCached], entry);
      for (PyObject* key : entry.keys) Py_DECREF(key);
    }
  }
  return params;
}

// Arrays that are not given are allowed only where the parameters say so.
void DropMissing(const OpDef& op, Arguments& args) {
  if (op.variable_inputs) return;
  const bool all = std::all_of(args.inputs.begin(), args.inputs.end(),
                               [](const NDArray& x) { return static_cast<bool>(x); });
  if (all) return;
  SmallVector<NDArray, 6> present;
  for (NDArray& x : args.inputs) {
    if (x) present.push_back(std::move(x));
  }
  args.inputs = std::move(present);
}

// The device of a Context, or of its text ("cpu(0)").
Device DeviceFromPython(PyObject* context) {
  static PyObject* device_of = [] {
    const Owned module = Owned::Checked(PyImport_ImportModule("plait.ndarray._core"));
    return PyObject_GetAttrString(module.get(), "device_of");
  }();
  const Owned pair = Owned::Checked(PyObject_CallOneArg(device_of, context));
  int type = 0, id = 0;
  if (!PyArg_ParseTuple(pair.get(), "ii", &type, &id)) throw PythonError();
  return {static_cast<DeviceType>(type), static_cast<int16_t>(id)};
}

// Results of operators without inputs go to this device for the scope's life.
class ScopedCreationDevice {
 public:
  explicit ScopedCreationDevice(PyObject* context) : before_(CreationDevice()) {
    if (context != nullptr) CreationDevice() = DeviceFromPython(context);
  }
  ~ScopedCreationDevice() { CreationDevice() = before_; }

 private:
  const Device before_;
};

SmallVector<NDArray, 4> OutputsOf(const OpDef& op, PyObject* out) {
  SmallVector<NDArray, 4> arrays;
  if (out == nullptr) return arrays;
  const auto add = [&](PyObject* item) {
    Check(IsNDArray(item), ErrorKind::kType, op.name, ": out is ",
          Py_TYPE(item)->tp_name, "; an NDArray was expected");
    arrays.push_back(ArrayOf(item));
  };
  if (PyList_Check(out) || PyTuple_Check(out)) {
    const Owned items = Owned::Checked(PySequence_Fast(out, "arrays were expected"));
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(items.get()); ++i) {
      add(PySequence_Fast_GET_ITEM(items.get(), i));
    }
  } else {
    add(out);
  }
  return arrays;
}

PyObject* Result(const OpDef& op, const Params& params, Arrays& results,
                 PyObject* out) {
  if (out != nullptr) {
    Py_INCREF(out);
    return out;
  }
  const int visible = op.CountVisible(params);
  if (visible == 1) return Wrap(std::move(results[0]));
  Owned list = Owned::Checked(PyList_New(visible));
  for (int i = 0; i < visible; ++i)
    PyList_SET_ITEM(list.get(), i, Wrap(std::move(results[i])));
  return list.release();
}

bool AnySparse(PyObject* out) {
  if (PyList_Check(out) || PyTuple_Check(out)) {
    const Owned items = Owned::Checked(PySequence_Fast(out, "arrays were expected"));
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(items.get()); ++i) {
      if (IsSparseObject(PySequence_Fast_GET_ITEM(items.get(), i))) return true;
    }
    return false;
  }
  return IsSparseObject(out);
}

// Sparse arrays are the business of Python code: which operators work on their parts,
// and that the others get dense ones.
PyObject* CallOnSparse(const OpFunction& f, const Arguments& args) {
  const Owned arrays = Owned::Checked(PyList_New(0));
  for (const NDArray& x : args.inputs) {
    const Owned item(x ? WrapAny(x) : Py_NewRef(Py_None));
    if (PyList_Append(arrays.get(), item.get()) < 0) throw PythonError();
  }
  const Owned params = Owned::Checked(PyDict_New());
  for (size_t i = 0; i < args.keys.size(); i += 2) {
    if (PyDict_SetItem(params.get(), args.keys[i], args.keys[i + 1]) < 0)
      throw PythonError();
  }
  if (args.device && PyDict_SetItem(params.get(), kCtx, args.device) < 0)
    throw PythonError();
  return CallSparse(f.op->name.c_str(), arrays.get(), params.get(),
                    args.out ? args.out : Py_None);
}

PyObject* Call(PyObject* self, PyObject* const* values, size_t flags,
               PyObject* keywords) {
  return Guarded<PyObject*>(nullptr, [&] {
    OpFunction& f = *reinterpret_cast<OpFunction*>(self);
    const size_t n = static_cast<size_t>(PyVectorcall_NARGS(flags));
    Arguments args;
    for (size_t i = 0; i < n; ++i) AddPositional(f, args, i, values[i]);
    const size_t k = keywords ? static_cast<size_t>(PyTuple_GET_SIZE(keywords)) : 0;
    for (size_t i = 0; i < k; ++i) {
      AddKeyword(f, args, PyTuple_GET_ITEM(keywords, static_cast<Py_ssize_t>(i)),
                 values[n + i]);
    }
    if (args.sparse || (args.out && AnySparse(args.out))) return CallOnSparse(f, args);
    DropMissing(*f.op, args);
    const ParamsRef params = ParamsFor(f, args);
    const SmallVector<NDArray, 4> out = OutputsOf(*f.op, args.out);
    // Without arrays, the current context says where the result goes.
    PyObject* context =
        args.device == nullptr && args.inputs.empty() ? Py_None : args.device;
    const ScopedCreationDevice device(context);
    if (const auto rules = AutocastRules())
      Autocast(*rules, *f.op, *params, args.inputs);
    Arrays results = Invoke(*f.op, params, args.inputs, out);
    return Result(*f.op, *params, results, args.out);
  });
}

// As a method of NDArray: the array is the first argument.
PyObject* DescrGet(PyObject* self, PyObject* object, PyObject*) {
  if (object == nullptr || object == Py_None) {
    Py_INCREF(self);
    return self;
  }
  return PyMethod_New(self, object);
}

void Dealloc(PyObject* self) {
  auto* f = reinterpret_cast<OpFunction*>(self);
  for (PyObject* name : f->field_names) Py_DECREF(name);
  for (PyObject* name : f->input_names) Py_DECREF(name);
  for (CachedParams& c : f->cache) {
    for (PyObject* key : c.keys) Py_DECREF(key);
  }
  Py_XDECREF(f->name);
  f->field_names.~vector();
  f->input_names.~vector();
  f->cache.~vector();
  PyTypeObject* type = Py_TYPE(self);
  type->tp_free(self);
  Py_DECREF(type);
}

std::string Signature(const OpDef& op) {
  std::string text = "(";
  const auto add = [&](const std::string& s) {
    text += (text.size() > 1 ? ", " : "") + s;
  };
  if (op.variable_inputs) {
    add("*data");
  } else {
    for (const InputDef& in : op.inputs) add(std::string(in.name) + "=None");
  }
  for (const Field& field : op.fields) {
    add(field.name + "=" +
        (field.required ? "_Null" : FormatAttr(field.access->Get(op.defaults->get()))));
  }
  return text + (text.size() > 1 ? ", " : "") + "out=None, name=None)";
}

PyObject* GetDoc(PyObject* self, void*) {
  return Guarded<PyObject*>(nullptr, [&] {
    const OpDef& op = *reinterpret_cast<OpFunction*>(self)->op;
    std::string text = op.doc + "\n";
    if (!op.inputs.empty() || !op.fields.empty()) text += "\nParameters\n----------\n";
    for (const InputDef& in : op.inputs) {
      text += std::string(in.name) + " : NDArray\n    " + in.doc + "\n";
    }
    for (const Field& field : op.fields) {
      text += field.name + " : " + field.access->TypeName() +
              (field.required
                   ? ", required"
                   : ", default " + FormatAttr(field.access->Get(op.defaults->get()))) +
              "\n    " + field.doc + "\n";
    }
    return PyUnicode_FromStringAndSize(text.data(),
                                       static_cast<Py_ssize_t>(text.size()));
  });
}
PyObject* GetName(PyObject* self, void*) {
  PyObject* name = reinterpret_cast<OpFunction*>(self)->name;
  Py_INCREF(name);
  return name;
}
PyObject* GetSignature(PyObject* self, void*) {
  const std::string text = Signature(*reinterpret_cast<OpFunction*>(self)->op);
  return PyUnicode_FromStringAndSize(text.data(), static_cast<Py_ssize_t>(text.size()));
}
PyObject* Repr(PyObject* self) {
  auto* f = reinterpret_cast<OpFunction*>(self);
  const std::string text = "<operator " + f->op->name + Signature(*f->op) + ">";
  return PyUnicode_FromStringAndSize(text.data(), static_cast<Py_ssize_t>(text.size()));
}
PyObject* Reduce(PyObject* self, PyObject*) {
  auto* f = reinterpret_cast<OpFunction*>(self);
  const Owned module = Owned(PyImport_ImportModule("plait._plait"));
  if (!module) return nullptr;
  const Owned make = Owned(PyObject_GetAttrString(module.get(), "op_function"));
  if (!make) return nullptr;
  return Py_BuildValue("(O(sO))", make.get(), f->op->name.c_str(), f->name);
}

PyMemberDef members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(OpFunction, call), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr},
};
PyGetSetDef getset[] = {
    {"__doc__", GetDoc, nullptr, nullptr, nullptr},
    {"__name__", GetName, nullptr, nullptr, nullptr},
    {"__qualname__", GetName, nullptr, nullptr, nullptr},
    {"__text_signature__", GetSignature, nullptr, nullptr, nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};
PyMethodDef methods[] = {
    {"__reduce__", Reduce, METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

void AddOpFunctionType(PyObject* module) {
  kOut = PyUnicode_InternFromString("out");
  kName = PyUnicode_InternFromString("name");
  kCtx = PyUnicode_InternFromString("ctx");
  PyType_Slot slots[] = {
      {Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
      {Py_tp_dealloc, reinterpret_cast<void*>(Dealloc)},
      {Py_tp_descr_get, reinterpret_cast<void*>(DescrGet)},
      {Py_tp_repr, reinterpret_cast<void*>(Repr)},
      {Py_tp_members, members},
      {Py_tp_getset, getset},
      {Py_tp_methods, methods},
      {0, nullptr},
  };
  PyType_Spec spec = {"plait.operator_function", sizeof(OpFunction), 0,
                      Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL |
                          Py_TPFLAGS_METHOD_DESCRIPTOR |
                          Py_TPFLAGS_DISALLOW_INSTANTIATION,
                      slots};
  PyObject* type = PyType_FromSpec(&spec);
  if (type == nullptr) throw PythonError();
  op_function_type = reinterpret_cast<PyTypeObject*>(type);
  // A unique value that prints as MXNet's.
  null_value = PyObject_CallNoArgs(reinterpret_cast<PyObject*>(&PyBaseObject_Type));
  if (PyModule_AddObjectRef(module, "OpFunction", type) < 0 ||
      PyModule_AddObjectRef(module, "_Null", null_value) < 0)
    throw PythonError();
}

PyObject* NewOpFunction(const OpDef& op, const std::string& name) {
  PyObject* self = op_function_type->tp_alloc(op_function_type, 0);
  if (self == nullptr) throw PythonError();
  auto* f = reinterpret_cast<OpFunction*>(self);
  f->call = Call;
  f->op = &op;
  ::new (&f->field_names) std::vector<PyObject*>();
  ::new (&f->input_names) std::vector<PyObject*>();
  ::new (&f->cache) std::vector<CachedParams>();
  f->next_cached = 0;
  f->needs_params = std::any_of(op.fields.begin(), op.fields.end(),
                                [](const Field& field) { return field.required; });
  f->name =
      PyUnicode_FromStringAndSize(name.data(), static_cast<Py_ssize_t>(name.size()));
  for (const Field& field : op.fields) {
    f->field_names.push_back(PyUnicode_InternFromString(field.name.c_str()));
  }
  for (const InputDef& in : op.inputs) {
    f->input_names.push_back(PyUnicode_InternFromString(in.name));
  }
  return self;
}

}  // namespace plait::python
