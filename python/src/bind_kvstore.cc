// Stores of arrays by key, and the ranks that share them.

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include "bindings.h"
#include "callback.h"
#include "kvstore/row_store.h"
#include "kvstore/store.h"
#include "kvstore/world.h"
#include "ndarray/sparse.h"

namespace nb = nanobind;

namespace plait::python {
namespace {

// A function of Python: update(keys, pushed, stored), with lists of equal length.
class PythonUpdater final : public StoreUpdater {
 public:
  PythonUpdater(nb::object update, bool elementwise)
      : update_(update.release().ptr()), elementwise_(elementwise) {}
  ~PythonUpdater() override { ReleaseLater(update_); }

  void Update(std::span<const Key> keys, std::span<const NDArray> pushed,
              std::span<const NDArray> stored) override {
    const PythonLock lock;
    const CallbackMode mode(Training(), CurrentLayer());
    nb::list names;
    for (const Key& key : keys) names.append(nb::cast(key));
    const Owned grads = ListOf(pushed), weights = ListOf(stored);
    const Owned result = Owned(PyObject_CallFunctionObjArgs(
        update_, names.ptr(), grads.get(), weights.get(), nullptr));
    if (!result) std::rethrow_exception(TakePythonError());
  }
  bool Elementwise() const override { return elementwise_; }

 private:
  PyObject* update_;
  bool elementwise_;
};

std::unique_ptr<Store> MakeStore(const std::string& kind) {
  if (kind == "local") return MakeLocalStore();
  return MakeSharedStore(WorldExchange(), kind == "async" ? Consistency::kEventual
                                                          : Consistency::kSequential);
}

void BindStore(nb::module_& m) {
  using Keys = std::vector<Key>;
  using Values = std::vector<Replicas>;
  nb::class_<Store>(m, "Store", "Arrays by key; see plait.kvstore.")
      .def(nb::new_(&MakeStore), nb::arg("kind"), "kind: local, sync or async.")
      .def("init",
           [](Store& s, const Keys& k, const std::vector<NDArray>& v) { s.Init(k, v); })
      .def("push",
           [](Store& s, const Keys& k, const Values& v, int p) { s.Push(k, v, p); })
      .def("pull",
           [](Store& s, const Keys& k, const Values& o, int p) { s.Pull(k, o, p); })
      .def("pushpull", [](Store& s, const Keys& k, const Values& v, const Values& o,
                          int p) { s.PushPull(k, v, o, p); })
      .def("stored", &Store::Stored)
      .def(
          "ranges",
          [](Store& s, const Key& key) {
            std::vector<std::pair<int64_t, int64_t>> parts;
            for (const Ranges::Part& p : s.RangesOf(key).parts) {
              parts.emplace_back(p.first, p.last);
            }
            return parts;
          },
          "By rank: the first and last element of what it updates.")
      .def(
          "set_updater",
          [](Store& s, nb::object update, bool elementwise) {
            s.SetUpdater(update.is_none()
                             ? nullptr
                             : std::make_shared<PythonUpdater>(update, elementwise));
          },
          nb::arg("update").none(), nb::arg("elementwise"),
          "update(keys, pushed, stored); elementwise: it may be given pieces.")
      .def("set_compression",
           [](Store& s, const std::string& type, double threshold) {
             s.SetCompression(Compression::FromName(type, threshold));
           })
      .def("set_staleness", &Store::SetStaleness)
      .def("barrier", &Store::Barrier)
      .def_prop_ro("rank", &Store::rank)
      .def_prop_ro("size", &Store::size);
}

std::unique_ptr<RowStore> MakeRowStore(const std::string& kind) {
  return std::make_unique<RowStore>(WorldExchange(), kind == "async"
                                                         ? Consistency::kEventual
                                                         : Consistency::kSequential);
}

void BindRowStore(nb::module_& m) {
  nb::class_<RowStore>(m, "RowStore", "Rows of arrays by key among ranks.")
      .def(nb::new_(&MakeRowStore), nb::arg("kind"), "kind: sync or async.")
      .def("init", &RowStore::Init)
      .def("adopt", &RowStore::Adopt)
      .def("has", &RowStore::Has)
      .def("is_dense", &RowStore::IsDense)
      .def("push", &RowStore::Push)
      .def("refuse", &RowStore::Refuse)
      .def("set_staleness", &RowStore::SetStaleness)
      .def("pull", &RowStore::Pull)
      .def("pull_rows",
           [](RowStore& s, const Key& key, const NDArray& ids, const NDArray& out,
              int priority) { s.PullRows(key, Integers(ids), out, priority); })
      .def(
          "set_updater",
          [](RowStore& s, nb::object update, bool by_rows) {
            s.SetUpdater(update.is_none()
                             ? nullptr
                             : std::make_shared<PythonUpdater>(update, by_rows),
                         by_rows);
          },
          nb::arg("update").none(), nb::arg("by_rows"));
}

nb::dict TrafficNow() {
  const Traffic& traffic = WorldExchange().traffic();
  nb::dict counts;
  counts["payload_sent"] = traffic.payload_sent.load();
  counts["payload_received"] = traffic.payload_received.load();
  counts["entry_bytes_sent"] = traffic.entry_bytes_sent.load();
  counts["messages_sent"] = traffic.messages_sent.load();
  return counts;
}

}  // namespace

void BindKVStore(nb::module_& m) {
  BindStore(m);
  BindRowStore(m);
  m.def("world_rank", [] { return WorldExchange().rank(); });
  m.def("world_size", [] { return WorldExchange().size(); });
  m.def("world_barrier", [] { WorldExchange().Barrier(); });
  m.def("world_allreduce", [](const NDArray& x, const std::string& label) {
    WorldExchange().AllReduce(x, label);
  });
  m.def("world_broadcast", [](const NDArray& x, int root, const std::string& label) {
    WorldExchange().Broadcast(x, root, label);
  });
  m.def("world_abort", [](const std::string& text) { WorldExchange().Abort(text); });
  m.def("world_fault", [] { return WorldExchange().fault(); });
  m.def(
      "world_shrink",
      [](double seconds) {
        Check(seconds > 0 && seconds < 1e6, "shrink: got timeout=", seconds,
              "; a number of seconds above 0 was expected");
        ShrinkWorldExchange(
            std::chrono::milliseconds(static_cast<int64_t>(seconds * 1000)));
      },
      nb::arg("seconds"));
  m.def("world_traffic", &TrafficNow, "Bytes and messages of this rank so far.");
  m.def("world_close", &CloseWorldExchange);
  m.def("world_started", &StartedAsRank, "Whether a launcher started this process.");
  m.def("world_fail", &AbortWorldExchange, "As world_abort, where there are ranks.");
}

}  // namespace plait::python
