// The profiler's feed: the engine's events, collected until Python asks for them.

#include <nanobind/stl/string.h>

#include <mutex>
#include <string>
#include <vector>

#include "bindings.h"
#include "engine/callback_lane.h"
#include "engine/engine.h"
#include "run/lazy.h"

namespace nb = nanobind;

namespace plait::python {
namespace {

struct Recorded {
  std::string name, layer;
  const char* category;
  uint64_t thread;
  double start_us, end_us;
};

struct Feed {
  std::mutex mutex;
  std::vector<Recorded> events;
};
Feed& TheFeed() {
  static auto* feed = new Feed;
  return *feed;
}

const char* CategoryOf(Lane lane) {
  switch (lane) {
    case Lane::kCompute:
      return "operator";
    case Lane::kCopy:
      return "copy";
    case Lane::kIo:
      return "io";
    default:
      return IsCallback(lane) ? "Custom Operator" : "comm";
  }
}

void Note(const EngineEvent& e) {
  Recorded event{e.name,
                 e.layer,
                 CategoryOf(e.lane),
                 e.thread,
                 static_cast<double>(e.start_ns) / 1e3,
                 static_cast<double>(e.end_ns) / 1e3};
  if (IsCallback(e.lane)) event.name += "::pure_python";
  // What Python code of a custom operator called has the layer `operator::`.
  if (event.layer.ends_with("::")) {
    event.name = event.layer + event.name;
    event.layer.clear();
    event.category = "Custom Operator";
  }
  Feed& feed = TheFeed();
  const std::lock_guard lock(feed.mutex);
  feed.events.push_back(std::move(event));
}

}  // namespace

void BindProfiler(nb::module_& m) {
  m.def("profiler_start", [] { Engine::Get().SetObserver(Note); });
  m.def("profiler_stop", [] {
    LazyProgram::FlushAll();  // what was called while the profiler ran belongs to it
    Engine::Get().SetObserver(nullptr);
  });
  m.def(
      "profiler_events",
      [] {
        LazyProgram::FlushAll();
        std::vector<Recorded> events;
        {
          const std::lock_guard lock(TheFeed().mutex);
          events.swap(TheFeed().events);
        }
        nb::list rows;
        for (const Recorded& e : events) {
          rows.append(nb::make_tuple(e.name, e.category, "cpu/0", e.thread, e.start_us,
                                     e.end_us, e.layer));
        }
        return rows;
      },
      "What ran since the last call: (name, category, device, thread, begin, end, "
      "layer).");
}

}  // namespace plait::python
