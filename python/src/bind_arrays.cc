// Making arrays, views of them, and exchange with NumPy and through DLPack.

#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstring>

#include "bindings.h"
#include "cpu/pointwise.h"
#include "dlpack.h"
#include "engine/engine.h"
#include "graph/math.h"
#include "graph/trace.h"
#include "ndarray/array_file.h"
#include "run/invoke.h"
#include "run/tape.h"

namespace nb = nanobind;

namespace plait::python {
namespace {

// A view of a traced array: operators that give the same elements.
NDArray TracedView(const NDArray& a, const Shape& shape, int64_t offset) {
  Value x(a);
  if (shape.size() != a.size()) {
    x = Make("slice_axis", {reshape(x, {a.size()})},
             {{"axis", Attr(0)},
              {"begin", Attr(offset)},
              {"end", Attr(offset + shape.size())}});
  }
  return reshape(x, shape).array();
}

Device DeviceOf(int type, int id) {
  return {static_cast<DeviceType>(type), static_cast<int16_t>(id)};
}

// A C-contiguous buffer of a Python object, released at the end of its life.
class Buffer {
 public:
  explicit Buffer(PyObject* object, int flags = PyBUF_C_CONTIGUOUS | PyBUF_FORMAT) {
    if (PyObject_GetBuffer(object, &view_, flags) != 0) throw PythonError();
  }
  ~Buffer() { PyBuffer_Release(&view_); }
  Buffer(const Buffer&) = delete;
  const Py_buffer& operator*() const { return view_; }
  const Py_buffer* operator->() const { return &view_; }

 private:
  Py_buffer view_;
};

// The dtype of a buffer by its format (the struct module's letters).
DType DTypeOfFormat(const char* format, Py_ssize_t itemsize) {
  const char* f = format ? format : "B";
  while (*f == '@' || *f == '=' || *f == '<') ++f;
  if (std::strcmp(f, "T{H:bfloat16:}") == 0) return DType::kBfloat16;
  switch (*f) {
    case 'f':
      return DType::kFloat32;
    case 'd':
      return DType::kFloat64;
    case 'e':
      return DType::kFloat16;
    case '?':
      return DType::kBool;
    case 'b':
    case 'h':
    case 'i':
    case 'l':
    case 'q':
      return itemsize == 1   ? DType::kInt8
             : itemsize == 2 ? DType::kInt16
             : itemsize == 4 ? DType::kInt32
                             : DType::kInt64;
    case 'B':
    case 'H':
    case 'I':
    case 'L':
    case 'Q':
      return itemsize == 1   ? DType::kUint8
             : itemsize == 2 ? DType::kUint16
             : itemsize == 4 ? DType::kUint32
                             : DType::kUint64;
  }
  Fail(ErrorKind::kType, "array: a buffer of format '", f, "' has no dtype here");
}

std::pair<std::vector<std::string>, std::vector<NDArray>> Pair(NamedArrays content) {
  return {std::move(content.names), std::move(content.arrays)};
}

Shape ShapeOfBuffer(const Py_buffer& view) {
  Shape shape;
  for (int i = 0; i < view.ndim; ++i) shape.Append(view.shape[i]);
  return shape;
}

}  // namespace

void BindArrays(nb::module_& m) {
  m.def(
      "empty",
      [](nb::object shape, nb::object dtype, int type, int id) {
        return NDArray::Empty(ShapeFromPython(shape.ptr()),
                              DTypeFromPython(dtype.ptr()), DeviceOf(type, id));
      },
      nb::arg("shape"), nb::arg("dtype").none(), nb::arg("device_type"),
      nb::arg("device_id"));
  m.def(
      "dtype_name",
      [](nb::object dtype) { return std::string(Name(DTypeFromPython(dtype.ptr()))); },
      nb::arg("dtype").none(), "The name of anything that stands for a dtype.");
  m.def("default_dtype", [] { return std::string(Name(DefaultDType())); });
  m.def("set_default_dtype",
        [](const std::string& dtype) { SetDefaultDType(ParseDType(dtype)); });

  m.def(
      "from_buffer",
      [](nb::object source, nb::object dtype, int type, int id) {
        // Copies, and converts when another dtype is asked for.
        const Buffer buffer(source.ptr());
        const DType own = DTypeOfFormat(buffer->format, buffer->itemsize);
        const Shape shape = ShapeOfBuffer(*buffer);
        const DType want = dtype.is_none() ? own : DTypeFromPython(dtype.ptr());
        NDArray a = NDArray::Empty(shape, want, DeviceOf(type, id));
        if (a.size() > 0) cpu::Convert(buffer->buf, own, a.data(), want, a.size());
        return a;
      },
      nb::arg("source"), nb::arg("dtype").none(), nb::arg("device_type"),
      nb::arg("device_id"));
  m.def("copy_to_buffer", [](const NDArray& a, nb::object target) {
    const Buffer buffer(target.ptr(), PyBUF_C_CONTIGUOUS | PyBUF_WRITABLE);
    Check(buffer->len == a.nbytes(), "asnumpy: a buffer of ", buffer->len,
          " bytes is given; ", a.nbytes(), " were expected");
    a.CopyToHost(buffer->buf);
  });
  m.def("copy_from_buffer", [](const NDArray& a, nb::object source) {
    const Buffer buffer(source.ptr());
    const DType own = DTypeOfFormat(buffer->format, buffer->itemsize);
    const int64_t n = buffer->len / buffer->itemsize;
    Check(n == a.size(), "ndarray: ", n, " elements are given for an array of shape ",
          a.shape());
    if (own == a.dtype()) {
      a.CopyFromHost(buffer->buf);
      return;
    }
    std::vector<char> converted(static_cast<size_t>(a.nbytes()));
    if (n > 0) cpu::Convert(buffer->buf, own, converted.data(), a.dtype(), n);
    a.CopyFromHost(converted.data());
  });
  m.def("borrow_buffer", [](nb::object source) {
    // Shares the memory; the source lives as long as the array.
    const Buffer buffer(source.ptr());
    PyObject* held = source.inc_ref().ptr();
    return NDArray::Borrow(buffer->buf, ShapeOfBuffer(*buffer),
                           DTypeOfFormat(buffer->format, buffer->itemsize), Device{},
                           [held] { ReleaseLater(held); });
  });

  m.def(
      "view",
      [](const NDArray& a, nb::object shape, int64_t offset) {
        const Shape s = ShapeFromPython(shape.ptr());
        Check(offset >= 0 && offset + s.size() <= a.size(), ErrorKind::kIndex,
              "view: shape ", s, " at element ", offset,
              " reaches beyond an array of shape ", a.shape());
        if (Tracer::Current() != nullptr) return TracedView(a, s, offset);
        return a.View(s, offset);
      },
      "An array of another shape on the same memory, from an element on; not "
      "recorded.");
  m.def("detach", &NDArray::Detach);
  m.def("shares_memory", &NDArray::SharesMemory);
  m.def("same_array",
        [](const NDArray& a, const NDArray& b) { return a.body() == b.body(); });
  m.def(
      "rebind",
      [](nb::handle target, const NDArray& source) { ArrayOf(target.ptr()) = source; },
      "Makes the Python object stand for another array.");
  m.def("copy_into",
        [](const NDArray& src, const NDArray& dst) { CopyInto(src, dst); });
  m.def("assign", [](nb::handle target, const NDArray& value) {
    // target[:] = value, recorded as an assignment that cuts the history.
    CopyInto(value, ArrayOf(target.ptr()));
  });

  m.def("save_params",
        [](const std::string& path, const std::vector<std::string>& names,
           const std::vector<NDArray>& arrays) {
          SaveParams(path, {names, arrays});
        });
  m.def("load_params", [](const std::string& path) { return Pair(LoadParams(path)); });
  m.def("load_params_bytes", [](nb::bytes data) {
    return Pair(ParseParams({data.c_str(), data.size()}, "buffer"));
  });
  m.def("save_safetensors",
        [](const std::string& path, const std::vector<std::string>& names,
           const std::vector<NDArray>& arrays) {
          SaveSafetensors(path, {names, arrays});
        });
  m.def("load_safetensors",
        [](const std::string& path) { return Pair(LoadSafetensors(path)); });
  m.def("dump_array", [](const NDArray& a) {
    const std::string bytes = DumpArray(a);
    return nb::bytes(bytes.data(), bytes.size());
  });
  m.def("load_array", [](nb::bytes data) {
    return ParseArray({data.c_str(), data.size()});
  });

  m.def("to_dlpack", [](const NDArray& a) { return nb::steal(ToDLPack(a)); });
  m.def("from_dlpack", [](nb::object capsule) { return FromDLPack(capsule.ptr()); });
}

}  // namespace plait::python
