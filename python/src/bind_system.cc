// Engine, memory, random state and build features.

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "base/options.h"
#include "base/parallel.h"
#include "bindings.h"
#include "engine/engine.h"
#include "memory/storage.h"
#include "run/invoke.h"
#include "run/push.h"
#include "run/random.h"

namespace nb = nanobind;

namespace plait::python {
namespace {

Device DeviceOf(int type, int id) {
  return {static_cast<DeviceType>(type), static_cast<int16_t>(id)};
}

}  // namespace

void BindSystem(nb::module_& m) {
  m.def("waitall", &WaitAll);
  m.def("lazy_enabled", [] { return LazyEnabled(); });
  m.def(
      "set_lazy", [](bool on) { return std::exchange(LazyEnabled(), on); },
      "Switches fusing of pointwise calls in this thread; returns the previous value.");
  m.def("seed", [](uint64_t seed) { SeedRandom(seed); });
  m.def("seed_device",
        [](uint64_t seed, int type, int id) { SeedRandom(seed, DeviceOf(type, id)); });
  m.def("memory_stats", [](int type, int id) {
    const memory::Stats s = memory::GetStats(DeviceOf(type, id));
    nb::dict d;
    d["live"] = s.live;
    d["peak"] = s.peak;
    d["reserved"] = s.reserved;
    d["limit"] = s.limit;
    d["allocations"] = s.allocations;
    return d;
  });
  m.def("memory_reset_peak",
        [](int type, int id) { memory::ResetPeak(DeviceOf(type, id)); });
  m.def("memory_set_limit", [](int type, int id, size_t bytes) {
    memory::SetLimit(DeviceOf(type, id), bytes);
  });
  m.def("empty_cache", [](int type, int id) {
    WaitAll();
    memory::EmptyCache(DeviceOf(type, id));
  });
  m.def("available_threads", &AvailableThreads);
  m.def("options", [] {
    nb::list rows;
    for (const OptionInfo& o : OptionTable()) {
      rows.append(nb::make_tuple(o.name, o.legacy ? o.legacy : "", o.fallback, o.doc));
    }
    return rows;
  });
  m.def(
      "set_layer",
      [](nb::object name) {
        // The name must live as long as the call; interned strings live for ever.
        if (name.is_none()) {
          CurrentLayer() = "";
          return;
        }
        PyObject* text = name.release().ptr();
        PyUnicode_InternInPlace(&text);
        CurrentLayer() = PyUnicode_AsUTF8(text);
      },
      nb::arg("name").none());
}

}  // namespace plait::python
