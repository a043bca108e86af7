// Record files. The interpreter's lock is free while the system reads or writes.

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <mutex>

#include "bindings.h"
#include "data/record_index.h"
#include "data/record_reader.h"
#include "data/record_writer.h"

namespace nb = nanobind;

namespace plait::python {
namespace {

using data::RecordIndex;
using data::RecordReader;
using data::RecordWriter;

nb::bytes NewBytes(size_t size) {
  return nb::steal<nb::bytes>(
      Owned::Checked(PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(size)))
          .release());
}

// Whoever holds mutex_ may take the interpreter's lock, so nobody waits for mutex_ with
// that lock held.
class Reader {
 public:
  explicit Reader(const std::string& path) : reader_(path) {}

  nb::object Read(std::optional<uint64_t> offset) {
    // Without waiting for anything: letting go of the lock costs as much as a copy.
    if (!offset && mutex_.try_lock()) {
      const std::lock_guard guard(mutex_, std::adopt_lock);
      if (reader_.Ready()) {
        nb::bytes record = NewBytes(*reader_.NextSize());
        reader_.Take(PyBytes_AS_STRING(record.ptr()));
        return record;
      }
    }
    nb::gil_scoped_release unlocked;
    const std::lock_guard guard(mutex_);
    if (offset) reader_.Seek(*offset);
    const std::optional<size_t> size = reader_.NextSize();
    char* to = nullptr;
    PyObject* bytes = nullptr;
    {
      nb::gil_scoped_acquire locked;
      if (!size) return nb::none();
      bytes = NewBytes(*size).release().ptr();
      to = PyBytes_AS_STRING(bytes);
    }
    try {
      reader_.Take(to);
    } catch (...) {
      nb::gil_scoped_acquire locked;
      Py_DECREF(bytes);
      throw;
    }
    return nb::steal(bytes);  // touches no count
  }
  void Seek(uint64_t offset) {
    nb::gil_scoped_release unlocked;
    const std::lock_guard guard(mutex_);
    reader_.Seek(offset);
  }
  uint64_t Tell() {
    nb::gil_scoped_release unlocked;
    const std::lock_guard guard(mutex_);
    return reader_.offset();
  }
  bool Recover() {
    nb::gil_scoped_release unlocked;
    const std::lock_guard guard(mutex_);
    return reader_.Recover();
  }

 private:
  std::mutex mutex_;
  RecordReader reader_;
};

class Writer {
 public:
  Writer(const std::string& path, bool append)
      : writer_(path, append ? RecordWriter::Mode::kAppend : RecordWriter::Mode::kNew) {
  }

  // The offset at which the record stands.
  uint64_t Write(nb::object record) {
    Py_buffer view;
    if (PyObject_GetBuffer(record.ptr(), &view, PyBUF_SIMPLE) != 0) throw PythonError();
    const std::unique_ptr<Py_buffer, void (*)(Py_buffer*)> held(&view,
                                                                PyBuffer_Release);
    nb::gil_scoped_release unlocked;
    const std::lock_guard guard(mutex_);
    const uint64_t offset = writer_.offset();
    writer_.Write({static_cast<const char*>(view.buf), static_cast<size_t>(view.len)});
    return offset;
  }
  uint64_t Tell() {
    nb::gil_scoped_release unlocked;
    const std::lock_guard guard(mutex_);
    return writer_.offset();
  }
  void Flush() {
    nb::gil_scoped_release unlocked;
    const std::lock_guard guard(mutex_);
    writer_.Flush();
  }
  void Close() {
    nb::gil_scoped_release unlocked;
    const std::lock_guard guard(mutex_);
    writer_.Close();
  }
  // In the child of a fork; no lock, as it may be held by a thread that is gone.
  void Abandon() { writer_.Abandon(); }

 private:
  std::mutex mutex_;
  RecordWriter writer_;
};

template <typename T>
nb::list ListOf(const std::vector<T>& values) {
  nb::list list =
      nb::steal<nb::list>(PyList_New(static_cast<Py_ssize_t>(values.size())));
  for (size_t i = 0; i < values.size(); ++i) {
    PyList_SET_ITEM(list.ptr(), static_cast<Py_ssize_t>(i),
                    nb::int_(values[i]).release().ptr());
  }
  return list;
}

}  // namespace

void BindData(nb::module_& m) {
  nb::class_<Reader>(m, "RecordReader")
      .def("__init__",
           [](Reader* self, const std::string& path) { new (self) Reader(path); })
      .def("read", &Reader::Read, nb::arg("offset") = nb::none(),
           "The next record, or that at an offset; None at the end.")
      .def("seek", &Reader::Seek)
      .def("tell", &Reader::Tell)
      .def("recover", &Reader::Recover,
           "Goes to the first record behind this place, over damage.");
  nb::class_<Writer>(m, "RecordWriter")
      .def("__init__", [](Writer* self, const std::string& path,
                          bool append) { new (self) Writer(path, append); })
      .def("write", &Writer::Write)
      .def("tell", &Writer::Tell)
      .def("flush", &Writer::Flush)
      .def("close", &Writer::Close)
      .def("abandon", &Writer::Abandon);
  nb::class_<RecordIndex>(m, "RecordIndex")
      .def("__init__",
           [](RecordIndex* self, const std::string& path) {
             nb::gil_scoped_release unlocked;
             new (self) RecordIndex(path);
           })
      .def("find", &RecordIndex::Find)
      .def("keys", [](const RecordIndex& self) { return ListOf(self.keys()); })
      .def("offsets", [](const RecordIndex& self) { return ListOf(self.offsets()); })
      .def("__len__", [](const RecordIndex& self) { return self.keys().size(); });
  m.def(
      "scan_records",
      [](const std::string& path) {
        std::vector<uint64_t> offsets;
        {
          nb::gil_scoped_release unlocked;
          const data::RandomFile file(path);
          offsets = data::ScanRecords(file, 0, file.size());
        }
        return ListOf(offsets);
      },
      "The offsets of all records of a file.");
}

}  // namespace plait::python
