// Ranges: equal parts, and what is left over to who owns least.

#include "kvstore/ranges.h"

#include <algorithm>
#include <numeric>

namespace plait {

Ranges Partition::Split(int64_t elements, int64_t element_bytes) {
  const auto ranks = static_cast<int64_t>(owned_.size());
  const int64_t units = (elements + kUnit - 1) / kUnit;
  std::vector<size_t> poorest(owned_.size());
  std::iota(poorest.begin(), poorest.end(), 0);
  std::stable_sort(poorest.begin(), poorest.end(),
                   [this](size_t a, size_t b) { return owned_[a] < owned_[b]; });
  std::vector<int64_t> share(owned_.size(), units / ranks);
  for (int64_t i = 0; i < units % ranks; ++i) ++share[poorest[static_cast<size_t>(i)]];
  Ranges ranges;
  int64_t first = 0;
  for (size_t r = 0; r < owned_.size(); ++r) {
    const int64_t last = std::min(elements, first + share[r] * kUnit);
    ranges.parts.push_back({first, last});
    owned_[r] += (last - first) * element_bytes;
    first = last;
  }
  return ranges;
}

Ranges Partition::Whole(int64_t elements, int64_t element_bytes) {
  const auto poorest = std::min_element(owned_.begin(), owned_.end());
  *poorest += elements * element_bytes;
  return OwnedBy(static_cast<int>(poorest - owned_.begin()),
                 static_cast<int>(owned_.size()), elements);
}

Ranges OwnedBy(int owner, int ranks, int64_t elements) {
  Ranges ranges;
  for (int r = 0; r < ranks; ++r) {
    ranges.parts.push_back({r > owner ? elements : 0, r < owner ? 0 : elements});
  }
  return ranges;
}

}  // namespace plait
