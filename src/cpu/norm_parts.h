// Sums and moments of runs, for the Highway target at hand.
//
// Included once for each target, after hwy/foreach_target.h.

#if defined(PLAIT_CPU_NORM_PARTS_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PLAIT_CPU_NORM_PARTS_H_
#undef PLAIT_CPU_NORM_PARTS_H_
#else
#define PLAIT_CPU_NORM_PARTS_H_
#endif

#include <algorithm>
#include <cstdint>

#include "cpu/norm.h"
#include "cpu/partial.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace plait::cpu::kernel {
namespace HWY_NAMESPACE {
namespace norm {

namespace hn = hwy::HWY_NAMESPACE;
template <typename T>
using Tag = hn::ScalableTag<T>;
template <typename T>
constexpr int64_t kLanes = HWY_LANES(T);

// Elements of a block: added up in T, and swept twice while they are in L1.
constexpr int64_t kBlock = 4096;

// Calls f(offset, runs, length) for blocks of at most kBlock elements of a group (or
// one run, when that is longer than half a block).
template <typename F>
HWY_INLINE void ForEachBlock(const NormGroups& n, int64_t group, F&& f) {
  if (n.length > kBlock / 2) {
    for (int64_t r = 0; r < n.runs; ++r) {
      const int64_t pieces = (n.length + kBlock - 1) / kBlock;
      for (int64_t i = 0; i < pieces; ++i) {
        const int64_t begin = n.length * i / pieces, end = n.length * (i + 1) / pieces;
        f(r * n.stride + group * n.length + begin, int64_t{1}, end - begin);
      }
    }
    return;
  }
  const int64_t together = kBlock / n.length;
  for (int64_t r = 0; r < n.runs; r += together) {
    f(r * n.stride + group * n.length, std::min(together, n.runs - r), n.length);
  }
}

// Calls f(vector number modulo 4, offset, lanes) for all vectors of some runs.
template <typename T, typename F>
HWY_INLINE void ForEachVector(int64_t runs, int64_t stride, int64_t length, F&& f) {
  constexpr int64_t kL = kLanes<T>;
  for (int64_t r = 0; r < runs; ++r) {
    int64_t i = r * stride;
    const int64_t end = i + length;
    for (; i + 4 * kL <= end; i += 4 * kL) {
      f(0, i, kL);
      f(1, i + kL, kL);
      f(2, i + 2 * kL, kL);
      f(3, i + 3 * kL, kL);
    }
    for (; i + kL <= end; i += kL) f(0, i, kL);
    if (i < end) f(1, i, end - i);
  }
}

// Four sums side by side, so that additions need not wait for each other.
template <typename T>
struct Sums {
  using V = hn::Vec<Tag<T>>;
  V s0, s1, s2, s3;
  HWY_INLINE Sums() { s0 = s1 = s2 = s3 = hn::Zero(Tag<T>()); }
  HWY_INLINE V& operator[](int i) {
    return i == 0 ? s0 : i == 1 ? s1 : i == 2 ? s2 : s3;
  }
  HWY_INLINE double Total() const {
    const V s = hn::Add(hn::Add(s0, s1), hn::Add(s2, s3));
    return static_cast<double>(hn::GetLane(hn::SumOfLanes(Tag<T>(), s)));
  }
};

// Count, mean and sum of squared differences of a sample, and how two become one (Chan,
// Golub and LeVeque, 1979).
struct Moments {
  double n = 0, mean = 0, squares = 0;

  void Add(double more, double other_mean, double other_squares) {
    const double total = n + more, delta = other_mean - mean;
    mean += delta * more / total;
    squares += other_squares + delta * delta * n * more / total;
    n = total;
  }
};

template <typename T>
HWY_INLINE void AddBlock(Moments& m, const T* x, int64_t runs, int64_t stride,
                         int64_t length) {
  const Tag<T> d;
  Sums<T> sum, squares;
  ForEachVector<T>(runs, stride, length, [&](int k, int64_t i, int64_t lanes) HWY_ATTR {
    sum[k] = hn::Add(sum[k], Load(x + i, lanes));
  });
  const double count = static_cast<double>(runs * length);
  const T mean = static_cast<T>(sum.Total() / count);
  const auto center = hn::Set(d, mean);
  ForEachVector<T>(runs, stride, length, [&](int k, int64_t i, int64_t lanes) HWY_ATTR {
    auto v = hn::Sub(Load(x + i, lanes), center);
    if (lanes < kLanes<T>) {
      v = hn::IfThenElseZero(hn::FirstN(d, static_cast<size_t>(lanes)), v);
    }
    squares[k] = hn::MulAdd(v, v, squares[k]);
  });
  // The mean was rounded; what that adds to the squares is taken off.
  const double off = sum.Total() / count - static_cast<double>(mean);
  m.Add(count, sum.Total() / count, squares.Total() - count * off * off);
}

}  // namespace norm
}  // namespace HWY_NAMESPACE
}  // namespace plait::cpu::kernel
HWY_AFTER_NAMESPACE();

#endif  // PLAIT_CPU_NORM_PARTS_H_
