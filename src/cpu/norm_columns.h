// Normalisation where runs have one element: groups lie side by side in vectors.
//
// Included once for each target, after hwy/foreach_target.h.

#if defined(PLAIT_CPU_NORM_COLUMNS_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PLAIT_CPU_NORM_COLUMNS_H_
#undef PLAIT_CPU_NORM_COLUMNS_H_
#else
#define PLAIT_CPU_NORM_COLUMNS_H_
#endif

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "cpu/norm_parts.h"
#include "cpu/norm_passes.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace plait::cpu::kernel {
namespace HWY_NAMESPACE {
namespace norm {

// Groups side by side in the lanes of a vector (batch normalisation of a matrix).
constexpr int64_t kRowsTogether = 1024;

// Calls f(vector number modulo 2, offset) for rows [begin, end) of the column at x + g.
template <typename F>
HWY_INLINE void ForEachRow(const NormGroups& n, int64_t g, int64_t begin, int64_t end,
                           F&& f) {
  int64_t r = begin;
  for (; r + 2 <= end; r += 2) {
    f(0, r * n.stride + g);
    f(1, (r + 1) * n.stride + g);
  }
  if (r < end) f(0, r * n.stride + g);
}

template <typename T>
struct Columns {
  HWY_ALIGN T value[kLanes<T>] = {};
  HWY_INLINE hn::Vec<Tag<T>> Get() const { return hn::Load(Tag<T>(), value); }
  HWY_INLINE void Set(hn::Vec<Tag<T>> v) { hn::Store(v, Tag<T>(), value); }
};

template <typename T>
void ApplyColumns(const NormGroups& n, int64_t g, int64_t lanes, const T* x,
                  const Columns<T>& mean, const Columns<T>& scale,
                  const Columns<T>& shift, T* y) {
  const auto m = mean.Get(), a = scale.Get(), b = shift.Get();
  ForEachRow(n, g, 0, n.runs, [&](int, int64_t i) HWY_ATTR {
    Store(hn::MulAdd(hn::Sub(Load(x + i, lanes), m), a, b), y + i, lanes);
  });
}

template <typename T>
void ForwardColumns(const NormGroups& n, int64_t begin, int64_t end, double eps,
                    const T* x, const Affine<T>& affine, T* mean, T* var, T* y) {
  const Tag<T> d;
  for (int64_t g = begin; g < end; g += kLanes<T>) {
    const int64_t lanes = std::min(kLanes<T>, end - g);
    Moments moments[kLanes<T>];
    Columns<T> sum, squares, m, scale, shift;
    for (int64_t r = 0; r < n.runs; r += kRowsTogether) {
      const int64_t last = std::min(r + kRowsTogether, n.runs);
      const T count = static_cast<T>(last - r);
      auto s0 = hn::Zero(d), s1 = s0, q0 = s0, q1 = s0;
      ForEachRow(n, g, r, last, [&](int k, int64_t i) HWY_ATTR {
        (k == 0 ? s0 : s1) = hn::Add(k == 0 ? s0 : s1, Load(x + i, lanes));
      });
      const auto center = hn::Div(hn::Add(s0, s1), hn::Set(d, count));
      ForEachRow(n, g, r, last, [&](int k, int64_t i) HWY_ATTR {
        const auto v = hn::Sub(Load(x + i, lanes), center);
        (k == 0 ? q0 : q1) = hn::MulAdd(v, v, k == 0 ? q0 : q1);
      });
      sum.Set(center);
      squares.Set(hn::Add(q0, q1));
      for (int64_t l = 0; l < lanes; ++l) {
        moments[l].Add(static_cast<double>(count), static_cast<double>(sum.value[l]),
                       static_cast<double>(squares.value[l]));
      }
    }
    for (int64_t l = 0; l < lanes; ++l) {
      const double variance = std::max(moments[l].squares / moments[l].n, 0.0);
      m.value[l] = mean[g + l] = static_cast<T>(moments[l].mean);
      var[g + l] = static_cast<T>(variance);
      const double inverse = 1 / std::sqrt(variance + eps);
      scale.value[l] =
          static_cast<T>(inverse * static_cast<double>(affine.Gamma(g + l)));
      shift.value[l] = affine.Beta(g + l);
    }
    ApplyColumns(n, g, lanes, x, m, scale, shift, y);
  }
}

template <typename T>
void BackwardColumns(const NormGroups& n, int64_t begin, int64_t end, const T* dy,
                     const T* x, const Affine<T>& affine, const T* mean,
                     const T* inverse, T* dx, double* sums) {
  const Tag<T> d;
  const double count = static_cast<double>(n.runs);
  for (int64_t g = begin; g < end; g += kLanes<T>) {
    const int64_t lanes = std::min(kLanes<T>, end - g);
    const auto m = Load(mean + g, lanes);
    std::fill(sums + 2 * g, sums + 2 * (g + lanes), 0.0);
    for (int64_t r = 0; r < n.runs; r += kRowsTogether) {
      auto s0 = hn::Zero(d), s1 = s0, p0 = s0, p1 = s0;
      ForEachRow(n, g, r, std::min(r + kRowsTogether, n.runs),
                 [&](int k, int64_t i) HWY_ATTR {
                   const auto v = Load(dy + i, lanes),
                              centred = hn::Sub(Load(x + i, lanes), m);
                   (k == 0 ? s0 : s1) = hn::Add(k == 0 ? s0 : s1, v);
                   (k == 0 ? p0 : p1) = hn::MulAdd(v, centred, k == 0 ? p0 : p1);
                 });
      Columns<T> s, p;
      s.Set(hn::Add(s0, s1));
      p.Set(hn::Add(p0, p1));
      for (int64_t l = 0; l < lanes; ++l) {
        sums[2 * (g + l)] += static_cast<double>(s.value[l]);
        sums[2 * (g + l) + 1] +=
            static_cast<double>(p.value[l]) * static_cast<double>(inverse[g + l]);
      }
    }
    Columns<T> scale, slope, shift;
    for (int64_t l = 0; l < lanes; ++l) {
      const double r = static_cast<double>(inverse[g + l]);
      const double a = r * static_cast<double>(affine.Gamma(g + l));
      scale.value[l] = static_cast<T>(a);
      slope.value[l] = static_cast<T>(-a * r * sums[2 * (g + l) + 1] / count);
      shift.value[l] = static_cast<T>(-a * sums[2 * (g + l)] / count);
    }
    const auto a = scale.Get(), b = slope.Get(), c = shift.Get();
    ForEachRow(n, g, 0, n.runs, [&](int, int64_t i) HWY_ATTR {
      const auto centred = hn::Sub(Load(x + i, lanes), m);
      Store(hn::MulAdd(Load(dy + i, lanes), a, hn::MulAdd(centred, b, c)), dx + i,
            lanes);
    });
  }
}

}  // namespace norm
}  // namespace HWY_NAMESPACE
}  // namespace plait::cpu::kernel
HWY_AFTER_NAMESPACE();

#endif  // PLAIT_CPU_NORM_COLUMNS_H_
