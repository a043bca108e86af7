// Normalisation: sums by vectors, each group in the cache from its first pass to its
// last.

#include "cpu/norm.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/parallel.h"
#include "cpu/norm_passes.h"
#include "cpu/scratch.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/norm.cc"
#include "cpu/simd/targets.h"
#include "hwy/foreach_target.h"
//
#include "cpu/norm_columns.h"
#include "cpu/norm_parts.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace plait::cpu::kernel {
namespace HWY_NAMESPACE {
namespace norm {

// y = (x - mean) * scale + shift.
template <typename T>
void ApplyGroup(const NormGroups& n, int64_t group, const T* x, T mean, T scale,
                T shift, T* y) {
  const Tag<T> d;
  const auto m = hn::Set(d, mean), a = hn::Set(d, scale), b = hn::Set(d, shift);
  x += group * n.length;
  y += group * n.length;
  ForEachVector<T>(
      n.runs, n.stride, n.length, [&](int, int64_t i, int64_t lanes) HWY_ATTR {
        Store(hn::MulAdd(hn::Sub(Load(x + i, lanes), m), a, b), y + i, lanes);
      });
}

// The parts of all groups as groups of their own.
inline NormGroups PartsOf(const NormGroups& n) {
  return {n.groups * n.parts, n.runs, n.stride, n.length / n.parts, n.affine, 1};
}

template <typename T>
void Forward(const NormGroups& n, int64_t begin, int64_t end, double eps, const T* x,
             const Affine<T>& affine, T* mean, T* var, T* y) {
  if (n.length == 1) {
    return ForwardColumns(n, begin, end, eps, x, affine, mean, var, y);
  }
  for (int64_t g = begin; g < end; ++g) {
    Moments m;
    ForEachBlock(n, g, [&](int64_t at, int64_t runs, int64_t length) {
      AddBlock(m, x + at, runs, n.stride, length);
    });
    const double variance = std::max(m.squares / m.n, 0.0);
    mean[g] = static_cast<T>(m.mean);
    var[g] = static_cast<T>(variance);
    const double inverse = 1 / std::sqrt(variance + eps);
    for (int64_t k = g * n.parts; k < (g + 1) * n.parts; ++k) {
      ApplyGroup(PartsOf(n), k, x, mean[g],
                 static_cast<T>(inverse * static_cast<double>(affine.Gamma(k))),
                 affine.Beta(k), y);
    }
  }
}

template <typename T>
void Apply(const NormGroups& n, int64_t begin, int64_t end, const T* x,
           const Affine<T>& affine, const T* mean, const T* inverse, T* y) {
  for (int64_t g = begin; n.length == 1 && g < end; g += kLanes<T>) {
    const int64_t lanes = std::min(kLanes<T>, end - g);
    Columns<T> m, scale, shift;
    for (int64_t l = 0; l < lanes; ++l) {
      m.value[l] = mean[g + l];
      scale.value[l] = inverse[g + l] * affine.Gamma(g + l);
      shift.value[l] = affine.Beta(g + l);
    }
    ApplyColumns(n, g, lanes, x, m, scale, shift, y);
  }
  for (int64_t g = begin; n.length > 1 && g < end; ++g) {
    for (int64_t k = g * n.parts; k < (g + 1) * n.parts; ++k) {
      ApplyGroup(PartsOf(n), k, x, mean[g], inverse[g] * affine.Gamma(k),
                 affine.Beta(k), y);
    }
  }
}

// The sums of dy and of dy (x - mean) over a group.
template <typename T>
void SumGroup(const NormGroups& n, int64_t group, const T* dy, const T* x, T mean,
              double* total, double* product) {
  const auto m = hn::Set(Tag<T>(), mean);
  ForEachBlock(n, group, [&](int64_t at, int64_t runs, int64_t length) HWY_ATTR {
    Sums<T> s, p;
    const T *dys = dy + at, *xs = x + at;
    ForEachVector<T>(runs, n.stride, length,
                     [&](int k, int64_t i, int64_t lanes) HWY_ATTR {
                       const auto v = Load(dys + i, lanes);  // zero past the end
                       s[k] = hn::Add(s[k], v);
                       p[k] = hn::MulAdd(v, hn::Sub(Load(xs + i, lanes), m), p[k]);
                     });
    *total += s.Total();
    *product += p.Total();
  });
}

// dx = dy * a + (x - mean) * b + c.
template <typename T>
void MixGroup(const NormGroups& n, int64_t group, const T* dy, const T* x, T mean, T a,
              T b, T c, T* dx) {
  const Tag<T> d;
  const auto m = hn::Set(d, mean), va = hn::Set(d, a), vb = hn::Set(d, b);
  const auto vc = hn::Set(d, c);
  dy += group * n.length;
  x += group * n.length;
  dx += group * n.length;
  ForEachVector<T>(
      n.runs, n.stride, n.length, [&](int, int64_t i, int64_t lanes) HWY_ATTR {
        const auto centred = hn::Sub(Load(x + i, lanes), m);
        Store(hn::MulAdd(Load(dy + i, lanes), va, hn::MulAdd(centred, vb, vc)), dx + i,
              lanes);
      });
}

// dx = r (gamma dy - mean(gamma dy) - hat mean(gamma dy hat)), where r is the inverse
// and hat = (x - mean) r. sums: of dy and of dy hat, for each part of each group.
template <typename T>
void Backward(const NormGroups& n, int64_t begin, int64_t end, const T* dy, const T* x,
              const Affine<T>& affine, const T* mean, const T* inverse, T* dx,
              double* sums) {
  if (n.length == 1) {
    return BackwardColumns(n, begin, end, dy, x, affine, mean, inverse, dx, sums);
  }
  const NormGroups parts = PartsOf(n);
  const double count = static_cast<double>(n.runs * n.length);
  for (int64_t g = begin; g < end; ++g) {
    const double r = static_cast<double>(inverse[g]);
    double total = 0, product = 0;
    for (int64_t k = g * n.parts; k < (g + 1) * n.parts; ++k) {
      double one = 0, other = 0;
      SumGroup(parts, k, dy, x, mean[g], &one, &other);
      sums[2 * k] = one;
      sums[2 * k + 1] = other * r;
      total += one * static_cast<double>(affine.Gamma(k));
      product += other * r * static_cast<double>(affine.Gamma(k));
    }
    const T slope = static_cast<T>(-r * r * product / count);
    const T shift = static_cast<T>(-r * total / count);
    for (int64_t k = g * n.parts; k < (g + 1) * n.parts; ++k) {
      MixGroup(parts, k, dy, x, mean[g], inverse[g] * affine.Gamma(k), slope, shift,
               dx);
    }
  }
}

// A row of layer normalisation.
template <typename T>
void Rows(int64_t begin, int64_t end, int64_t n, double eps, const T* x, const T* gamma,
          const T* beta, T* mean, T* inverse, T* y) {
  const Tag<T> d;
  const NormGroups group{1, 1, 0, n, 1};
  const auto one = hn::Set(d, T(1)), zero = hn::Zero(d);
  for (int64_t g = begin; g < end; ++g) {
    const T* row = x + g * n;
    Moments moments;
    ForEachBlock(group, 0, [&](int64_t at, int64_t, int64_t length) {
      AddBlock(moments, row + at, 1, 0, length);
    });
    mean[g] = static_cast<T>(moments.mean);
    inverse[g] =
        static_cast<T>(1 / std::sqrt(std::max(moments.squares / moments.n, 0.0) + eps));
    const auto m = hn::Set(d, mean[g]), r = hn::Set(d, inverse[g]);
    T* out = y + g * n;
    ForEachVector<T>(1, 0, n, [&](int, int64_t i, int64_t lanes) HWY_ATTR {
      const auto hat = hn::Mul(hn::Sub(Load(row + i, lanes), m), r);
      const auto a = gamma != nullptr ? Load(gamma + i, lanes) : one;
      const auto b = beta != nullptr ? Load(beta + i, lanes) : zero;
      Store(hn::MulAdd(hat, a, b), out + i, lanes);
    });
  }
}

// The sums for dgamma and dbeta (n elements each) are added to `sums`.
template <typename T>
void RowsBackward(int64_t begin, int64_t end, int64_t n, const T* dy, const T* x,
                  const T* gamma, const T* mean, const T* inverse, T* dx, T* sums) {
  const Tag<T> d;
  const NormGroups group{1, 1, 0, n, 1};
  const auto one = hn::Set(d, T(1));
  const double count = static_cast<double>(n);
  for (int64_t g = begin; g < end; ++g) {
    const T *dys = dy + g * n, *xs = x + g * n;
    const auto m = hn::Set(d, mean[g]);
    double total = 0, product = 0;
    ForEachBlock(group, 0, [&](int64_t at, int64_t, int64_t length) HWY_ATTR {
      Sums<T> s, p;
      ForEachVector<T>(1, 0, length, [&](int k, int64_t i, int64_t lanes) HWY_ATTR {
        auto v = Load(dys + at + i, lanes);
        if (gamma != nullptr) v = hn::Mul(v, Load(gamma + at + i, lanes));
        s[k] = hn::Add(s[k], v);
        p[k] = hn::MulAdd(v, hn::Sub(Load(xs + at + i, lanes), m), p[k]);
      });
      total += s.Total();
      product += p.Total();
    });
    const double r = static_cast<double>(inverse[g]);
    const auto vr = hn::Set(d, inverse[g]);
    const auto b = hn::Set(d, static_cast<T>(-r * r * r * product / count));
    const auto c = hn::Set(d, static_cast<T>(-r * total / count));
    T *out = dx + g * n, *dgamma = sums, *dbeta = sums + n;
    ForEachVector<T>(1, 0, n, [&](int, int64_t i, int64_t lanes) HWY_ATTR {
      const auto v = Load(dys + i, lanes);
      const auto centred = hn::Sub(Load(xs + i, lanes), m);
      const auto a =
          gamma != nullptr ? hn::Mul(vr, Load(gamma + i, lanes)) : hn::Mul(vr, one);
      Store(hn::MulAdd(v, a, hn::MulAdd(centred, b, c)), out + i, lanes);
      Store(hn::MulAdd(v, hn::Mul(centred, vr), Load(dgamma + i, lanes)), dgamma + i,
            lanes);
      Store(hn::Add(v, Load(dbeta + i, lanes)), dbeta + i, lanes);
    });
  }
}

template <typename T>
NormPasses<T> All() {
  return {Forward<T>, Apply<T>, Backward<T>, Rows<T>, RowsBackward<T>};
}

}  // namespace norm

NormPasses<float> NormF32() {
  return norm::All<float>();
}
NormPasses<double> NormF64() {
  return norm::All<double>();
}

}  // namespace HWY_NAMESPACE
}  // namespace plait::cpu::kernel
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plait::cpu {
namespace kernel {

HWY_EXPORT(NormF32);
HWY_EXPORT(NormF64);
NormPasses<float> Norm(float) {
  return HWY_DYNAMIC_DISPATCH(NormF32)();
}
NormPasses<double> Norm(double) {
  return HWY_DYNAMIC_DISPATCH(NormF64)();
}

}  // namespace kernel

namespace {

int64_t Grain(int64_t elements) {
  return 1 + (1 << 14) / (1 + elements);
}

}  // namespace

template <typename T>
void NormForward(const NormGroups& n, double eps, const T* x, const T* gamma,
                 const T* beta, T* mean, T* var, T* y) {
  const auto pass = kernel::Norm(T()).forward;
  const kernel::Affine<T> affine{gamma, beta, n.affine};
  ParallelFor(n.groups, Grain(n.runs * n.length), [&](int64_t begin, int64_t end) {
    pass(n, begin, end, eps, x, affine, mean, var, y);
  });
}

template <typename T>
void NormApply(const NormGroups& n, const T* x, const T* gamma, const T* beta,
               const T* mean, const T* inverse, T* y) {
  const auto pass = kernel::Norm(T()).apply;
  const kernel::Affine<T> affine{gamma, beta, n.affine};
  ParallelFor(n.groups, Grain(n.runs * n.length), [&](int64_t begin, int64_t end) {
    pass(n, begin, end, x, affine, mean, inverse, y);
  });
}

template <typename T>
void NormBackward(const NormGroups& n, const T* dy, const T* x, const T* gamma,
                  const T* mean, const T* inverse, T* dx, T* dgamma, T* dbeta) {
  const auto pass = kernel::Norm(T()).backward;
  const kernel::Affine<T> affine{gamma, nullptr, n.affine};
  std::vector<double> sums(static_cast<size_t>(2 * n.groups * n.parts));
  ParallelFor(n.groups, Grain(n.runs * n.length), [&](int64_t begin, int64_t end) {
    pass(n, begin, end, dy, x, affine, mean, inverse, dx, sums.data());
  });
  for (int64_t j = 0; j < n.affine; ++j) {
    double total = 0, product = 0;
    for (int64_t g = j; g < n.groups * n.parts; g += n.affine) {
      total += sums[2 * g];
      product += sums[2 * g + 1];
    }
    dbeta[j] = static_cast<T>(total);
    dgamma[j] = static_cast<T>(product);
  }
}

template <typename T>
void LayerNormForward(int64_t rows, int64_t n, double eps, const T* x, const T* gamma,
                      const T* beta, T* mean, T* inverse, T* y) {
  const auto pass = kernel::Norm(T()).rows;
  ParallelFor(rows, Grain(n), [&](int64_t begin, int64_t end) {
    pass(begin, end, n, eps, x, gamma, beta, mean, inverse, y);
  });
}

template <typename T>
void LayerNormBackward(int64_t rows, int64_t n, const T* dy, const T* x, const T* gamma,
                       const T* mean, const T* inverse, T* dx, T* dgamma, T* dbeta) {
  const auto pass = kernel::Norm(T()).rows_backward;
  // The number of slices depends on sizes only, so the bits do not depend on threads.
  const int64_t slices = std::clamp<int64_t>(rows * n / (1 << 14), 1, 16);
  const Scratch scratch(Scratch::Bytes<T>(2 * n * slices));
  T* sums = scratch.As<T>();
  std::fill_n(sums, 2 * n * slices, T(0));
  ParallelFor(slices, 1, [&](int64_t begin, int64_t end) {
    for (int64_t s = begin; s < end; ++s) {
      pass(rows * s / slices, rows * (s + 1) / slices, n, dy, x, gamma, mean, inverse,
           dx, sums + s * 2 * n);
    }
  });
  for (int64_t i = 0; i < n; ++i) {
    double g = 0, b = 0;
    for (int64_t s = 0; s < slices; ++s) {
      g += static_cast<double>(sums[s * 2 * n + i]);
      b += static_cast<double>(sums[s * 2 * n + n + i]);
    }
    dgamma[i] = static_cast<T>(g);
    dbeta[i] = static_cast<T>(b);
  }
}

#define PLAIT_NORM(T)                                                                \
  template void NormForward<T>(const NormGroups&, double, const T*, const T*,        \
                               const T*, T*, T*, T*);                                \
  template void NormApply<T>(const NormGroups&, const T*, const T*, const T*,        \
                             const T*, const T*, T*);                                \
  template void NormBackward<T>(const NormGroups&, const T*, const T*, const T*,     \
                                const T*, const T*, T*, T*, T*);                     \
  template void LayerNormForward<T>(int64_t, int64_t, double, const T*, const T*,    \
                                    const T*, T*, T*, T*);                           \
  template void LayerNormBackward<T>(int64_t, int64_t, const T*, const T*, const T*, \
                                     const T*, const T*, T*, T*, T*);
PLAIT_NORM(float)
PLAIT_NORM(double)
#undef PLAIT_NORM

}  // namespace plait::cpu
#endif  // HWY_ONCE
