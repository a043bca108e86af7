// Indices in arrays of any dtype.

#include "ops/index/indices.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/parallel.h"
#include "cpu/pointwise.h"

namespace plait {
namespace {

constexpr int64_t kFar = std::numeric_limits<int64_t>::max();

template <typename T>
int64_t AsIndex(T value) {
  if constexpr (std::is_same_v<T, uint64_t>) {
    return value > static_cast<uint64_t>(kFar) ? kFar : static_cast<int64_t>(value);
  } else if constexpr (std::is_integral_v<T>) {
    return static_cast<int64_t>(value);
  } else {
    const double x = static_cast<double>(value);
    if (std::isnan(x) || x >= 9.2e18) return kFar;
    return x <= -9.2e18 ? -kFar : static_cast<int64_t>(x);
  }
}

template <IndexMode M>
int64_t Resolve(int64_t i, int64_t size, const char* op) {
  if constexpr (M == IndexMode::kClip) {
    return std::clamp<int64_t>(i, 0, size - 1);
  } else if constexpr (M == IndexMode::kWrap) {
    if (i >= 0 && i < size) return i;
    const int64_t rest = i % size;
    return rest < 0 ? rest + size : rest;
  } else {
    if (i >= 0 && i < size) [[likely]]
      return i;
    constexpr bool kNegative = M == IndexMode::kNumpy;
    Check(kNegative && i < 0 && i >= -size, ErrorKind::kIndex, op, ": index ", i,
          " is out of range for an axis of size ", size, "; ", kNegative ? -size : 0,
          " <= index < ", size, " was expected");
    return i + size;
  }
}

template <typename T, IndexMode M>
void ResolveAll(const T* in, int64_t n, int64_t size, const char* op, int64_t* out) {
  ParallelFor(n, 1 << 15, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i)
      out[i] = Resolve<M>(AsIndex(in[i]), size, op);
  });
}

}  // namespace

Indices::Indices(const View& indices, int64_t size, IndexMode mode, const char* op)
    : memory_(static_cast<size_t>(indices.size()) * sizeof(int64_t)) {
  const int64_t n = indices.size();
  Check(n == 0 || size > 0, ErrorKind::kIndex, op,
        ": an index into an axis of size 0; at least one element was expected");
  int64_t* out = memory_.As<int64_t>();
  VisitDType(indices.dtype, [&]<typename T>() {
    const T* in = indices.data<T>();
    switch (mode) {
      case IndexMode::kClip:
        return ResolveAll<T, IndexMode::kClip>(in, n, size, op, out);
      case IndexMode::kWrap:
        return ResolveAll<T, IndexMode::kWrap>(in, n, size, op, out);
      case IndexMode::kRaise:
        return ResolveAll<T, IndexMode::kRaise>(in, n, size, op, out);
      case IndexMode::kNumpy:
        return ResolveAll<T, IndexMode::kNumpy>(in, n, size, op, out);
    }
  });
}

void StoreIndices(const int64_t* indices, const View& y) {
  cpu::Convert(indices, DType::kInt64, y.ptr, y.dtype, y.size());
}

}  // namespace plait
