// Engine, memory, random state and build features.

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "base/blocking.h"
#include "base/options.h"
#include "base/parallel.h"
#include "bindings.h"
#include "engine/engine.h"
#include "image/codec.h"
#include "memory/storage.h"
#include "run/invoke.h"
#include "run/lazy.h"
#include "run/push.h"
#include "run/random.h"

namespace nb = nanobind;

namespace plait::python {
namespace {

// A device type by its number or its name.
Device DeviceOf(nb::object type, int id) {
  if (PyLong_Check(type.ptr()))
    return {static_cast<DeviceType>(nb::cast<int>(type)), static_cast<int16_t>(id)};
  const std::string name = nb::cast<std::string>(type);
  for (DeviceType t : {DeviceType::kCpu, DeviceType::kGpu, DeviceType::kCpuPinned,
                       DeviceType::kCpuShared}) {
    if (name == Name(t)) return {t, static_cast<int16_t>(id)};
  }
  Fail(ErrorKind::kValue, "device: '", name,
       "' is unknown; one of cpu, gpu, cpu_pinned, "
       "cpu_shared was expected");
}

}  // namespace

void BindSystem(nb::module_& m) {
  m.def("waitall", [] {
    WaitAll();
    ReleaseNow();  // what ended operations held
  });
  // Around fork(): what is pending anywhere is pushed, then the lanes rest.
  m.def("before_fork", [] {
    LazyProgram::FlushAll();
    const ScopedBlocking blocking;
    Engine::Get().Pause();
  });
  m.def("after_fork", [] { Engine::Get().Resume(); });
  m.def("shutdown", [] {
    LazyProgram::FlushAll();
    const ScopedBlocking blocking;
    Engine::Get().Shutdown();
  });
  m.def("set_bulk_size", [](int size) {
    // Kept for scripts that restore it; the fusing of calls needs no such limit.
    thread_local int bulk = 0;
    return std::exchange(bulk, size);
  });
  m.def("features", [] {
    nb::dict found;
#ifdef PLAIT_USE_ONEDNN
    found["MKLDNN"] = true;
#else
    found["MKLDNN"] = false;
#endif
    // What scripts for MXNet want of it: decoding and resizing images.
    found["OPENCV"] = image::HasCodec("JPEG") && image::HasCodec("PNG");
    found["LIBJPEG_TURBO"] = image::HasCodec("JPEG");
    found["OPENMP"] = true;
    found["INT64_TENSOR_SIZE"] = true;
    found["CUDA"] = false;
    return found;
  });
  m.def("lazy_enabled", [] { return LazyEnabled(); });
  m.def(
      "set_lazy", [](bool on) { return std::exchange(LazyEnabled(), on); },
      "Switches fusing of pointwise calls in this thread; returns the previous value.");
  m.def("seed", [](uint64_t seed) { SeedRandom(seed); });
  m.def("seed_device", [](uint64_t seed, nb::object type, int id) {
    SeedRandom(seed, DeviceOf(type, id));
  });
  m.def("memory_stats", [](nb::object type, int id) {
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
        [](nb::object type, int id) { memory::ResetPeak(DeviceOf(type, id)); });
  m.def("memory_set_limit", [](nb::object type, int id, size_t bytes) {
    memory::SetLimit(DeviceOf(type, id), bytes);
  });
  m.def("empty_cache", [](nb::object type, int id) {
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
