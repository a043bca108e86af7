// What the ways of a convolution of blocked arrays have in common.

#ifndef PLAIT_CPU_BLOCKED_PARTS_H_
#define PLAIT_CPU_BLOCKED_PARTS_H_

#include <algorithm>

#include "base/parallel.h"
#include "cpu/blocked.h"
#include "cpu/blocked_direct.h"
#include "cpu/scratch.h"

namespace plait::cpu {

// So many channels with the last block filled up.
inline int64_t FilledChannels(int64_t channels) {
  const int64_t block = ChannelBlock();
  return (channels + block - 1) / block * block;
}

// Elements of one image of x (plain: not blocked) and of y.
inline int64_t XOfImage(const ConvProblem& p, bool plain) {
  return (plain ? p.in_channels : FilledChannels(p.in_channels)) * p.InSize();
}
inline int64_t YOfImage(const ConvProblem& p) {
  return FilledChannels(p.out_channels) * p.OutSize();
}

// What a kernel leaves to do of `f`; the bias is in the sums. Every element is stored,
// so that vectors can do it.
inline void FinishAll(int64_t n, const ConvFinish& f, float* y) {
  if (f.other == nullptr && !f.bounded) return;
  ParallelFor(n, 1 << 15, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; f.other != nullptr && i < end; ++i) y[i] += f.other[i];
    for (int64_t i = begin; f.bounded && i < end; ++i) {
      float v = y[i];
      v = v < f.low ? f.low : v;
      y[i] = v > f.high ? f.high : v;
    }
  });
}

// n values that are added to y, in memory of their own where they are in y itself.
template <typename T>
class Apart {
 public:
  Apart(const T* other, const T* y, int64_t n)
      : scratch_(other == y ? Scratch::Bytes<T>(n) : 0), data_(other) {
    if (other != y) return;
    T* to = scratch_.template As<T>();
    ParallelFor(n, 1 << 15, [&](int64_t begin, int64_t end) {
      std::copy(other + begin, other + end, to + begin);
    });
    data_ = to;
  }
  const T* data() const { return data_; }

 private:
  const Scratch scratch_;
  const T* data_;
};

// to += from.
inline void AddAll(int64_t n, const float* from, float* to) {
  ParallelFor(n, 1 << 15, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) to[i] += from[i];
  });
}

}  // namespace plait::cpu

#endif  // PLAIT_CPU_BLOCKED_PARTS_H_
