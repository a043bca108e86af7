// SampleMaker and SampleRandom: what Gluon's DataLoader makes batches with.

#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <chrono>
#include <memory>
#include <string>
#include <unordered_map>

#include "bindings.h"
#include "data/sample_maker.h"
#include "engine/engine.h"

namespace nb = nanobind;

namespace plait::python {
namespace {

using data::PixelStep;
using data::RandomFile;
using data::SampleMaker;
using data::SamplePlace;
using data::SampleRandom;

// A step from the dictionary that a transform gives of itself.
PixelStep StepFrom(const nb::dict& step) {
  static const std::unordered_map<std::string, PixelStep::Kind> kinds = {
      {"resize", PixelStep::Kind::kResize},
      {"crop", PixelStep::Kind::kCrop},
      {"center_crop", PixelStep::Kind::kCenterCrop},
      {"random_resized_crop", PixelStep::Kind::kRandomResizedCrop},
      {"flip_left_right", PixelStep::Kind::kFlipLeftRight},
      {"flip_top_bottom", PixelStep::Kind::kFlipTopBottom},
  };
  const auto number = [&](const char* name, auto otherwise) {
    return step.contains(name) ? nb::cast<decltype(otherwise)>(step[name]) : otherwise;
  };
  PixelStep s;
  s.kind = kinds.at(nb::cast<std::string>(step["kind"]));
  s.x = number("x", int64_t{0});
  s.y = number("y", int64_t{0});
  s.part_width = number("part_width", int64_t{0});
  s.part_height = number("part_height", int64_t{0});
  s.width = number("width", int64_t{0});
  s.height = number("height", int64_t{0});
  s.keep_ratio = number("keep_ratio", false);
  s.interpolation = number("interpolation", 1);
  s.antialias = number("antialias", false);
  s.min_area = number("min_area", 0.0);
  s.max_area = number("max_area", 0.0);
  s.min_log_ratio = number("min_log_ratio", 0.0);
  s.max_log_ratio = number("max_log_ratio", 0.0);
  return s;
}

using Numbers = nb::ndarray<const int64_t, nb::numpy, nb::ndim<1>, nb::c_contig>;

int64_t Now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

nb::object ArrayOrNone(NDArray array) {
  return array ? nb::cast(std::move(array)) : nb::none();
}

}  // namespace

void BindSamples(nb::module_& m) {
  // What the profiler shows of waiting for input; 0: nobody looks.
  m.def("wait_begin", [] { return Engine::Get().observed() ? Now() : int64_t{0}; });
  m.def("wait_end", [](const char* name, int64_t start) {
    if (start != 0) Engine::Get().ReportInline(name, "", Lane::kIo, start, Now());
  });
  m.def(
      "gather_rows",
      [](const NDArray& array, const Numbers& rows) {
        nb::gil_scoped_release unlocked;
        return data::GatherRows(array, {rows.data(), rows.shape(0)});
      },
      nb::arg("array"), nb::arg("rows").noconvert(),
      "Rows of an array on the CPU, by a NumPy array of int64.");
  nb::class_<SampleRandom>(m, "SampleRandom")
      .def(nb::init<uint64_t, uint64_t, uint64_t>())
      .def("unit", &SampleRandom::Unit)
      .def("uniform", &SampleRandom::Uniform)
      .def("whole", &SampleRandom::Whole)
      .def("normal", &SampleRandom::Normal);
  nb::class_<SampleMaker>(m, "SampleMaker")
      .def("__init__",
           [](SampleMaker* self, int flag, const nb::list& steps, bool to_tensor,
              std::vector<float> mean, std::vector<float> std, nb::handle dtype) {
             data::SampleOptions options;
             options.flag = flag;
             for (const nb::handle step : steps)
               options.steps.push_back(StepFrom(nb::cast<nb::dict>(step)));
             options.to_tensor = to_tensor;
             options.normalises = !mean.empty();
             options.mean = std::move(mean);
             options.std = std::move(std);
             options.dtype = DTypeFromPython(dtype.ptr());
             new (self) SampleMaker(std::move(options));
           })
      .def("files",
           [](const SampleMaker& self, const std::vector<std::string>& paths,
              uint64_t seed, uint64_t epoch, uint64_t first) {
             NDArray batch;
             {
               nb::gil_scoped_release unlocked;
               batch = self.FromFiles(paths, {seed, epoch, first});
             }
             return ArrayOrNone(std::move(batch));
           })
      .def("records",
           [](const SampleMaker& self, const std::string& path,
              const std::vector<uint64_t>& offsets, uint64_t seed, uint64_t epoch,
              uint64_t first) {
             NDArray batch;
             data::SampleLabels labels;
             {
               nb::gil_scoped_release unlocked;
               batch = self.FromRecords(std::make_shared<const RandomFile>(path),
                                        offsets, {seed, epoch, first}, &labels);
             }
             return nb::make_tuple(ArrayOrNone(std::move(batch)), labels.values,
                                   labels.width);
           })
      .def("rows", [](const SampleMaker& self, const NDArray& rows,
                      const std::vector<int64_t>& indices, uint64_t seed,
                      uint64_t epoch, uint64_t first) {
        NDArray batch;
        {
          nb::gil_scoped_release unlocked;
          batch = self.FromRows(rows, indices, {seed, epoch, first});
        }
        return ArrayOrNone(std::move(batch));
      });
}

}  // namespace plait::python
