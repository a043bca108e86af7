// Pooling of float planes (one channel of one sample, rows of contiguous elements).

#ifndef PLAIT_CPU_POOL_H_
#define PLAIT_CPU_POOL_H_

#include <cstdint>
#include <vector>

namespace plait::cpu {

// Windows over a plane: kernel, stride and padding along rows (h) and columns (w).
struct PoolPlanes {
  int64_t planes = 0;
  int64_t h = 0, w = 0, out_h = 0, out_w = 0;
  int64_t kernel_h = 1, kernel_w = 1, stride_h = 1, stride_w = 1, pad_h = 0, pad_w = 0;
};

// The largest element of each window; NaN counts as largest. A window without elements
// gives the lowest float. Uses ComputeThreads() threads, one plane on each at a time.
void MaxPool(const PoolPlanes& p, const float* x, float* y);
// dx = dy added up where the first largest element of its window is.
void MaxPoolBackward(const PoolPlanes& p, const float* dy, const float* x, float* dx);
// Sums of windows, divided by their number of elements where `average`; with
// include_pad the padding inside x's padded bounds counts too.
void SumPool(const PoolPlanes& p, bool average, bool include_pad, const float* x,
             float* y);
void SumPoolBackward(const PoolPlanes& p, bool average, bool include_pad,
                     const float* dy, float* dx);
// The factor of each window: 1, or 1 / its number of elements.
std::vector<float> PoolFactors(const PoolPlanes& p, bool average, bool include_pad);

}  // namespace plait::cpu

#endif  // PLAIT_CPU_POOL_H_
