// BoxLabels: what becomes of boxes when the picture is mirrored, padded and cropped.

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "data/detection.h"

namespace plait::data {

float Box::AreaOfIntersection(const Box& other) const {
  const float w = std::min(x + width, other.x + other.width) - std::max(x, other.x);
  const float h = std::min(y + height, other.y + other.height) - std::max(y, other.y);
  return w > 0 && h > 0 ? w * h : 0;
}

bool Box::Contains(float px, float py) const {
  return x <= px && px < x + width && y <= py && py < y + height;
}

BoxLabels::BoxLabels(std::span<const float> labels) {
  constexpr size_t kLeast = 7;  // a header of two and an object of five
  Check(labels.size() >= kLeast, "it has ", labels.size(), " labels; at least ", kLeast,
        " were expected: 2 (their own number), 5 (numbers an object), and objects");
  const float header = labels[0], width = labels[1];
  const auto most = static_cast<float>(labels.size());
  Check(header >= 2 && header <= most && width >= 5 && width <= most,
        "its labels say that the header has ", header, " numbers and an object ", width,
        "; at least 2 and 5, and no more than its ", labels.size(),
        " labels, were expected");
  const auto begin = static_cast<size_t>(header);
  width_ = static_cast<size_t>(width);
  Check((labels.size() - begin) % width_ == 0, "its ", labels.size() - begin,
        " labels behind the header are no multiple of ", width_, ", an object's width");
  header_.assign(labels.begin(), labels.begin() + static_cast<int64_t>(begin));
  for (size_t i = begin; i < labels.size(); i += width_) {
    const float* object = &labels[i];
    if (object[3] > object[1] && object[4] > object[2])
      objects_.insert(objects_.end(), object, object + width_);
  }
}

void BoxLabels::Mirror() {
  for (size_t i = 0; i < objects_.size(); i += width_) {
    const float left = objects_[i + 1];
    objects_[i + 1] = 1 - objects_[i + 3];
    objects_[i + 3] = 1 - left;
  }
}

void BoxLabels::Project(const Box& window) {
  for (size_t i = 0; i < objects_.size(); i += width_) {
    float* o = &objects_[i];
    o[1] = std::max(0.0f, (o[1] - window.x) / window.width);
    o[2] = std::max(0.0f, (o[2] - window.y) / window.height);
    o[3] = std::min(1.0f, (o[3] - window.x) / window.width);
    o[4] = std::min(1.0f, (o[4] - window.y) / window.height);
  }
}

Box BoxLabels::BoxOf(size_t object) const {
  const float* o = &objects_[object];
  return {o[1], o[2], o[3] - o[1], o[4] - o[2]};
}

bool BoxLabels::Allows(const Box& window, const CropSampler& s) const {
  if (!s.ChecksBoxes()) return true;
  const auto within = [](double share, double low, double high) {
    return share >= low && share <= high;
  };
  for (size_t i = 0; i < objects_.size(); i += width_) {
    const Box box = BoxOf(i);
    const double both = window.AreaOfIntersection(box);
    const double crop = window.Area(), object = box.Area();
    if (within(both / (crop + object - both), s.min_overlap, s.max_overlap) &&
        within(both / crop, s.min_sample_coverage, s.max_sample_coverage) &&
        within(both / object, s.min_object_coverage, s.max_object_coverage))
      return true;
  }
  return false;
}

bool BoxLabels::Crop(const Box& window, const CropSampler& sampler,
                     const DetectionOptions& options) {
  if (objects_.empty()) return true;
  if (!Allows(window, sampler)) return false;
  std::vector<float> kept;
  for (size_t i = 0; i < objects_.size(); i += width_) {
    const Box box = BoxOf(i);
    const float* o = &objects_[i];
    const bool inside =
        options.emit == DetectionOptions::Emit::kCenter
            ? window.Contains((o[1] + o[3]) * 0.5f, (o[2] + o[4]) * 0.5f)
            : static_cast<double>(window.AreaOfIntersection(box) / box.Area()) >
                  options.emit_overlap_thresh;
    if (inside) kept.insert(kept.end(), o, o + width_);
  }
  if (kept.empty()) return false;
  objects_ = std::move(kept);
  Project(window);
  return true;
}

std::vector<float> BoxLabels::ToArray() const {
  std::vector<float> labels = header_;
  labels.insert(labels.end(), objects_.begin(), objects_.end());
  return labels;
}

}  // namespace plait::data
