// Boxes of object detection: overlaps, formats, greedy suppression.

#ifndef PLAIT_OPS_CONTRIB_BOXES_H_
#define PLAIT_OPS_CONTRIB_BOXES_H_

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "base/dtype.h"

namespace plait {

// Corners (xmin, ymin, xmax, ymax), or a center and sizes (x, y, width, height).
enum class BoxFormat : uint8_t { kCenter, kCorner };
inline std::vector<std::string> BoxFormatNames() {
  return {"center", "corner"};
}

// Corners.
template <typename A>
struct Box {
  A left = 0, top = 0, right = 0, bottom = 0;

  A width() const { return right - left; }
  A height() const { return bottom - top; }
  A area() const { return width() < 0 || height() < 0 ? A(0) : width() * height(); }
};

// Four numbers of any floating type.
template <typename T, typename A = Accumulate<T>>
Box<A> ReadBox(const T* x, BoxFormat format = BoxFormat::kCorner) {
  const A a = static_cast<A>(x[0]), b = static_cast<A>(x[1]);
  const A c = static_cast<A>(x[2]), d = static_cast<A>(x[3]);
  if (format == BoxFormat::kCorner) return {a, b, c, d};
  return {a - c / 2, b - d / 2, a + c / 2, b + d / 2};
}

template <typename A>
A Intersection(const Box<A>& a, const Box<A>& b) {
  const A w = std::min(a.right, b.right) - std::max(a.left, b.left);
  const A h = std::min(a.bottom, b.bottom) - std::max(a.top, b.top);
  return w > 0 && h > 0 ? w * h : A(0);
}

// Intersection over union; 0 for boxes that do not meet.
template <typename A>
A Overlap(const Box<A>& a, const Box<A>& b) {
  const A common = Intersection(a, b);
  if (!(common > 0)) return 0;
  const A all = a.area() + b.area() - common;
  return all > 0 ? common / all : A(0);
}

// Keeps the first of boxes that overlap too much: calls suppresses(i, j) for kept boxes
// i and candidates j > i that are still there. Returns the indices that are kept, at
// most `most` of them.
template <typename F>
std::vector<int64_t> KeepGreedily(int64_t n, int64_t most, F&& suppresses) {
  std::vector<char> gone(static_cast<size_t>(n), 0);
  std::vector<int64_t> kept;
  for (int64_t i = 0; i < n && static_cast<int64_t>(kept.size()) < most; ++i) {
    if (gone[i]) continue;
    kept.push_back(i);
    for (int64_t j = i + 1; j < n; ++j) {
      if (!gone[j] && suppresses(i, j)) gone[j] = 1;
    }
  }
  return kept;
}

}  // namespace plait

#endif  // PLAIT_OPS_CONTRIB_BOXES_H_
