// Normalisation: y = gamma (x - mean) / sqrt(var + eps) + beta, forward and backward.
//
// T: float or double. Thread safety: any thread; ComputeThreads() threads are used
// above a size, and the bits of the results do not depend on their number. Sums are
// taken in T over a few thousand elements, and these in double; the variance from
// differences to the mean of such a block, so a large mean does no harm. Arguments are
// not checked.

#ifndef PLAIT_CPU_NORM_H_
#define PLAIT_CPU_NORM_H_

#include <cstdint>

namespace plait::cpu {

// Elements that share a mean: a group. Run r of group g is contiguous, from
// r * stride + g * length. Batch normalisation: a group is a channel, a run is its
// plane in one sample. Instance and group normalisation: one run a group. gamma and
// beta have `affine` elements; equal part k of group g uses the one at (g * parts + k)
// % affine. REQUIRES: runs * length > 0, affine > 0, runs = 1 or parts = 1.
struct NormGroups {
  int64_t groups = 0, runs = 1, stride = 0, length = 0, affine = 1, parts = 1;
};

// mean and var (biased) have an element a group. gamma, beta: nullptr means 1 and 0.
template <typename T>
void NormForward(const NormGroups& n, double eps, const T* x, const T* gamma,
                 const T* beta, T* mean, T* var, T* y);
// The same with means and inverse = 1 / sqrt(var + eps) that are given.
template <typename T>
void NormApply(const NormGroups& n, const T* x, const T* gamma, const T* beta,
               const T* mean, const T* inverse, T* y);
// The gradients of NormForward by x, gamma and beta. dgamma and dbeta (affine elements)
// are computed whatever gamma is.
template <typename T>
void NormBackward(const NormGroups& n, const T* dy, const T* x, const T* gamma,
                  const T* mean, const T* inverse, T* dx, T* dgamma, T* dbeta);

// Layer normalisation: each of `rows` rows of n elements has its mean; gamma and beta
// run along it (n elements; nullptr as above). inverse = 1 / sqrt(var + eps). REQUIRES:
// n > 0.
template <typename T>
void LayerNormForward(int64_t rows, int64_t n, double eps, const T* x, const T* gamma,
                      const T* beta, T* mean, T* inverse, T* y);
template <typename T>
void LayerNormBackward(int64_t rows, int64_t n, const T* dy, const T* x, const T* gamma,
                       const T* mean, const T* inverse, T* dx, T* dgamma, T* dbeta);

}  // namespace plait::cpu

#endif  // PLAIT_CPU_NORM_H_
