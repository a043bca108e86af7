// DLPack capsules, both ways.

#include "dlpack.h"

#include <algorithm>
#include <memory>

#include "base/error.h"
#include "convert.h"
#include "ndarray/outside.h"

namespace plait::python {
namespace {

struct DLDevice {
  int32_t device_type;
  int32_t device_id;
};
struct DLDataType {
  uint8_t code;
  uint8_t bits;
  uint16_t lanes;
};
struct DLTensor {
  void* data;
  DLDevice device;
  int32_t ndim;
  DLDataType dtype;
  int64_t* shape;
  int64_t* strides;
  uint64_t byte_offset;
};
struct DLManagedTensor {
  DLTensor dl_tensor;
  void* manager_ctx;
  void (*deleter)(DLManagedTensor*);
};

enum Code : uint8_t { kInt = 0, kUint = 1, kFloat = 2, kBfloat = 4, kBoolean = 6 };
constexpr int32_t kCpuDevice = 1, kCpuPinnedDevice = 3;

DLDataType TypeOf(DType dtype) {
  const uint8_t bits = static_cast<uint8_t>(8 * SizeOf(dtype));
  if (dtype == DType::kBool) return {kBoolean, bits, 1};
  if (dtype == DType::kBfloat16) return {kBfloat, bits, 1};
  if (IsFloat(dtype)) return {kFloat, bits, 1};
  const bool is_unsigned = dtype == DType::kUint8 || dtype == DType::kUint16 ||
                           dtype == DType::kUint32 || dtype == DType::kUint64;
  return {is_unsigned ? kUint : kInt, bits, 1};
}

DType DTypeOfDL(DLDataType type) {
  for (int i = 0; i < kNumDTypes; ++i) {
    const DLDataType t = TypeOf(static_cast<DType>(i));
    if (t.code == type.code && t.bits == type.bits && type.lanes == 1)
      return static_cast<DType>(i);
  }
  Fail(ErrorKind::kType, "from_dlpack: dtype code ", int{type.code}, " of ",
       int{type.bits}, " bits and ", type.lanes, " lanes has no dtype here");
}

struct Exported {
  DLManagedTensor tensor;
  NDArray array;
  Shape shape;
  Shape strides;
};

void DeleteExported(DLManagedTensor* tensor) {
  auto* exported = static_cast<Exported*>(tensor->manager_ctx);
  NoteWrite(exported->array.body()->chunk);
  EndLending(exported->array.chunk());
  delete exported;
}

void DropCapsule(PyObject* capsule) {
  // A capsule that was taken over is named otherwise, and then not ours to free.
  if (!PyCapsule_IsValid(capsule, "dltensor")) return;
  auto* tensor =
      static_cast<DLManagedTensor*>(PyCapsule_GetPointer(capsule, "dltensor"));
  if (tensor->deleter != nullptr) tensor->deleter(tensor);
}

bool IsContiguous(const DLTensor& t) {
  if (t.strides == nullptr ||
      std::find(t.shape, t.shape + t.ndim, 0) != t.shape + t.ndim)
    return true;  // strides between no elements mean nothing
  int64_t step = 1;
  for (int i = t.ndim - 1; i >= 0; --i) {
    if (t.shape[i] != 1 && t.strides[i] != step) return false;
    step *= t.shape[i];
  }
  return true;
}

}  // namespace

PyObject* ToDLPack(const NDArray& a) {
  a.WaitToRead();
  auto exported = std::make_unique<Exported>();
  exported->array = a;
  exported->shape = a.shape();
  exported->strides = a.shape();
  int64_t step = 1;
  for (int i = a.shape().rank() - 1; i >= 0; --i) {
    exported->strides[i] = step;
    step *= a.shape()[i];
  }
  DLTensor& t = exported->tensor.dl_tensor;
  t.data = a.data();
  t.device = {kCpuDevice, 0};
  t.ndim = a.shape().rank();
  t.dtype = TypeOf(a.dtype());
  t.shape = exported->shape.data();
  t.strides = exported->strides.data();
  t.byte_offset = 0;
  exported->tensor.manager_ctx = exported.get();
  exported->tensor.deleter = DeleteExported;
  PyObject* capsule = PyCapsule_New(&exported->tensor, "dltensor", DropCapsule);
  if (capsule == nullptr) throw PythonError();
  BeginLending(exported.release()->array.chunk());
  return capsule;
}

NDArray FromDLPack(PyObject* capsule) {
  Check(PyCapsule_CheckExact(capsule), ErrorKind::kType, "from_dlpack: got ",
        Py_TYPE(capsule)->tp_name,
        "; a DLPack capsule, or an object with __dlpack__, was expected");
  Check(PyCapsule_IsValid(capsule, "dltensor"),
        "from_dlpack: the capsule is not named dltensor; one that was not used yet was "
        "expected");
  auto* tensor =
      static_cast<DLManagedTensor*>(PyCapsule_GetPointer(capsule, "dltensor"));
  if (tensor == nullptr) throw PythonError();
  const DLTensor& t = tensor->dl_tensor;
  Check(t.device.device_type == kCpuDevice || t.device.device_type == kCpuPinnedDevice,
        "from_dlpack: the tensor is on device type ", t.device.device_type,
        "; one in host memory was expected");
  Check(IsContiguous(t),
        "from_dlpack: the tensor is not contiguous; a contiguous one was expected");
  const Shape shape(std::span<const int64_t>(t.shape, static_cast<size_t>(t.ndim)));
  char* data = static_cast<char*>(t.data) + t.byte_offset;
  const DType dtype = DTypeOfDL(t.dtype);
  NDArray a = NDArray::Borrow(data, shape, dtype, Device{}, [tensor] {
    if (tensor->deleter == nullptr) return;
    // The deleter may run Python code of the other library.
    const PyGILState_STATE state = PyGILState_Ensure();
    tensor->deleter(tensor);
    PyGILState_Release(state);
  });
  PyCapsule_SetName(capsule, "used_dltensor");
  return a;
}

}  // namespace plait::python
