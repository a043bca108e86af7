// Normalisation: y = gamma (x - mean) / sqrt(var + eps) + beta, for all of its family.
//
// Batch, layer, group and instance normalisation differ in the axes over which mean and
// variance are taken and those along which gamma and beta run. x is seen with four
// axes; a Norm says which are which. One backward operator serves the whole family.

#ifndef PLAIT_OPS_NN_NORMALIZE_H_
#define PLAIT_OPS_NN_NORMALIZE_H_

#include "graph/op.h"

namespace plait {

struct Norm {
  Shape sizes;                // of x, always four
  int stats_axes = 0;         // bit i: there is a mean for each index of axis i
  int affine_axes = 0;        // bit i: gamma and beta have an element for each index
  bool third_is_std = false;  // the third output is sqrt(var + eps), not its inverse
  bool fix_gamma = false;     // gamma counts as 1 and gets no gradient
  double eps = 1e-5;

  int64_t Count(int axes) const {
    int64_t n = 1;
    for (int i = 0; i < 4; ++i) n *= axes >> i & 1 ? sizes[i] : 1;
    return n;
  }
  // `sizes` with 1 along the axes that are not set.
  Shape Only(int axes) const {
    Shape s = sizes;
    for (int i = 0; i < 4; ++i) s[i] = axes >> i & 1 ? sizes[i] : 1;
    return s;
  }
};

// Means and third outputs have the dtype in which x adds up.
inline DType StatsDType(DType x) {
  return IsHalf(x) ? DType::kFloat32 : x;
}

// Calls f.operator()<A>() with the type of statistics.
template <typename F>
void VisitStats(DType dtype, F&& f) {
  if (dtype == DType::kFloat64) {
    f.template operator()<double>();
  } else {
    f.template operator()<float>();
  }
}

// The plain kernels. gamma and beta may have any float dtype. `variance`, of the dtype
// of mean, may be null.
void PlainNormStats(const Norm& norm, const View& x, const View& mean,
                    const View& third, void* variance = nullptr);
void PlainNormApply(const Norm& norm, const View& x, const View& gamma,
                    const View& beta, const View& mean, const View& third,
                    const View& y);

// The gradients: dx, then dgamma and dbeta.
void PlainNormDx(const Norm& norm, const View& dy, const View& x, const View& gamma,
                 const View& mean, const View& third, const View& dx);
void PlainNormDAffine(const Norm& norm, const View& dy, const View& x, const View& mean,
                      const View& third, const View& dgamma, const View& dbeta);

// The same where the elements that share a mean lie in contiguous runs, which is so but
// for layer normalisation of an axis that is not the last.
bool HasRuns(const Norm& norm);
void RunsNormStats(const Norm& norm, const View& x, const View& mean, const View& third,
                   void* variance = nullptr);
void RunsNormApply(const Norm& norm, const View& x, const View& gamma, const View& beta,
                   const View& mean, const View& third, const View& y);
void RunsNormBackward(const Norm& norm, const View& dy, const View& x,
                      const View& gamma, const View& mean, const View& third,
                      const View& dx, const View& dgamma, const View& dbeta);

// The same for float32 and float64 by vectors, each group in the cache from the first
// pass to the last. The first says why not, or nullptr. `variance` as above.
const char* FusedNormDeclines(const Norm& norm, DType x, DType gamma);
void FusedNormForward(const Norm& norm, const View& x, const View& gamma,
                      const View& beta, const View& y, const View& mean,
                      const View& third, void* variance = nullptr);
void FusedNormApply(const Norm& norm, const View& x, const View& gamma,
                    const View& beta, const View& mean, const View& third,
                    const View& y);
void FusedNormBackward(const Norm& norm, const View& dy, const View& x,
                       const View& gamma, const View& mean, const View& third,
                       const View& dx, const View& dgamma, const View& dbeta);

// The same for half types with the groups of batch and layer normalisation, which
// FusedNorm...() call; gamma and beta may have any float dtype.
void HalfNormForward(const Norm& norm, const View& x, const View& gamma,
                     const View& beta, const View& y, const View& mean,
                     const View& third, float* variance);
void HalfNormApply(const Norm& norm, const View& x, const View& gamma, const View& beta,
                   const View& mean, const View& third, const View& y);
void HalfNormBackward(const Norm& norm, const View& dy, const View& x,
                      const View& gamma, const View& mean, const View& third,
                      const View& dx, const View& dgamma, const View& dbeta);

// Applies the backward operator: dx, dgamma, dbeta.
Values NormBackward(const Norm& norm, const Value& dy, const Value& x,
                    const Value& gamma, const Value& mean, const Value& third);

}  // namespace plait

#endif  // PLAIT_OPS_NN_NORMALIZE_H_
