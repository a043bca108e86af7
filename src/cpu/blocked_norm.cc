// Batch normalisation of blocked arrays: a vector is a pixel of several channels.

#include <algorithm>
#include <cmath>
#include <type_traits>
#include <vector>

#include "base/parallel.h"
#include "cpu/blocked.h"

#ifndef PLAIT_CPU_BLOCKED_NORM_KERNELS
#define PLAIT_CPU_BLOCKED_NORM_KERNELS
namespace plait::cpu {
// Over columns [begin, end), for one size of blocks.
template <typename T>
struct NormKernels {
  void (*forward)(const BlockedArray& a, int64_t begin, int64_t end, double eps,
                  const T* x, const float* gamma, const float* beta, bool relu,
                  float* mean, float* var, T* y);
  void (*apply)(const BlockedArray& a, int64_t begin, int64_t end, const T* x,
                const float* gamma, const float* beta, const float* mean,
                const float* inverse, bool relu, T* y);
  void (*backward)(const BlockedArray& a, int64_t begin, int64_t end, const T* dy,
                   const T* y, const T* x, const float* gamma, const float* mean,
                   const float* inverse, T* dx, float* dgamma, float* dbeta);
  int64_t (*columns)(const BlockedArray& a);
};
}  // namespace plait::cpu
#endif

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/blocked_norm.cc"
#include "cpu/simd/targets.h"
#include "hwy/foreach_target.h"
//
#include "cpu/bfloat16_vectors.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace plait::cpu::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
// Vectors of at most a block.
template <int kBlock>
using Tag = hn::CappedTag<float, kBlock>;
constexpr int64_t kMostLanes = 16;
// Pixels that are added up in float.
constexpr int64_t kChunk = 512;

// The lanes of one vector of channels, through all samples.
template <int kBlock>
struct Column {
  using D = Tag<kBlock>;

  Column(const BlockedArray& array, int64_t number)
      : a(array), lanes(static_cast<int64_t>(hn::Lanes(D()))) {
    const int64_t vectors = a.block / lanes;
    first_channel = number * lanes;
    offset = number / vectors * a.size * a.block + number % vectors * lanes;
    stride = a.blocks() * a.size * a.block;
    used = std::clamp<int64_t>(a.channels - first_channel, 0, lanes);
  }
  // Calls f(offset of the first pixel, pixels) for all chunks.
  template <typename F>
  HWY_INLINE void ForEachChunk(F&& f) const {
    for (int64_t n = 0; n < a.batch; ++n) {
      for (int64_t i = 0; i < a.size; i += kChunk)
        f(n * stride + offset + i * a.block, std::min(kChunk, a.size - i));
    }
  }
  double count() const { return static_cast<double>(a.batch * a.size); }

  const BlockedArray& a;
  const int64_t lanes;
  int64_t first_channel, offset, stride, used;
};

template <class D>
struct Lanes {
  using V = hn::Vec<D>;
  HWY_ALIGN float value[kMostLanes] = {};
  HWY_INLINE V Get() const { return hn::Load(D(), value); }
  HWY_INLINE void Set(V v) { hn::Store(v, D(), value); }
};

// Two sums of a chunk at a time, added up in double.
struct TwoSums {
  double first[kMostLanes] = {}, second[kMostLanes] = {};
  template <class D>
  HWY_INLINE void Add(D, hn::Vec<D> a, hn::Vec<D> b) {
    const int64_t lanes = static_cast<int64_t>(hn::Lanes(D()));
    Lanes<D> x, y;
    x.Set(a);
    y.Set(b);
    for (int64_t l = 0; l < lanes; ++l) {
      first[l] += static_cast<double>(x.value[l]);
      second[l] += static_cast<double>(y.value[l]);
    }
  }
};

// Calls f(k, i) for pixels from `at` on, k alternating between 0 and 1.
template <typename F>
HWY_INLINE void ForEachPixel(int64_t at, int64_t pixels, int64_t step, F&& f) {
  int64_t i = 0;
  for (; i + 2 <= pixels; i += 2) {
    f(0, at + i * step);
    f(1, at + (i + 1) * step);
  }
  if (i < pixels) f(0, at + i * step);
}

// Means and variances. Differences to a number near the mean are added up.
template <int kBlock, typename T>
void Moments(const Column<kBlock>& c, const T* x, float* mean, float* var) {
  using D = Tag<kBlock>;
  using V = hn::Vec<D>;
  const D d;
  const int64_t step = c.a.block, few = std::min<int64_t>(c.a.size, 64);
  V sum = hn::Zero(d);
  ForEachPixel(c.offset, few, step,
               [&](int, int64_t i) HWY_ATTR { sum = hn::Add(sum, Read(d, x + i)); });
  Lanes<D> near;
  near.Set(hn::Mul(sum, hn::Set(d, 1.0f / static_cast<float>(few))));
  const V origin = near.Get();
  TwoSums total;
  c.ForEachChunk([&](int64_t at, int64_t pixels) HWY_ATTR {
    V s0 = hn::Zero(d), s1 = s0, q0 = s0, q1 = s0;
    ForEachPixel(at, pixels, step, [&](int k, int64_t i) HWY_ATTR {
      const V v = hn::Sub(Read(d, x + i), origin);
      (k == 0 ? s0 : s1) = hn::Add(v, k == 0 ? s0 : s1);
      (k == 0 ? q0 : q1) = hn::MulAdd(v, v, k == 0 ? q0 : q1);
    });
    total.Add(d, hn::Add(s0, s1), hn::Add(q0, q1));
  });
  for (int64_t l = 0; l < c.used; ++l) {
    const double off = total.first[l] / c.count();
    mean[l] = static_cast<float>(static_cast<double>(near.value[l]) + off);
    var[l] = static_cast<float>(std::max(total.second[l] / c.count() - off * off, 0.0));
  }
}

// y = (x - mean) * scale + shift, rectified or not.
template <int kBlock, typename T>
void ApplyColumn(const Column<kBlock>& c, const T* x, const Lanes<Tag<kBlock>>& mean,
                 const Lanes<Tag<kBlock>>& scale, const Lanes<Tag<kBlock>>& shift,
                 bool relu, T* y) {
  using D = Tag<kBlock>;
  using V = hn::Vec<D>;
  const D d;
  const V m = mean.Get(), a = scale.Get(), b = shift.Get(), zero = hn::Zero(d);
  const int64_t step = c.a.block;
  c.ForEachChunk([&](int64_t at, int64_t pixels) HWY_ATTR {
    if (relu) {
      ForEachPixel(at, pixels, step, [&](int, int64_t i) HWY_ATTR {
        const V v = hn::MulAdd(hn::Sub(Read(d, x + i), m), a, b);
        Write(hn::IfThenZeroElse(hn::Lt(v, zero), v), d, y + i);
      });
    } else {
      ForEachPixel(at, pixels, step, [&](int, int64_t i) HWY_ATTR {
        Write(hn::MulAdd(hn::Sub(Read(d, x + i), m), a, b), d, y + i);
      });
    }
  });
}

template <int kBlock, typename T>
void Forward(const BlockedArray& a, int64_t begin, int64_t end, double eps, const T* x,
             const float* gamma, const float* beta, bool relu, float* mean, float* var,
             T* y) {
  for (int64_t number = begin; number < end; ++number) {
    const Column<kBlock> c(a, number);
    const int64_t ch = c.first_channel;
    Lanes<Tag<kBlock>> m, scale, shift;
    if (c.used > 0) Moments<kBlock>(c, x, mean + ch, var + ch);
    for (int64_t l = 0; l < c.used; ++l) {
      const double inverse = 1 / std::sqrt(static_cast<double>(var[ch + l]) + eps);
      m.value[l] = mean[ch + l];
      scale.value[l] = static_cast<float>(inverse) * (gamma ? gamma[ch + l] : 1.0f);
      shift.value[l] = beta[ch + l];
    }
    ApplyColumn<kBlock>(c, x, m, scale, shift, relu, y);
  }
}

template <int kBlock, typename T>
void Apply(const BlockedArray& a, int64_t begin, int64_t end, const T* x,
           const float* gamma, const float* beta, const float* mean,
           const float* inverse, bool relu, T* y) {
  for (int64_t number = begin; number < end; ++number) {
    const Column<kBlock> c(a, number);
    const int64_t ch = c.first_channel;
    Lanes<Tag<kBlock>> m, scale, shift;
    for (int64_t l = 0; l < c.used; ++l) {
      m.value[l] = mean[ch + l];
      scale.value[l] = inverse[ch + l] * (gamma ? gamma[ch + l] : 1.0f);
      shift.value[l] = beta[ch + l];
    }
    ApplyColumn<kBlock>(c, x, m, scale, shift, relu, y);
  }
}

// dy where y, which was rectified, is positive, or all of it. A NaN of y stays.
template <bool kMasked, class D, typename T>
HWY_INLINE hn::Vec<D> Passing(D d, const T* dy, const T* y, int64_t i) {
  const auto v = Read(d, dy + i);
  if constexpr (!kMasked) return v;
  const auto sign = Read(d, y + i);
  return hn::IfThenElse(hn::Gt(sign, hn::Zero(d)), v, sign);
}

// dx = r (gamma dy - mean(gamma dy) - hat mean(gamma dy hat)); r: the inverse,
// hat = (x - mean) r.
template <int kBlock, bool kMasked, typename T>
void BackwardColumn(const Column<kBlock>& c, const T* dy, const T* y, const T* x,
                    const float* gamma, const float* mean, const float* inverse, T* dx,
                    float* dgamma, float* dbeta) {
  using D = Tag<kBlock>;
  using V = hn::Vec<D>;
  const D d;
  const int64_t step = c.a.block, ch = c.first_channel;
  Lanes<D> means;
  for (int64_t l = 0; l < c.used; ++l) means.value[l] = mean[ch + l];
  const V m = means.Get();
  TwoSums total;
  c.ForEachChunk([&](int64_t at, int64_t pixels) HWY_ATTR {
    V s0 = hn::Zero(d), s1 = s0, p0 = s0, p1 = s0;
    ForEachPixel(at, pixels, step, [&](int k, int64_t i) HWY_ATTR {
      const V v = Passing<kMasked>(d, dy, y, i);
      const V centred = hn::Sub(Read(d, x + i), m);
      (k == 0 ? s0 : s1) = hn::Add(v, k == 0 ? s0 : s1);
      (k == 0 ? p0 : p1) = hn::MulAdd(v, centred, k == 0 ? p0 : p1);
    });
    total.Add(d, hn::Add(s0, s1), hn::Add(p0, p1));
  });
  Lanes<D> scale, slope, shift;
  for (int64_t l = 0; l < c.used; ++l) {
    const double r = static_cast<double>(inverse[ch + l]);
    const double g = r * (gamma ? static_cast<double>(gamma[ch + l]) : 1.0);
    const double hats = total.second[l] * r;  // of dy hat
    dbeta[ch + l] = static_cast<float>(total.first[l]);
    dgamma[ch + l] = static_cast<float>(hats);
    scale.value[l] = static_cast<float>(g);
    slope.value[l] = static_cast<float>(-g * r * hats / c.count());
    shift.value[l] = static_cast<float>(-g * total.first[l] / c.count());
  }
  const V a = scale.Get(), b = slope.Get(), e = shift.Get();
  c.ForEachChunk([&](int64_t at, int64_t pixels) HWY_ATTR {
    ForEachPixel(at, pixels, step, [&](int, int64_t i) HWY_ATTR {
      const V centred = hn::Sub(Read(d, x + i), m);
      Write(hn::MulAdd(Passing<kMasked>(d, dy, y, i), a, hn::MulAdd(centred, b, e)), d,
            dx + i);
    });
  });
}

template <int kBlock, typename T>
void Backward(const BlockedArray& a, int64_t begin, int64_t end, const T* dy,
              const T* y, const T* x, const float* gamma, const float* mean,
              const float* inverse, T* dx, float* dgamma, float* dbeta) {
  for (int64_t number = begin; number < end; ++number) {
    const Column<kBlock> c(a, number);
    (y != nullptr ? BackwardColumn<kBlock, true, T>
                  : BackwardColumn<kBlock, false, T>)(c, dy, y, x, gamma, mean, inverse,
                                                      dx, dgamma, dbeta);
  }
}

template <int kBlock>
int64_t Columns(const BlockedArray& a) {
  return a.blocks() * (kBlock / static_cast<int64_t>(hn::Lanes(Tag<kBlock>())));
}

template <typename T>
NormKernels<T> KernelsFor(int64_t block) {
  return block == 16
             ? NormKernels<T>{Forward<16, T>, Apply<16, T>, Backward<16, T>,
                              Columns<16>}
             : NormKernels<T>{Forward<8, T>, Apply<8, T>, Backward<8, T>, Columns<8>};
}
NormKernels<float> FloatKernels(int64_t block) {
  return KernelsFor<float>(block);
}
NormKernels<Bfloat16> HalfKernels(int64_t block) {
  return KernelsFor<Bfloat16>(block);
}
NormKernels<Float16> Float16Kernels(int64_t block) {
  return KernelsFor<Float16>(block);
}

}  // namespace
}  // namespace plait::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plait::cpu {
namespace {

HWY_EXPORT(FloatKernels);
HWY_EXPORT(HalfKernels);
HWY_EXPORT(Float16Kernels);
template <typename T>
NormKernels<T> KernelsOf(const BlockedArray& a) {
  if constexpr (std::is_same_v<T, float>) {
    return HWY_DYNAMIC_DISPATCH(FloatKernels)(a.block);
  } else if constexpr (std::is_same_v<T, Float16>) {
    return HWY_DYNAMIC_DISPATCH(Float16Kernels)(a.block);
  } else {
    return HWY_DYNAMIC_DISPATCH(HalfKernels)(a.block);
  }
}

// Columns that one thread takes at a time at least.
int64_t Grain(const BlockedArray& a) {
  return std::max<int64_t>(1, (1 << 12) / std::max<int64_t>(1, a.batch * a.size));
}
template <typename F>
void ForEachColumn(const BlockedArray& a, F&& f) {
  ParallelFor(KernelsOf<float>(a).columns(a), Grain(a), f);
}

}  // namespace

template <typename T>
void BlockedNormForward(const BlockedArray& a, double eps, const T* x,
                        const float* gamma, const float* beta, bool relu, float* mean,
                        float* var, T* y) {
  const auto run = KernelsOf<T>(a).forward;
  ForEachColumn(a, [&](int64_t begin, int64_t end) {
    run(a, begin, end, eps, x, gamma, beta, relu, mean, var, y);
  });
}
template <typename T>
void BlockedNormApply(const BlockedArray& a, const T* x, const float* gamma,
                      const float* beta, const float* mean, const float* inverse,
                      bool relu, T* y) {
  const auto run = KernelsOf<T>(a).apply;
  ForEachColumn(a, [&](int64_t begin, int64_t end) {
    run(a, begin, end, x, gamma, beta, mean, inverse, relu, y);
  });
}
template <typename T>
void BlockedNormBackward(const BlockedArray& a, const T* dy, const T* y, const T* x,
                         const float* gamma, const float* mean, const float* inverse,
                         T* dx, float* dgamma, float* dbeta) {
  const auto run = KernelsOf<T>(a).backward;
  ForEachColumn(a, [&](int64_t begin, int64_t end) {
    run(a, begin, end, dy, y, x, gamma, mean, inverse, dx, dgamma, dbeta);
  });
}

template void BlockedNormForward<float>(const BlockedArray&, double, const float*,
                                        const float*, const float*, bool, float*,
                                        float*, float*);
template void BlockedNormForward<Bfloat16>(const BlockedArray&, double, const Bfloat16*,
                                           const float*, const float*, bool, float*,
                                           float*, Bfloat16*);
template void BlockedNormApply<float>(const BlockedArray&, const float*, const float*,
                                      const float*, const float*, const float*, bool,
                                      float*);
template void BlockedNormApply<Bfloat16>(const BlockedArray&, const Bfloat16*,
                                         const float*, const float*, const float*,
                                         const float*, bool, Bfloat16*);
template void BlockedNormBackward<float>(const BlockedArray&, const float*,
                                         const float*, const float*, const float*,
                                         const float*, const float*, float*, float*,
                                         float*);
template void BlockedNormBackward<Bfloat16>(const BlockedArray&, const Bfloat16*,
                                            const Bfloat16*, const Bfloat16*,
                                            const float*, const float*, const float*,
                                            Bfloat16*, float*, float*);
template void BlockedNormForward<Float16>(const BlockedArray&, double, const Float16*,
                                          const float*, const float*, bool, float*,
                                          float*, Float16*);
template void BlockedNormApply<Float16>(const BlockedArray&, const Float16*,
                                        const float*, const float*, const float*,
                                        const float*, bool, Float16*);
template void BlockedNormBackward<Float16>(const BlockedArray&, const Float16*,
                                           const Float16*, const Float16*, const float*,
                                           const float*, const float*, Float16*, float*,
                                           float*);

}  // namespace plait::cpu
#endif  // HWY_ONCE
