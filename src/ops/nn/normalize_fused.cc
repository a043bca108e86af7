// The kernels of normalisation for float32 and float64: those of cpu/norm.h.

#include <algorithm>
#include <cmath>
#include <vector>

#include "cpu/norm.h"
#include "ops/nn/normalize.h"

namespace plait {
namespace {

bool ByRows(const Norm& norm) {
  return norm.stats_axes == 0b101;
}

cpu::NormGroups GroupsOf(const Norm& norm) {
  const Shape& s = norm.sizes;
  cpu::NormGroups n;
  n.groups = norm.Count(norm.stats_axes);
  n.affine = norm.Count(norm.affine_axes);
  if (norm.stats_axes == 0b10) {  // batch
    n.runs = s[0];
    n.length = s[2] * s[3];
    n.stride = s[1] * n.length;
  } else {
    n.length = s.size() / n.groups;
    if (norm.affine_axes == 0b110) n.parts = s[2];
  }
  return n;
}

template <typename F>
void VisitFused(DType dtype, F&& f) {
  if (dtype == DType::kFloat64) {
    f.template operator()<double>();
  } else {
    f.template operator()<float>();
  }
}

// In place: 1 / sqrt(var + eps) or sqrt(var + eps), from the other or from var.
template <typename A>
void Invert(A* third, int64_t n) {
  for (int64_t g = 0; g < n; ++g) third[g] = 1 / third[g];
}

}  // namespace

const char* FusedNormDeclines(const Norm& norm, DType x, DType gamma) {
  if (!HasRuns(norm)) return "no contiguous runs";
  if (norm.sizes.size() == 0) return "nothing to normalise";
  if (IsHalf(x)) {
    const bool batch = norm.stats_axes == 0b10 && norm.affine_axes == 0b10;
    return batch || ByRows(norm) ? nullptr : "groups of a half type";
  }
  return gamma != x ? "gamma of another dtype" : nullptr;
}

void FusedNormForward(const Norm& norm, const View& x, const View& gamma,
                      const View& beta, const View& y, const View& mean,
                      const View& third, void* variance) {
  if (IsHalf(x.dtype)) {
    return HalfNormForward(norm, x, gamma, beta, y, mean, third,
                           static_cast<float*>(variance));
  }
  VisitFused(x.dtype, [&]<typename T>() {
    const T* g = norm.fix_gamma ? nullptr : gamma.data<const T>();
    T* thirds = third.data<T>();
    if (ByRows(norm)) {
      const int64_t rows = norm.sizes[0];
      cpu::LayerNormForward<T>(rows, norm.sizes[1], norm.eps, x.data<const T>(), g,
                               beta.data<const T>(), mean.data<T>(), thirds,
                               y.data<T>());
      if (norm.third_is_std) Invert(thirds, rows);
      return;
    }
    const cpu::NormGroups n = GroupsOf(norm);
    T* var = variance != nullptr ? static_cast<T*>(variance) : thirds;
    cpu::NormForward<T>(n, norm.eps, x.data<const T>(), g, beta.data<const T>(),
                        mean.data<T>(), var, y.data<T>());
    for (int64_t i = 0; i < n.groups; ++i) {
      const double std = std::sqrt(static_cast<double>(var[i]) + norm.eps);
      thirds[i] = static_cast<T>(norm.third_is_std ? std : 1 / std);
    }
  });
}

// REQUIRES: the third output is the inverse, and the groups are channels.
void FusedNormApply(const Norm& norm, const View& x, const View& gamma,
                    const View& beta, const View& mean, const View& third,
                    const View& y) {
  if (IsHalf(x.dtype)) return HalfNormApply(norm, x, gamma, beta, mean, third, y);
  VisitFused(x.dtype, [&]<typename T>() {
    cpu::NormApply<T>(GroupsOf(norm), x.data<const T>(),
                      norm.fix_gamma ? nullptr : gamma.data<const T>(),
                      beta.data<const T>(), mean.data<const T>(), third.data<const T>(),
                      y.data<T>());
  });
}

void FusedNormBackward(const Norm& norm, const View& dy, const View& x,
                       const View& gamma, const View& mean, const View& third,
                       const View& dx, const View& dgamma, const View& dbeta) {
  if (IsHalf(x.dtype))
    return HalfNormBackward(norm, dy, x, gamma, mean, third, dx, dgamma, dbeta);
  VisitFused(x.dtype, [&]<typename T>() {
    const T* g = norm.fix_gamma ? nullptr : gamma.data<const T>();
    std::vector<T> inverse(third.data<const T>(), third.data<const T>() + third.size());
    if (norm.third_is_std) Invert(inverse.data(), third.size());
    if (ByRows(norm)) {
      cpu::LayerNormBackward<T>(norm.sizes[0], norm.sizes[1], dy.data<const T>(),
                                x.data<const T>(), g, mean.data<const T>(),
                                inverse.data(), dx.data<T>(), dgamma.data<T>(),
                                dbeta.data<T>());
    } else {
      cpu::NormBackward<T>(GroupsOf(norm), dy.data<const T>(), x.data<const T>(), g,
                           mean.data<const T>(), inverse.data(), dx.data<T>(),
                           dgamma.data<T>(), dbeta.data<T>());
    }
    if (norm.fix_gamma) std::fill_n(dgamma.data<T>(), dgamma.size(), T(0));
  });
}

}  // namespace plait
