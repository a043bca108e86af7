// The passes of normalisation, as each instruction set implements them (norm.cc).

#ifndef PLAIT_CPU_NORM_PASSES_H_
#define PLAIT_CPU_NORM_PASSES_H_

#include "cpu/norm.h"

namespace plait::cpu::kernel {

// gamma and beta of a group; nullptr stands for 1 and 0.
template <typename T>
struct Affine {
  const T* gamma;
  const T* beta;
  int64_t count;
  T Gamma(int64_t group) const {
    return gamma != nullptr ? gamma[group % count] : T(1);
  }
  T Beta(int64_t group) const { return beta != nullptr ? beta[group % count] : T(0); }
};

// The passes over groups or rows [begin, end), of one target.
template <typename T>
struct NormPasses {
  void (*forward)(const NormGroups& n, int64_t begin, int64_t end, double eps,
                  const T* x, const Affine<T>& affine, T* mean, T* var, T* y);
  void (*apply)(const NormGroups& n, int64_t begin, int64_t end, const T* x,
                const Affine<T>& affine, const T* mean, const T* inverse, T* y);
  void (*backward)(const NormGroups& n, int64_t begin, int64_t end, const T* dy,
                   const T* x, const Affine<T>& affine, const T* mean, const T* inverse,
                   T* dx, double* sums);
  void (*rows)(int64_t begin, int64_t end, int64_t n, double eps, const T* x,
               const T* gamma, const T* beta, T* mean, T* inverse, T* y);
  void (*rows_backward)(int64_t begin, int64_t end, int64_t n, const T* dy, const T* x,
                        const T* gamma, const T* mean, const T* inverse, T* dx,
                        T* sums);
};

}  // namespace plait::cpu::kernel

#endif  // PLAIT_CPU_NORM_PASSES_H_
