// What the ways of a convolution of blocked arrays of half types have in common.

#ifndef PLAIT_CPU_HALF_PARTS_H_
#define PLAIT_CPU_HALF_PARTS_H_

#include <algorithm>

#include "base/dtype.h"
#include "base/parallel.h"
#include "cpu/blocked_parts.h"
#include "cpu/half_conv.h"
#include "cpu/pointwise.h"
#include "cpu/scratch.h"

namespace plait::cpu::half {

template <typename From, typename To>
void ConvertAll(const From* from, To* to, int64_t n) {
  ParallelFor(n, 1 << 15, [&](int64_t begin, int64_t end) {
    Convert(from + begin, kDTypeOf<From>, to + begin, kDTypeOf<To>, end - begin);
  });
}

// An array as floats; null stays null.
class Widened {
 public:
  template <typename T>
  Widened(const T* from, int64_t n)
      : scratch_(from == nullptr ? 0 : Scratch::Bytes<float>(n)),
        data_(from == nullptr ? nullptr : scratch_.As<float>()) {
    if (from != nullptr) ConvertAll(from, scratch_.As<float>(), n);
  }
  const float* data() const { return data_; }

 private:
  const Scratch scratch_;
  const float* data_;
};

// Filters that were packed as floats.
template <typename T>
const float* AsFloats(const T* packed) {
  return reinterpret_cast<const float*>(packed);
}

// Calls run(part of the batch, offset of x, offset of y); a part has about a cache's
// size in elements of `bytes` bytes.
template <typename F>
void InParts(const ConvProblem& p, bool plain_x, size_t bytes, F&& run) {
  constexpr int64_t kInCache = 16 << 20;
  const int64_t x = XOfImage(p, plain_x), y = YOfImage(p);
  const int64_t step =
      std::clamp<int64_t>(kInCache / static_cast<int64_t>(bytes) / (x + y), 1, p.batch);
  for (int64_t n = 0; n < p.batch; n += step) {
    ConvProblem part = p;
    part.batch = std::min(step, p.batch - n);
    run(part, n * x, n * y);
  }
}

// What a kernel has left to do: another array and bounds.
template <typename T>
void FinishAll(int64_t n, const HalfFinish<T>& f, T* y) {
  if (f.other == nullptr && !f.bounded) return;
  constexpr int64_t kTogether = 1 << 10;
  ParallelFor(n, 1 << 15, [&](int64_t begin, int64_t end) {
    float sum[kTogether], other[kTogether];
    for (int64_t i = begin; i < end; i += kTogether) {
      const int64_t count = std::min(kTogether, end - i);
      Convert(y + i, kDTypeOf<T>, sum, DType::kFloat32, count);
      if (f.other != nullptr) {
        Convert(f.other + i, kDTypeOf<T>, other, DType::kFloat32, count);
        for (int64_t k = 0; k < count; ++k) sum[k] += other[k];
      }
      for (int64_t k = 0; f.bounded && k < count; ++k) {
        float v = sum[k];
        v = v < f.low ? f.low : v;
        sum[k] = v > f.high ? f.high : v;
      }
      Convert(sum, DType::kFloat32, y + i, kDTypeOf<T>, count);
    }
  });
}

// kWide: the passes in float32. `packed` are the filters in the order of the pass.
template <typename T>
void WideForward(const ConvProblem& p, const HalfConv& how, const T* x,
                 const float* packed, const HalfFinish<T>& finish, T* y);
template <typename T>
void WideBackwardData(const ConvProblem& p, const HalfConv& how, const T* dy,
                      const float* packed, T* dx);
template <typename T>
void WideBackwardWeight(const ConvProblem& p, const HalfConv& how, const T* x,
                        const T* dy, T* dweight);

}  // namespace plait::cpu::half

#endif  // PLAIT_CPU_HALF_PARTS_H_
