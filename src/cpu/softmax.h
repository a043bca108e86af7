// Softmax and its logarithm along one axis, forward and backward.
//
// T: float or double. Thread safety: any thread; ComputeThreads() threads are used
// above a size, and the bits of the results do not depend on their number. Arguments
// are not checked. y may be x, and dx may be dy or y.

#ifndef PLAIT_CPU_SOFTMAX_H_
#define PLAIT_CPU_SOFTMAX_H_

#include <cstdint>

namespace plait::cpu {

// Arrays (outer, n, inner); a slice is the n elements of one (outer, inner).
// REQUIRES: n > 0, temperature != 0.
struct SoftmaxSlices {
  int64_t outer = 1, n = 1, inner = 1;
  double temperature = 1;  // divides x; below zero for softmin
  bool log = false;
};

// y = exp(x / temperature) / sum(exp(x / temperature)) for each slice, or its
// logarithm. The largest of a slice is taken off first, so exp cannot overflow. A slice
// with a NaN becomes NaN.
template <typename T>
void SoftmaxForward(const SoftmaxSlices& s, const T* x, T* y);

// dx = y (dy - sum(y dy)) / temperature; of the logarithm,
// dx = (dy - exp(y) sum(dy)) / temperature.
template <typename T>
void SoftmaxBackward(const SoftmaxSlices& s, const T* y, const T* dy, T* dx);

}  // namespace plait::cpu

#endif  // PLAIT_CPU_SOFTMAX_H_
