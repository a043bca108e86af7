// DetectionFrom: the parameters of ImageDetRecordIter.

#include "loader_options.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <unordered_map>
#include <vector>

namespace nb = nanobind;

namespace plait::python {
namespace {

using D = data::DetectionOptions;

data::CropSampler SamplerFrom(const std::vector<double>& v) {
  Check(v.size() == 11, ErrorKind::kType, "ImageDetRecordIter: a crop sampler of ",
        v.size(), " numbers; 11 were expected");
  return {.min_scale = v[0],
          .max_scale = v[1],
          .min_aspect = v[2],
          .max_aspect = v[3],
          .min_overlap = v[4],
          .max_overlap = v[5],
          .min_sample_coverage = v[6],
          .max_sample_coverage = v[7],
          .min_object_coverage = v[8],
          .max_object_coverage = v[9],
          .trials = static_cast<int64_t>(v[10])};
}

template <typename E>
E Choice(const std::string& name, const std::string& value,
         const std::unordered_map<std::string, E>& known) {
  const auto it = known.find(value);
  std::string names;
  for (const auto& [key, unused] : known) names += " '" + key + "'";
  Check(it != known.end(), "ImageDetRecordIter: ", name, " is '", value, "'; one of",
        names, " was expected");
  return it->second;
}

const std::unordered_map<std::string, double D::*>& Numbers() {
  static const auto* const numbers = new std::unordered_map<std::string, double D::*>{
      {"rand_mirror_prob", &D::rand_mirror_prob},
      {"rand_pad_prob", &D::rand_pad_prob},
      {"max_pad_scale", &D::max_pad_scale},
      {"rand_crop_prob", &D::rand_crop_prob},
      {"emit_overlap_thresh", &D::emit_overlap_thresh},
      {"random_hue_prob", &D::random_hue_prob},
      {"max_random_hue", &D::max_random_hue},
      {"random_saturation_prob", &D::random_saturation_prob},
      {"max_random_saturation", &D::max_random_saturation},
      {"random_illumination_prob", &D::random_illumination_prob},
      {"max_random_illumination", &D::max_random_illumination},
      {"random_contrast_prob", &D::random_contrast_prob},
      {"max_random_contrast", &D::max_random_contrast},
  };
  return *numbers;
}

void SetOption(const std::string& name, nb::handle value, D& o) {
  if (const auto it = Numbers().find(name); it != Numbers().end()) {
    o.*(it->second) = nb::cast<double>(value);
  } else if (name == "label_width") {
    o.label_width = nb::cast<int64_t>(value);
  } else if (name == "label_pad_width") {
    o.label_pad_width = nb::cast<int64_t>(value);
  } else if (name == "label_pad_value") {
    o.label_pad_value = nb::cast<float>(value);
  } else if (name == "resize_mode") {
    o.resize_mode = Choice<D::Resize>(name, nb::cast<std::string>(value),
                                      {{"force", D::Resize::kForce},
                                       {"shrink", D::Resize::kShrink},
                                       {"fit", D::Resize::kFit}});
  } else if (name == "crop_emit_mode") {
    o.emit =
        Choice<D::Emit>(name, nb::cast<std::string>(value),
                        {{"center", D::Emit::kCenter}, {"overlap", D::Emit::kOverlap}});
  } else if (name == "samplers") {
    o.samplers.clear();
    for (const nb::handle item : value)
      o.samplers.push_back(SamplerFrom(nb::cast<std::vector<double>>(item)));
  } else {
    Fail(ErrorKind::kType, "ImageDetRecordIter: unknown option '", name, "'");
  }
}

}  // namespace

data::DetectionOptions DetectionFrom(const nb::dict& options) {
  D detection;
  for (const auto& [key, value] : options)
    SetOption(nb::cast<std::string>(key), value, detection);
  return detection;
}

}  // namespace plait::python
