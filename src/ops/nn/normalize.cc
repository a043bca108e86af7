// The plain kernels of normalisation.

#include "ops/nn/normalize.h"

#include <array>
#include <cmath>
#include <vector>

#include "base/parallel.h"

namespace plait {
namespace {

using Quad = std::array<int64_t, 4>;

// Strides of an array that has only some of the axes of `norm`.
Quad Strides(const Norm& norm, int axes) {
  Quad s{};
  int64_t n = 1;
  for (int i = 3; i >= 0; --i) {
    if (!(axes >> i & 1)) continue;
    s[i] = n;
    n *= norm.sizes[i];
  }
  return s;
}

// Walks over the axes set in `axes`; the others stay at `at`.
template <typename F>
void ForEach(const Norm& norm, int axes, Quad at, F&& f) {
  Quad first = at, last;
  for (int i = 0; i < 4; ++i) {
    if (axes >> i & 1) first[i] = 0;
    last[i] = axes >> i & 1 ? norm.sizes[i] : at[i] + 1;
  }
  Quad p;
  for (p[0] = first[0]; p[0] < last[0]; ++p[0])
    for (p[1] = first[1]; p[1] < last[1]; ++p[1])
      for (p[2] = first[2]; p[2] < last[2]; ++p[2])
        for (p[3] = first[3]; p[3] < last[3]; ++p[3]) f(p);
}

// The position of element i of an array that has the axes of `axes`.
Quad Position(const Norm& norm, int axes, int64_t i) {
  Quad at{};
  for (int axis = 3; axis >= 0; --axis) {
    if (!(axes >> axis & 1)) continue;
    at[axis] = i % norm.sizes[axis];
    i /= norm.sizes[axis];
  }
  return at;
}

int64_t Dot(const Quad& a, const Quad& b) {
  return a[0] * b[0] + a[1] * b[1] + a[2] * b[2] + a[3] * b[3];
}

constexpr int kAllAxes = 15;

template <typename F>
void ForEachGroup(const Norm& norm, int axes, F&& f) {
  ParallelFor(norm.Count(axes), 1, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) f(i, Position(norm, axes, i));
  });
}

// A small array of any float dtype as numbers of type A.
template <typename A>
std::vector<A> Load(const View& v) {
  std::vector<A> result(static_cast<size_t>(v.size()));
  VisitFloat(v.dtype, [&]<typename T>() {
    for (int64_t i = 0; i < v.size(); ++i) {
      result[i] = static_cast<A>(static_cast<Accumulate<T>>(v.data<const T>()[i]));
    }
  });
  return result;
}

template <typename A>
A InverseOf(const Norm& norm, A third) {
  return norm.third_is_std ? 1 / third : third;
}

}  // namespace

// The variance is the mean square of x - mean, so that a large mean does no harm.
void PlainNormStats(const Norm& norm, const View& x, const View& mean,
                    const View& third, void* variance) {
  const int over = kAllAxes & ~norm.stats_axes;
  const double n = static_cast<double>(norm.Count(over));
  const Quad strides = Strides(norm, kAllAxes);
  VisitFloat(x.dtype, [&]<typename T>() {
    using A = Accumulate<T>;
    const T* src = x.data<const T>();
    ForEachGroup(norm, norm.stats_axes, [&](int64_t group, const Quad& at) {
      double total = 0, squares = 0;
      ForEach(norm, over, at, [&](const Quad& p) {
        total += static_cast<double>(static_cast<A>(src[Dot(p, strides)]));
      });
      const double m = n > 0 ? total / n : 0;
      ForEach(norm, over, at, [&](const Quad& p) {
        const double d = static_cast<double>(static_cast<A>(src[Dot(p, strides)])) - m;
        squares += d * d;
      });
      const double var = n > 0 ? squares / n : 0, std = std::sqrt(var + norm.eps);
      if (variance) static_cast<A*>(variance)[group] = static_cast<A>(var);
      mean.data<A>()[group] = static_cast<A>(m);
      third.data<A>()[group] = static_cast<A>(norm.third_is_std ? std : 1 / std);
    });
  });
}

void PlainNormApply(const Norm& norm, const View& x, const View& gamma,
                    const View& beta, const View& mean, const View& third,
                    const View& y) {
  const Quad strides = Strides(norm, kAllAxes);
  const Quad affine = Strides(norm, norm.affine_axes);
  VisitFloat(x.dtype, [&]<typename T>() {
    using A = Accumulate<T>;
    const std::vector<A> g = Load<A>(gamma), b = Load<A>(beta);
    const T* src = x.data<const T>();
    T* dst = y.data<T>();
    ForEachGroup(norm, norm.stats_axes, [&](int64_t group, const Quad& at) {
      const A m = mean.data<const A>()[group];
      const A r = InverseOf(norm, third.data<const A>()[group]);
      ForEach(norm, kAllAxes & ~norm.stats_axes, at, [&](const Quad& p) {
        const int64_t i = Dot(p, strides), j = Dot(p, affine);
        const A hat = (static_cast<A>(src[i]) - m) * r;
        dst[i] = static_cast<T>(norm.fix_gamma ? hat + b[j] : hat * g[j] + b[j]);
      });
    });
  });
}

// dx = r (g - mean(g) - hat mean(g hat)) with g = gamma dy.
void PlainNormDx(const Norm& norm, const View& dy, const View& x, const View& gamma,
                 const View& mean, const View& third, const View& dx) {
  const int over = kAllAxes & ~norm.stats_axes;
  const double n = static_cast<double>(norm.Count(over));
  const Quad strides = Strides(norm, kAllAxes);
  const Quad affine = Strides(norm, norm.affine_axes);
  VisitFloat(x.dtype, [&]<typename T>() {
    using A = Accumulate<T>;
    std::vector<A> gammas = Load<A>(gamma);
    if (norm.fix_gamma) gammas.assign(gammas.size(), A{1});
    const T *xs = x.data<const T>(), *dys = dy.data<const T>();
    ForEachGroup(norm, norm.stats_axes, [&](int64_t group, const Quad& at) {
      const A m = mean.data<const A>()[group];
      const A r = InverseOf(norm, third.data<const A>()[group]);
      double total = 0, product = 0;
      const auto each = [&](auto&& f) {
        ForEach(norm, over, at, [&](const Quad& p) {
          const int64_t i = Dot(p, strides);
          f(i, static_cast<A>(dys[i]) * gammas[Dot(p, affine)],
            (static_cast<A>(xs[i]) - m) * r);
        });
      };
      each([&](int64_t, A g, A hat) {
        total += g;
        product += static_cast<double>(g) * hat;
      });
      const A mean_g = static_cast<A>(total / n), mean_gh = static_cast<A>(product / n);
      each([&](int64_t i, A g, A hat) {
        dx.data<T>()[i] = static_cast<T>(r * (g - mean_g - hat * mean_gh));
      });
    });
  });
}

// dgamma = sum(dy hat), dbeta = sum(dy), over all axes but those of gamma.
void PlainNormDAffine(const Norm& norm, const View& dy, const View& x, const View& mean,
                      const View& third, const View& dgamma, const View& dbeta) {
  const Quad strides = Strides(norm, kAllAxes);
  const Quad stats = Strides(norm, norm.stats_axes);
  VisitFloat(x.dtype, [&]<typename T>() {
    using A = Accumulate<T>;
    ForEachGroup(norm, norm.affine_axes, [&](int64_t j, const Quad& at) {
      double total = 0, product = 0;
      ForEach(norm, kAllAxes & ~norm.affine_axes, at, [&](const Quad& p) {
        const int64_t i = Dot(p, strides), s = Dot(p, stats);
        const double d = static_cast<double>(static_cast<A>(dy.data<const T>()[i]));
        const A hat = (static_cast<A>(x.data<const T>()[i]) - mean.data<const A>()[s]) *
                      InverseOf(norm, third.data<const A>()[s]);
        total += d;
        product += d * hat;
      });
      if (norm.fix_gamma) product = 0;
      VisitFloat(dgamma.dtype, [&]<typename G>() {
        dgamma.data<G>()[j] = static_cast<G>(static_cast<Accumulate<G>>(product));
        dbeta.data<G>()[j] = static_cast<G>(static_cast<Accumulate<G>>(total));
      });
    });
  });
}

}  // namespace plait
