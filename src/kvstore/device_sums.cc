// DeviceSums: float32 by its own loop, other dtypes by the operator.

#include "kvstore/device_sums.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "base/parallel.h"
#include "kvstore/array_work.h"

namespace plait {
namespace {

// Elements of one operation: enough that small keys cost little.
constexpr int64_t kTogether = 1 << 18;
// Elements that a thread takes at once.
constexpr int64_t kPiece = 1 << 13;
// Results of so many elements are not kept in caches.
constexpr int64_t kPastCaches = 1 << 16;

void SumPlain(std::span<const float* const> from, float* to, int64_t first,
              int64_t last) {
  for (int64_t i = first; i < last; ++i) {
    float sum = from[0][i];
    for (size_t d = 1; d < from.size(); ++d) sum += from[d][i];
    to[i] = sum;
  }
}

// The processor writes whole lines without reading them first.
void SumPastCaches(std::span<const float* const> from, float* to, int64_t first,
                   int64_t last) {
#ifdef __SSE2__
  const auto place = reinterpret_cast<uintptr_t>(to + first) / sizeof(float);
  const int64_t aligned = std::min<int64_t>(last, first + (-place & 15));
  SumPlain(from, to, first, aligned);
  int64_t i = aligned;
  for (; i + 16 <= last; i += 16) {
    __m128 sum[4];
    for (int k = 0; k < 4; ++k) sum[k] = _mm_loadu_ps(from[0] + i + 4 * k);
    for (size_t d = 1; d < from.size(); ++d) {
      for (int k = 0; k < 4; ++k)
        sum[k] = _mm_add_ps(sum[k], _mm_loadu_ps(from[d] + i + 4 * k));
    }
    for (int k = 0; k < 4; ++k) _mm_stream_ps(to + i + 4 * k, sum[k]);
  }
  _mm_sfence();
  first = i;
#endif
  SumPlain(from, to, first, last);
}

}  // namespace

void DeviceSums::Add(std::span<const NDArray> arrays, const NDArray& y) {
  if (y.dtype() != DType::kFloat32 || arrays[0].dtype() != DType::kFloat32) {
    return SumArrays(arrays, y);
  }
  if (y.size() == 0) return;
  Sum sum{{}, nullptr, y.size()};
  for (const NDArray& x : arrays) {
    x.chunk();  // has memory from here on
    sum.from.push_back(x.data<float>());
    reads_.push_back(x);
  }
  y.chunk();
  sum.to = y.data<float>();
  writes_.push_back(y);
  elements_ += y.size();
  sums_.push_back(std::move(sum));
  if (elements_ >= kTogether) Flush();
}

void DeviceSums::Flush() {
  if (sums_.empty()) return;
  struct Unit {
    int sum;
    int64_t first;
  };
  std::vector<Unit> units;
  for (size_t s = 0; s < sums_.size(); ++s) {
    for (int64_t first = 0; first < sums_[s].size; first += kPiece)
      units.push_back({static_cast<int>(s), first});
  }
  PushWork("kvstore_sum", reads_, writes_, 0,
           [sums = std::move(sums_), units = std::move(units)] {
             ParallelFor(static_cast<int64_t>(units.size()), 2,
                         [&](int64_t begin, int64_t end) {
                           for (int64_t u = begin; u < end; ++u) {
                             const Sum& sum = sums[static_cast<size_t>(units[u].sum)];
                             const int64_t first = units[u].first;
                             const int64_t last = std::min(sum.size, first + kPiece);
                             const auto add =
                                 sum.size >= kPastCaches ? SumPastCaches : SumPlain;
                             add(sum.from, sum.to, first, last);
                           }
                         });
           });
  sums_.clear();
  reads_.clear();
  writes_.clear();
  elements_ = 0;
}

}  // namespace plait
