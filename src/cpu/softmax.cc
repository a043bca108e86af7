// Softmax: every slice in the cache from its first pass to its last.

#include "cpu/softmax.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/parallel.h"
#include "cpu/scratch.h"

#ifndef PLAIT_CPU_SOFTMAX_TOGETHER_
#define PLAIT_CPU_SOFTMAX_TOGETHER_
namespace plait::cpu::kernel {

// Slices side by side are worked on together, row by row of the axis: to follow a few
// of them at a time would stride over the same few lines of L1.
inline constexpr int64_t kTogether = 4096;

}  // namespace plait::cpu::kernel
#endif

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/softmax.cc"
#include "cpu/simd/targets.h"
#include "hwy/foreach_target.h"
//
#include "cpu/partial.h"
#include "cpu/simd/words.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace plait::cpu::kernel {
namespace HWY_NAMESPACE {
namespace softmax {

namespace hn = hwy::HWY_NAMESPACE;
template <typename T>
using Tag = hn::ScalableTag<T>;
template <typename T>
constexpr int64_t kLanes = HWY_LANES(T);

template <class D, class V>
HWY_INLINE V Exponential(D d, V v) {
#if PLAIT_HAVE_VECTORS
  return cpu::HWY_NAMESPACE::Exp(d, v);
#else
  return hn::Set(d, std::exp(hn::GetLane(v)));
#endif
}

// The larger of two; NaN when one is NaN.
template <class V>
HWY_INLINE V Larger(V m, V v) {
  return hn::IfThenElse(hn::Or(hn::Gt(v, m), hn::IsNaN(v)), v, m);
}

// (x - top) / temperature, where x has the sign of the temperature taken off.
template <typename T>
struct Scaled {
  HWY_INLINE explicit Scaled(const SoftmaxSlices& s)
      : sign(static_cast<T>(s.temperature < 0 ? -1 : 1)),
        size(static_cast<T>(std::fabs(s.temperature))) {}
  template <class V>
  HWY_INLINE V Signed(V x) const {
    return sign < 0 ? hn::Neg(x) : x;
  }
  template <class V>
  HWY_INLINE V operator()(V x, V top) const {
    const V v = hn::Sub(Signed(x), top);
    return size == 1 ? v : hn::Div(v, hn::Set(Tag<T>(), size));
  }
  T sign, size;
};

// A sum in two levels, so that errors of long sums stay small.
template <typename T>
class Sum {
 public:
  HWY_INLINE Sum() { part_ = all_ = hn::Zero(Tag<T>()); }
  HWY_INLINE void Add(hn::Vec<Tag<T>> v) {
    part_ = hn::Add(part_, v);
    if (++count_ < 64) return;
    all_ = hn::Add(all_, part_);
    part_ = hn::Zero(Tag<T>());
    count_ = 0;
  }
  HWY_INLINE hn::Vec<Tag<T>> Get() const { return hn::Add(all_, part_); }

 private:
  hn::Vec<Tag<T>> part_, all_;
  int count_ = 0;
};

// Calls f(offset, lanes, which of two accumulators) for the vectors of a row.
template <typename T, typename F>
HWY_INLINE void ForEachVector(int64_t n, F&& f) {
  int64_t i = 0;
  for (; i + 2 * kLanes<T> <= n; i += 2 * kLanes<T>) {
    f(i, kLanes<T>, 0);
    f(i + kLanes<T>, kLanes<T>, 1);
  }
  for (; i < n; i += kLanes<T>) f(i, std::min(kLanes<T>, n - i), 0);
}

template <typename T>
HWY_INLINE hn::Vec<Tag<T>> Only(hn::Vec<Tag<T>> v, int64_t lanes) {
  if (lanes == kLanes<T>) return v;
  return hn::IfThenElseZero(hn::FirstN(Tag<T>(), static_cast<size_t>(lanes)), v);
}

template <typename T>
T LargestOf(hn::Vec<Tag<T>> v) {
  const Tag<T> d;
  if (!hn::AllFalse(d, hn::IsNaN(v))) return std::numeric_limits<T>::quiet_NaN();
  return hn::GetLane(hn::MaxOfLanes(d, v));
}

template <typename T>
void ForwardRow(const SoftmaxSlices& s, const T* x, T* y) {
  const Tag<T> d;
  const Scaled<T> scaled(s);
  const auto lowest = hn::Set(d, -std::numeric_limits<T>::infinity());
  auto m0 = lowest, m1 = lowest;
  ForEachVector<T>(s.n, [&](int64_t i, int64_t lanes, int k) HWY_ATTR {
    auto v = scaled.Signed(Load(x + i, lanes));
    if (lanes < kLanes<T>) {
      v = hn::IfThenElse(hn::FirstN(d, static_cast<size_t>(lanes)), v, lowest);
    }
    (k == 0 ? m0 : m1) = Larger(k == 0 ? m0 : m1, v);
  });
  const auto top = hn::Set(d, LargestOf<T>(Larger(m0, m1)));
  Sum<T> s0, s1;
  ForEachVector<T>(s.n, [&](int64_t i, int64_t lanes, int k) HWY_ATTR {
    const auto e = Exponential(d, scaled(Load(x + i, lanes), top));
    if (!s.log) Store(e, y + i, lanes);
    (k == 0 ? s0 : s1).Add(Only<T>(e, lanes));
  });
  const T total = hn::GetLane(hn::SumOfLanes(d, hn::Add(s0.Get(), s1.Get())));
  if (s.log) {
    const auto log_total = hn::Set(d, std::log(total));
    ForEachVector<T>(s.n, [&](int64_t i, int64_t lanes, int) HWY_ATTR {
      Store(hn::Sub(scaled(Load(x + i, lanes), top), log_total), y + i, lanes);
    });
  } else {
    const auto factor = hn::Set(d, 1 / total);
    ForEachVector<T>(s.n, [&](int64_t i, int64_t lanes, int) HWY_ATTR {
      Store(hn::Mul(Load(y + i, lanes), factor), y + i, lanes);
    });
  }
}

// One number a slice, in memory of the width rounded up to whole vectors.
template <typename T>
struct PerSlice {
  PerSlice(T* memory, int64_t width, T first) : value(memory) {
    std::fill_n(value, Rounded(width), first);
  }
  static int64_t Rounded(int64_t width) {
    return (width + kLanes<T> - 1) / kLanes<T> * kLanes<T>;
  }
  HWY_INLINE hn::Vec<Tag<T>> Get(int64_t i) const {
    return hn::Load(Tag<T>(), value + i);
  }
  HWY_INLINE void Set(int64_t i, hn::Vec<Tag<T>> v) {
    hn::Store(v, Tag<T>(), value + i);
  }
  T* value;
};

// Sums in two levels, as Sum: parts of 64 rows.
template <typename T>
struct SliceSums {
  SliceSums(T* memory, int64_t width)
      : part(memory, width, 0),
        all(memory + PerSlice<T>::Rounded(width), width, 0),
        size(width) {}
  HWY_INLINE void Add(int64_t i, hn::Vec<Tag<T>> v) {
    part.Set(i, hn::Add(part.Get(i), v));
  }
  void EndOfRow(int64_t row) {
    if (row % 64 != 63) return;
    for (int64_t i = 0; i < size; ++i) {
      all.value[i] += part.value[i];
      part.value[i] = 0;
    }
  }
  HWY_INLINE hn::Vec<Tag<T>> Get(int64_t i) const {
    return hn::Add(all.Get(i), part.Get(i));
  }
  PerSlice<T> part, all;
  int64_t size;
};

// Calls f(offset, place among the slices, lanes) for `width` slices side by side.
template <typename T, typename F>
HWY_INLINE void ForEachRow(const SoftmaxSlices& s, int64_t width, F&& f) {
  for (int64_t row = 0; row < s.n; ++row) {
    for (int64_t i = 0; i < width; i += kLanes<T>) {
      f(row * s.inner + i, i, std::min(kLanes<T>, width - i));
    }
  }
}

// x and y point to the first element of the first slice.
template <typename T>
void ForwardSlices(const SoftmaxSlices& s, int64_t width, const T* x, T* y) {
  const Tag<T> d;
  const Scaled<T> scaled(s);
  const int64_t rounded = PerSlice<T>::Rounded(width);
  const Scratch scratch(Scratch::Bytes<T>(4 * rounded));
  T* memory = scratch.As<T>();
  PerSlice<T> top(memory, width, -std::numeric_limits<T>::infinity());
  ForEachRow<T>(s, width, [&](int64_t at, int64_t i, int64_t lanes) HWY_ATTR {
    top.Set(i, Larger(top.Get(i), scaled.Signed(Load(x + at, lanes))));
  });
  SliceSums<T> sums(memory + rounded, width);
  for (int64_t row = 0; row < s.n; ++row) {
    for (int64_t i = 0; i < width; i += kLanes<T>) {
      const int64_t lanes = std::min(kLanes<T>, width - i), at = row * s.inner + i;
      const auto e = Exponential(d, scaled(Load(x + at, lanes), top.Get(i)));
      if (!s.log) Store(e, y + at, lanes);
      sums.Add(i, e);
    }
    sums.EndOfRow(row);
  }
  PerSlice<T> total(memory + 3 * rounded, width, 1);
  for (int64_t i = 0; i < width; i += kLanes<T>) {
    total.Set(i, s.log ? sums.Get(i) : hn::Div(hn::Set(d, T(1)), sums.Get(i)));
  }
  for (int64_t i = 0; s.log && i < width; ++i)
    total.value[i] = std::log(total.value[i]);
  ForEachRow<T>(s, width, [&](int64_t at, int64_t i, int64_t lanes) HWY_ATTR {
    if (s.log) {
      const auto v = scaled(Load(x + at, lanes), top.Get(i));
      Store(hn::Sub(v, total.Get(i)), y + at, lanes);
    } else {
      Store(hn::Mul(Load(y + at, lanes), total.Get(i)), y + at, lanes);
    }
  });
}

// What an element adds to the slice's sum, and the gradient given the sum.
template <typename T>
HWY_INLINE hn::Vec<Tag<T>> Term(const SoftmaxSlices& s, hn::Vec<Tag<T>> y,
                                hn::Vec<Tag<T>> dy) {
  return s.log ? dy : hn::Mul(y, dy);
}
template <typename T>
HWY_INLINE hn::Vec<Tag<T>> Slope(const SoftmaxSlices& s, hn::Vec<Tag<T>> y,
                                 hn::Vec<Tag<T>> dy, hn::Vec<Tag<T>> sum) {
  const Tag<T> d;
  const auto v =
      s.log ? hn::NegMulAdd(Exponential(d, y), sum, dy) : hn::Mul(y, hn::Sub(dy, sum));
  return s.temperature == 1 ? v : hn::Div(v, hn::Set(d, static_cast<T>(s.temperature)));
}

template <typename T>
void BackwardRow(const SoftmaxSlices& s, const T* y, const T* dy, T* dx) {
  const Tag<T> d;
  Sum<T> s0, s1;
  ForEachVector<T>(s.n, [&](int64_t i, int64_t lanes, int k) HWY_ATTR {
    const auto term = Term<T>(s, Load(y + i, lanes), Load(dy + i, lanes));
    (k == 0 ? s0 : s1).Add(term);
  });
  const auto sum =
      hn::Set(d, hn::GetLane(hn::SumOfLanes(d, hn::Add(s0.Get(), s1.Get()))));
  ForEachVector<T>(s.n, [&](int64_t i, int64_t lanes, int) HWY_ATTR {
    Store(Slope<T>(s, Load(y + i, lanes), Load(dy + i, lanes), sum), dx + i, lanes);
  });
}

template <typename T>
void BackwardSlices(const SoftmaxSlices& s, int64_t width, const T* y, const T* dy,
                    T* dx) {
  const Scratch scratch(Scratch::Bytes<T>(2 * PerSlice<T>::Rounded(width)));
  SliceSums<T> sums(scratch.As<T>(), width);
  for (int64_t row = 0; row < s.n; ++row) {
    for (int64_t i = 0; i < width; i += kLanes<T>) {
      const int64_t lanes = std::min(kLanes<T>, width - i), at = row * s.inner + i;
      sums.Add(i, Term<T>(s, Load(y + at, lanes), Load(dy + at, lanes)));
    }
    sums.EndOfRow(row);
  }
  ForEachRow<T>(s, width, [&](int64_t at, int64_t i, int64_t lanes) HWY_ATTR {
    Store(Slope<T>(s, Load(y + at, lanes), Load(dy + at, lanes), sums.Get(i)), dx + at,
          lanes);
  });
}

// Calls f(offset, width) for blocks of slices [begin, end), a block is at most
// kTogether.
template <typename F>
HWY_INLINE void ForEachBlock(const SoftmaxSlices& s, int64_t begin, int64_t end,
                             F&& f) {
  const int64_t blocks = (s.inner + kTogether - 1) / kTogether;
  for (int64_t i = begin; i < end; ++i) {
    const int64_t at = i % blocks * kTogether;
    f(i / blocks * s.n * s.inner + at, std::min(kTogether, s.inner - at));
  }
}

template <typename T>
void Forward(const SoftmaxSlices& s, int64_t begin, int64_t end, const T* x, T* y) {
  ForEachBlock(s, begin, end, [&](int64_t at, int64_t width) {
    if (s.inner == 1) {
      ForwardRow(s, x + at, y + at);
    } else {
      ForwardSlices(s, width, x + at, y + at);
    }
  });
}
template <typename T>
void Backward(const SoftmaxSlices& s, int64_t begin, int64_t end, const T* y,
              const T* dy, T* dx) {
  ForEachBlock(s, begin, end, [&](int64_t at, int64_t width) {
    if (s.inner == 1) {
      BackwardRow(s, y + at, dy + at, dx + at);
    } else {
      BackwardSlices(s, width, y + at, dy + at, dx + at);
    }
  });
}

}  // namespace softmax

void SoftmaxForwardF32(const SoftmaxSlices& s, int64_t begin, int64_t end,
                       const float* x, float* y) {
  softmax::Forward(s, begin, end, x, y);
}
void SoftmaxForwardF64(const SoftmaxSlices& s, int64_t begin, int64_t end,
                       const double* x, double* y) {
  softmax::Forward(s, begin, end, x, y);
}
void SoftmaxBackwardF32(const SoftmaxSlices& s, int64_t begin, int64_t end,
                        const float* y, const float* dy, float* dx) {
  softmax::Backward(s, begin, end, y, dy, dx);
}
void SoftmaxBackwardF64(const SoftmaxSlices& s, int64_t begin, int64_t end,
                        const double* y, const double* dy, double* dx) {
  softmax::Backward(s, begin, end, y, dy, dx);
}

}  // namespace HWY_NAMESPACE
}  // namespace plait::cpu::kernel
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plait::cpu {
namespace kernel {
namespace {

HWY_EXPORT(SoftmaxForwardF32);
HWY_EXPORT(SoftmaxForwardF64);
HWY_EXPORT(SoftmaxBackwardF32);
HWY_EXPORT(SoftmaxBackwardF64);

auto* SoftmaxForwardOf(float) {
  return HWY_DYNAMIC_DISPATCH(SoftmaxForwardF32);
}
auto* SoftmaxForwardOf(double) {
  return HWY_DYNAMIC_DISPATCH(SoftmaxForwardF64);
}
auto* SoftmaxBackwardOf(float) {
  return HWY_DYNAMIC_DISPATCH(SoftmaxBackwardF32);
}
auto* SoftmaxBackwardOf(double) {
  return HWY_DYNAMIC_DISPATCH(SoftmaxBackwardF64);
}

// Calls f(begin, end) for blocks of slices, as the passes count them.
template <typename F>
void ForBlocks(const SoftmaxSlices& s, F&& f) {
  const int64_t blocks = (s.inner + kTogether - 1) / kTogether;
  const int64_t grain = 1 + (1 << 13) / (1 + s.n * std::min(kTogether, s.inner));
  ParallelFor(s.outer * blocks, grain, f);
}

}  // namespace
}  // namespace kernel

template <typename T>
void SoftmaxForward(const SoftmaxSlices& s, const T* x, T* y) {
  const auto pass = kernel::SoftmaxForwardOf(T());
  kernel::ForBlocks(s, [&](int64_t begin, int64_t end) { pass(s, begin, end, x, y); });
}
template <typename T>
void SoftmaxBackward(const SoftmaxSlices& s, const T* y, const T* dy, T* dx) {
  const auto pass = kernel::SoftmaxBackwardOf(T());
  kernel::ForBlocks(
      s, [&](int64_t begin, int64_t end) { pass(s, begin, end, y, dy, dx); });
}

template void SoftmaxForward<float>(const SoftmaxSlices&, const float*, float*);
template void SoftmaxForward<double>(const SoftmaxSlices&, const double*, double*);
template void SoftmaxBackward<float>(const SoftmaxSlices&, const float*, const float*,
                                     float*);
template void SoftmaxBackward<double>(const SoftmaxSlices&, const double*,
                                      const double*, double*);

}  // namespace plait::cpu
#endif  // HWY_ONCE
