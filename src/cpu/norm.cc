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
#include "cpu/partial.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace plait::cpu::kernel {
namespace HWY_NAMESPACE {
namespace norm {

namespace hn = hwy::HWY_NAMESPACE;
template <typename T>
using Tag = hn::ScalableTag<T>;
template <typename T>
constexpr int64_t kLanes = HWY_LANES(T);

// Elements of a block: added up in T, and swept twice while they are in L1.
constexpr int64_t kBlock = 4096;

// Calls f(offset, runs, length) for blocks of at most kBlock elements of a group (or
// one run, when that is longer than half a block).
template <typename F>
HWY_INLINE void ForEachBlock(const NormGroups& n, int64_t group, F&& f) {
  if (n.length > kBlock / 2) {
    for (int64_t r = 0; r < n.runs; ++r) {
      const int64_t pieces = (n.length + kBlock - 1) / kBlock;
      for (int64_t i = 0; i < pieces; ++i) {
        const int64_t begin = n.length * i / pieces, end = n.length * (i + 1) / pieces;
        f(r * n.stride + group * n.length + begin, int64_t{1}, end - begin);
      }
    }
    return;
  }
  const int64_t together = kBlock / n.length;
  for (int64_t r = 0; r < n.runs; r += together) {
    f(r * n.stride + group * n.length, std::min(together, n.runs - r), n.length);
  }
}

// Calls f(vector number modulo 4, offset, lanes) for all vectors of some runs.
template <typename T, typename F>
HWY_INLINE void ForEachVector(int64_t runs, int64_t stride, int64_t length, F&& f) {
  constexpr int64_t kL = kLanes<T>;
  for (int64_t r = 0; r < runs; ++r) {
    int64_t i = r * stride;
    const int64_t end = i + length;
    for (; i + 4 * kL <= end; i += 4 * kL) {
      f(0, i, kL);
      f(1, i + kL, kL);
      f(2, i + 2 * kL, kL);
      f(3, i + 3 * kL, kL);
    }
    for (; i + kL <= end; i += kL) f(0, i, kL);
    if (i < end) f(1, i, end - i);
  }
}

template <typename T>
HWY_INLINE hn::Vec<Tag<T>> Load(const T* p, int64_t lanes) {
  const Tag<T> d;
  return lanes == kLanes<T> ? hn::LoadU(d, p) : LoadFirst(d, p, lanes);
}
template <typename T, class V>
HWY_INLINE void Store(V v, T* p, int64_t lanes) {
  const Tag<T> d;
  if (lanes == kLanes<T>) {
    hn::StoreU(v, d, p);
  } else {
    StoreFirst(v, d, p, lanes);
  }
}

// Four sums side by side, so that additions need not wait for each other.
template <typename T>
struct Sums {
  using V = hn::Vec<Tag<T>>;
  V s0, s1, s2, s3;
  HWY_INLINE Sums() { s0 = s1 = s2 = s3 = hn::Zero(Tag<T>()); }
  HWY_INLINE V& operator[](int i) {
    return i == 0 ? s0 : i == 1 ? s1 : i == 2 ? s2 : s3;
  }
  HWY_INLINE double Total() const {
    const V s = hn::Add(hn::Add(s0, s1), hn::Add(s2, s3));
    return static_cast<double>(hn::GetLane(hn::SumOfLanes(Tag<T>(), s)));
  }
};

// Count, mean and sum of squared differences of a sample, and how two become one (Chan,
// Golub and LeVeque, 1979).
struct Moments {
  double n = 0, mean = 0, squares = 0;

  void Add(double more, double other_mean, double other_squares) {
    const double total = n + more, delta = other_mean - mean;
    mean += delta * more / total;
    squares += other_squares + delta * delta * n * more / total;
    n = total;
  }
};

template <typename T>
HWY_INLINE void AddBlock(Moments& m, const T* x, int64_t runs, int64_t stride,
                         int64_t length) {
  const Tag<T> d;
  Sums<T> sum, squares;
  ForEachVector<T>(runs, stride, length, [&](int k, int64_t i, int64_t lanes) HWY_ATTR {
    sum[k] = hn::Add(sum[k], Load(x + i, lanes));
  });
  const double count = static_cast<double>(runs * length);
  const T mean = static_cast<T>(sum.Total() / count);
  const auto center = hn::Set(d, mean);
  ForEachVector<T>(runs, stride, length, [&](int k, int64_t i, int64_t lanes) HWY_ATTR {
    auto v = hn::Sub(Load(x + i, lanes), center);
    if (lanes < kLanes<T>) {
      v = hn::IfThenElseZero(hn::FirstN(d, static_cast<size_t>(lanes)), v);
    }
    squares[k] = hn::MulAdd(v, v, squares[k]);
  });
  // The mean was rounded; what that adds to the squares is taken off.
  const double off = sum.Total() / count - static_cast<double>(mean);
  m.Add(count, sum.Total() / count, squares.Total() - count * off * off);
}

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

// ---------------------------------------------------------------- runs of one element

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

// ---------------------------------------------------------------- groups

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
