// plait.h: arrays, calls of operators, and files of named arrays.

#include <algorithm>

#include "capi/handles.h"
#include "graph/math.h"
#include "run/invoke.h"
#include "train/initializer.h"

namespace plait::capi {

plait_ndarray* NewArray(NDArray value) {
  return new plait_ndarray{std::move(value)};
}

namespace {

// The arrays behind handles.
std::vector<NDArray> ArraysFrom(int count, plait_ndarray* const* handles,
                                const char* function, const char* what) {
  NeedAll(handles, count, function, what);
  std::vector<NDArray> arrays;
  for (int i = 0; i < count; ++i) {
    Check(handles[i] != nullptr, function, ": ", what, "[", i,
          "] is NULL; an array was expected");
    arrays.push_back(handles[i]->value);
  }
  return arrays;
}

const OpDef& Operator(const char* name, const char* function) {
  return GetOp(&Need(name, function, "name"));
}

void CheckBytes(const NDArray& array, size_t bytes, const char* function) {
  Check(bytes == static_cast<size_t>(array.nbytes()), function, ": ", bytes,
        " bytes are given for ", array, "; ", array.nbytes(), " were expected");
}

// The place of a name, or -1.
int Find(const NamedArrays& content, const std::string& name) {
  const auto it = std::find(content.names.begin(), content.names.end(), name);
  return it == content.names.end() ? -1 : static_cast<int>(it - content.names.begin());
}

plait_params* NewParams(NamedArrays content, const char* function) {
  Check(content.names.size() == content.arrays.size(), function, ": the file has ",
        content.arrays.size(), " arrays without names; names were expected");
  return new plait_params{std::move(content)};
}

}  // namespace
}  // namespace plait::capi

using namespace plait::capi;  // NOLINT: this file is the inside of the interface
using plait::Check;
using plait::NDArray;

int plait_ndarray_create(const int64_t* sizes, int rank, int dtype, const void* data,
                         plait_ndarray** out) {
  return Guarded([&] {
    const char* const self = "plait_ndarray_create";
    plait_ndarray*& result = Need(out, self, "out");
    const plait::Shape shape = ShapeFrom(sizes, rank, false, self);
    Check(dtype >= 0 && dtype < plait::kNumDTypes, plait::ErrorKind::kType, self,
          ": dtype is ", dtype, "; 0 to ", plait::kNumDTypes - 1, " was expected");
    const auto type = static_cast<plait::DType>(dtype);
    Check(shape.size() <= INT64_MAX / static_cast<int64_t>(SizeOf(type)),
          plait::ErrorKind::kMemory, self, ": shape ", shape,
          " is too large for any memory");
    result = NewArray(data != nullptr ? NDArray::FromHost(data, shape, type)
                                      : plait::zeros({shape, type}).array());
  });
}

void plait_ndarray_free(plait_ndarray* array) {
  delete array;
}

int plait_ndarray_shape(const plait_ndarray* array, int* rank, const int64_t** sizes) {
  return Guarded([&] {
    const char* const self = "plait_ndarray_shape";
    const plait::Shape& shape = Need(array, self, "array").value.shape();
    Need(rank, self, "rank");
    Need(sizes, self, "sizes");
    *rank = shape.rank();
    *sizes = shape.data();
  });
}

int plait_ndarray_dtype(const plait_ndarray* array, int* out) {
  return Guarded([&] {
    const char* const self = "plait_ndarray_dtype";
    Need(out, self, "out") = static_cast<int>(Need(array, self, "array").value.dtype());
  });
}

int plait_ndarray_size(const plait_ndarray* array, int64_t* elements, size_t* bytes) {
  return Guarded([&] {
    const NDArray& x = Need(array, "plait_ndarray_size", "array").value;
    if (elements != nullptr) *elements = x.size();
    if (bytes != nullptr) *bytes = static_cast<size_t>(x.nbytes());
  });
}

int plait_ndarray_copy_from(plait_ndarray* array, const void* data, size_t bytes) {
  return Guarded([&] {
    const char* const self = "plait_ndarray_copy_from";
    const NDArray& x = Need(array, self, "array").value;
    CheckBytes(x, bytes, self);
    if (bytes == 0) return;
    Check(data != nullptr, self, ": data is NULL; ", bytes, " bytes were expected");
    x.CopyFromHost(data);
  });
}

int plait_ndarray_copy_to(const plait_ndarray* array, void* data, size_t bytes) {
  return Guarded([&] {
    const char* const self = "plait_ndarray_copy_to";
    const NDArray& x = Need(array, self, "array").value;
    CheckBytes(x, bytes, self);
    Check(data != nullptr || bytes == 0, self, ": data is NULL; room for ", bytes,
          " bytes was expected");
    x.CopyToHost(data);
  });
}

int plait_ndarray_reshape(const plait_ndarray* array, const int64_t* sizes, int rank,
                          plait_ndarray** out) {
  return Guarded([&] {
    const char* const self = "plait_ndarray_reshape";
    const NDArray& x = Need(array, self, "array").value;
    const plait::Shape shape = ShapeFrom(sizes, rank, false, self);
    Check(shape.size() == x.size(), self, ": ", x, " has ", x.size(),
          " elements, and shape ", shape, " ", shape.size(), "; as many were expected");
    Need(out, self, "out");
    *out = NewArray(x.Reshape(shape));
  });
}

int plait_ndarray_slice(const plait_ndarray* array, int64_t first, int64_t last,
                        plait_ndarray** out) {
  return Guarded([&] {
    const char* const self = "plait_ndarray_slice";
    const NDArray& x = Need(array, self, "array").value;
    Check(x.shape().rank() > 0, self, ": a scalar has no rows; rank 1 or more was ",
          "expected");
    Check(first >= 0 && first <= last && last <= x.shape()[0], plait::ErrorKind::kIndex,
          self, ": rows ", first, " to ", last, " are out of range for ", x);
    Need(out, self, "out");
    *out = NewArray(x.Slice(first, last));
  });
}

int plait_ndarray_wait(const plait_ndarray* array) {
  return Guarded(
      [&] { Need(array, "plait_ndarray_wait", "array").value.WaitToRead(); });
}

int plait_ndarray_initialize(plait_ndarray* array, const char* name,
                             const char* initializer) {
  return Guarded([&] {
    const char* const self = "plait_ndarray_initialize";
    const NDArray& x = Need(array, self, "array").value;
    const auto made = plait::MakeInitializer(&Need(initializer, self, "initializer"));
    plait::InitializeParameter(&Need(name, self, "name"), "", x, *made);
  });
}

int plait_operator_invoke(const char* name, int num_inputs,
                          plait_ndarray* const* inputs, int num_params,
                          const char* const* keys, const char* const* values,
                          int* num_outputs, plait_ndarray** outputs) {
  return Guarded([&] {
    const char* const self = "plait_operator_invoke";
    const plait::OpDef& op = Operator(name, self);
    const auto in = ArraysFrom(num_inputs, inputs, self, "inputs");
    const auto params =
        plait::ParseParams(op, AttrsFrom(num_params, keys, values, self), "");
    int& room = Need(num_outputs, self, "num_outputs");
    const int visible = op.CountVisible(*params);
    Check(room >= visible, self, ": there is room for ", room, " outputs of ", op.name,
          "; ", visible, " were expected");
    NeedAll(outputs, visible, self, "outputs");
    const plait::Arrays results = plait::Invoke(op, params, in);
    std::vector<std::unique_ptr<plait_ndarray>> made;
    for (int i = 0; i < visible; ++i) made.emplace_back(NewArray(results[i]));
    for (int i = 0; i < visible; ++i) outputs[i] = made[i].release();
    room = visible;
  });
}

int plait_operator_invoke_into(const char* name, int num_inputs,
                               plait_ndarray* const* inputs, int num_params,
                               const char* const* keys, const char* const* values,
                               int num_outputs, plait_ndarray* const* outputs) {
  return Guarded([&] {
    const char* const self = "plait_operator_invoke_into";
    const plait::OpDef& op = Operator(name, self);
    const auto in = ArraysFrom(num_inputs, inputs, self, "inputs");
    const auto params =
        plait::ParseParams(op, AttrsFrom(num_params, keys, values, self), "");
    const auto out = ArraysFrom(num_outputs, outputs, self, "outputs");
    Check(num_outputs == op.CountVisible(*params), self, ": ", num_outputs,
          " outputs are given; ", op.name, " has ", op.CountVisible(*params));
    plait::Invoke(op, params, in, out);
  });
}

int plait_params_create(plait_params** out) {
  return Guarded([&] {
    Need(out, "plait_params_create", "out");
    *out = new plait_params;
  });
}

int plait_params_load(const char* path, plait_params** out) {
  return Guarded([&] {
    const char* const self = "plait_params_load";
    Need(out, self, "out");
    *out = NewParams(plait::LoadParams(&Need(path, self, "path")), self);
  });
}

int plait_params_parse(const void* data, size_t bytes, plait_params** out) {
  return Guarded([&] {
    const char* const self = "plait_params_parse";
    Need(out, self, "out");
    Check(data != nullptr, self, ": data is NULL; a pointer was expected");
    *out = NewParams(
        plait::ParseParams({static_cast<const char*>(data), bytes}, "memory"), self);
  });
}

int plait_params_save(const plait_params* params, const char* path) {
  return Guarded([&] {
    const char* const self = "plait_params_save";
    plait::SaveParams(&Need(path, self, "path"), Need(params, self, "params").content);
  });
}

void plait_params_free(plait_params* params) {
  delete params;
}

int plait_params_count(const plait_params* params, int* out) {
  return Guarded([&] {
    const char* const self = "plait_params_count";
    Need(out, self, "out") =
        static_cast<int>(Need(params, self, "params").content.names.size());
  });
}

int plait_params_name(const plait_params* params, int index, const char** out) {
  return Guarded([&] {
    const char* const self = "plait_params_name";
    const auto& names = Need(params, self, "params").content.names;
    CheckIndex(index, names.size(), self, "arrays");
    Need(out, self, "out") = names[static_cast<size_t>(index)].c_str();
  });
}

int plait_params_get(const plait_params* params, const char* name,
                     plait_ndarray** out) {
  return Guarded([&] {
    const char* const self = "plait_params_get";
    const plait::NamedArrays& content = Need(params, self, "params").content;
    const int i = Find(content, &Need(name, self, "name"));
    Check(i >= 0, self, ": there is no array ", name, " among ", content.names.size(),
          "; one that plait_params_name gives was expected");
    Need(out, self, "out");
    *out = NewArray(content.arrays[static_cast<size_t>(i)]);
  });
}

int plait_params_set(plait_params* params, const char* name,
                     const plait_ndarray* array) {
  return Guarded([&] {
    const char* const self = "plait_params_set";
    plait::NamedArrays& content = Need(params, self, "params").content;
    const NDArray& x = Need(array, self, "array").value;
    const int i = Find(content, &Need(name, self, "name"));
    if (i >= 0) {
      content.arrays[static_cast<size_t>(i)] = x;
      return;
    }
    content.arrays.reserve(content.arrays.size() + 1);  // both grow, or neither
    content.names.emplace_back(name);
    content.arrays.push_back(x);
  });
}
