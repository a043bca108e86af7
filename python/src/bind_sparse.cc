// Sparse arrays: their parts, conversions and sums.

#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings.h"
#include "data/libsvm.h"
#include "run/sparse.h"

namespace nb = nanobind;

namespace plait::python {
namespace {

Storage StorageFromName(const std::string& name) {
  for (Storage s : {Storage::kDefault, Storage::kRowSparse, Storage::kCsr}) {
    if (name == Name(s)) return s;
  }
  Fail(ErrorKind::kValue, "storage: '", name,
       "' is unknown; one of default, row_sparse, csr was expected");
}

nb::object Parts(const NDArray& x) {
  const SparseParts p = PartsOf(x);
  return p.indptr ? nb::make_tuple(p.data, p.indices, p.indptr)
                  : nb::make_tuple(p.data, p.indices);
}

SparseParts FromArrays(const NDArray& data, const NDArray& indices,
                       const NDArray& indptr) {
  return {indptr ? Storage::kCsr : Storage::kRowSparse, data, indices, indptr};
}

Device DeviceOf(int type, int id) {
  return {static_cast<DeviceType>(type), static_cast<int16_t>(id)};
}

template <typename T>
NDArray ArrayFrom(const std::vector<T>& values, DType dtype) {
  return NDArray::FromHost(values.data(), Shape{static_cast<int64_t>(values.size())},
                           dtype);
}

// (rows, labels) of a file.
std::pair<NDArray, NDArray> ReadRows(const std::string& path, int64_t columns, int part,
                                     int parts) {
  const LibSvmRows rows = ReadLibSvm(path, columns, part, parts);
  const NDArray labels = ArrayFrom(rows.labels, DType::kFloat32);
  return {MakeSparse({Storage::kCsr, ArrayFrom(rows.values, DType::kFloat32),
                      ArrayFrom(rows.columns, DType::kInt64),
                      ArrayFrom(rows.bounds, DType::kInt64)},
                     Shape{labels.size(), columns}),
          labels};
}

}  // namespace

void BindSparse(nb::module_& m) {
  m.def("register_sparse", [](nb::object row_sparse, nb::object csr, nb::object call) {
    RegisterSparse(row_sparse.ptr(), csr.ptr(), call.ptr());
  });
  m.def("storage_of", [](const NDArray& x) { return std::string(Name(StorageOf(x))); });
  m.def("sparse_parts", &Parts, "(data, indices) or (data, indices, indptr).");
  m.def(
      "make_sparse",
      [](nb::object shape, int type, int id, const NDArray& data,
         const NDArray& indices, const NDArray& indptr) {
        return MakeSparse(FromArrays(data, indices, indptr),
                          ShapeFromPython(shape.ptr()), DeviceOf(type, id));
      },
      nb::arg("shape"), nb::arg("device_type"), nb::arg("device_id"), nb::arg("data"),
      nb::arg("indices"), nb::arg("indptr").none() = nb::none());
  m.def(
      "empty_sparse",
      [](const std::string& storage, nb::object shape, nb::object dtype, int type,
         int id) {
        return EmptySparse(StorageFromName(storage), ShapeFromPython(shape.ptr()),
                           DTypeFromPython(dtype.ptr()), DeviceOf(type, id));
      },
      nb::arg("storage"), nb::arg("shape"), nb::arg("dtype").none(),
      nb::arg("device_type"), nb::arg("device_id"));
  m.def(
      "set_sparse_parts",
      [](const NDArray& x, const NDArray& data, const NDArray& indices,
         const NDArray& indptr) { SetParts(x, FromArrays(data, indices, indptr)); },
      nb::arg("x"), nb::arg("data"), nb::arg("indices"),
      nb::arg("indptr").none() = nb::none());
  m.def("cast_storage", [](const NDArray& x, const std::string& storage) {
    return CastStorage(x, StorageFromName(storage));
  });
  m.def("assign_sparse", &AssignSparse, nb::arg("src"), nb::arg("dst"));
  m.def("add_sparse", &AddSparse);
  m.def("writable_rows", [](const NDArray& x) -> nb::object {
    NDArray rows = WritableRows(x);
    return rows ? nb::cast(std::move(rows)) : nb::none();
  });
  m.def("distinct_ids", [](const NDArray& ids, int64_t size) {
    Distinct d = DistinctIds(ids, size);
    return std::pair(std::move(d.ids), std::move(d.places));
  });
  m.def("read_libsvm", &ReadRows);
  m.def("sum_rows", [](const NDArray& dy, const NDArray& ids, nb::object shape) {
    return SumRows(dy, ids, ShapeFromPython(shape.ptr()));
  });
  m.def("retain_rows",
        [](const NDArray& x, const NDArray& ids) { return Retain(x, Integers(ids)); });
  m.def("check_format", [](const NDArray& x, bool full) {
    CheckFormat(x, full ? Strictness::kOrdered : Strictness::kEnds);
  });
}

}  // namespace plait::python
