// The plain kernels of pooling.

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/parallel.h"
#include "ops/nn/pool.h"

namespace plait {
namespace {

template <typename F>
void ForEachPlane(const PoolGeometry& g, F&& f) {
  ParallelFor(g.batch * g.channels, 1, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) f(i / g.channels, i % g.channels);
  });
}

// Where the first largest element of a window is; -1 for an empty window.
template <typename T>
int64_t ArgMax(const PoolGeometry& g, const PoolWindow& w, const T* x) {
  using A = Accumulate<T>;
  int64_t best = -1;
  A top = 0;
  w.ForEach(g, [&](int64_t j) {
    const A v = static_cast<A>(x[j * g.step()]);
    if (best < 0 || v > top || (std::isnan(v) && !std::isnan(top))) {
      best = j;
      top = v;
    }
  });
  return best;
}

// Adds up in the accumulation type: a plane at a time.
template <typename T, typename F>
void FillPlane(const PoolGeometry& g, T* dx, int64_t xs, F&& add) {
  std::vector<Accumulate<T>> sums(static_cast<size_t>(g.in_size()));
  add(sums.data());
  for (int64_t j = 0; j < g.in_size(); ++j) {
    dx[xs + j * g.step()] = static_cast<T>(sums[j]);
  }
}

template <typename A>
A PowerOf(A v, int p) {
  A result = v;
  for (int i = 1; i < p; ++i) result *= v;
  return result;
}

template <typename A>
A RootOf(A v, int p) {
  return p == 1 ? v : p == 2 ? std::sqrt(v) : std::cbrt(v);
}

}  // namespace

PoolWindow WindowAt(const PoolGeometry& g, const PoolGeometry::Triple& at,
                    bool include_pad) {
  PoolWindow w;
  for (int d = 0; d < 3; ++d) {
    const int64_t first = at[d] * g.stride[d] - g.pad[d];
    const int64_t last = std::min(first + g.kernel[d], g.in[d] + g.pad[d]);
    w.first[d] = std::max<int64_t>(first, 0);
    w.last[d] = std::min(last, g.in[d]);
    const int64_t inside = std::max<int64_t>(w.last[d] - w.first[d], 0);
    w.divisor *= include_pad ? last - first : inside;
  }
  return w;
}

void PlainPool(const PoolParams& p, const PoolGeometry& g, const View& x,
               const View& y) {
  const bool average = p.pool_type == PoolType::kAvg;
  const int power = p.pool_type == PoolType::kLp ? *p.p_value : 1;
  VisitFloat(y.dtype, [&]<typename T>() {
    using A = Accumulate<T>;
    ForEachPlane(g, [&](int64_t n, int64_t c) {
      ForEachWindow(g, n, c, p.include_pad(),
                    [&](int64_t xs, int64_t ys, const PoolWindow& w, int64_t i) {
                      const T* src = x.data<const T>() + xs;
                      A result;
                      if (p.pool_type == PoolType::kMax) {
                        const int64_t j = ArgMax(g, w, src);
                        result = j < 0 ? -std::numeric_limits<A>::max()
                                       : static_cast<A>(src[j * g.step()]);
                      } else {
                        A total = 0;
                        w.ForEach(g, [&](int64_t j) {
                          total += PowerOf(static_cast<A>(src[j * g.step()]), power);
                        });
                        result = RootOf(total, power);
                        if (average) {
                          result /= static_cast<A>(std::max<int64_t>(w.divisor, 1));
                        }
                      }
                      y.data<T>()[ys + i * g.step()] = static_cast<T>(result);
                    });
    });
  });
}

void PlainPoolSpread(const PoolParams& p, const PoolGeometry& g, const View& dy,
                     const View& dx) {
  const bool average = p.pool_type == PoolType::kAvg;
  VisitFloat(dx.dtype, [&]<typename T>() {
    using A = Accumulate<T>;
    ForEachPlane(g, [&](int64_t n, int64_t c) {
      FillPlane(g, dx.data<T>(), g.Plane(n, c, g.in_size()), [&](A* sums) {
        ForEachWindow(g, n, c, p.include_pad(),
                      [&](int64_t, int64_t ys, const PoolWindow& w, int64_t i) {
                        A v = static_cast<A>(dy.data<const T>()[ys + i * g.step()]);
                        if (average)
                          v /= static_cast<A>(std::max<int64_t>(w.divisor, 1));
                        w.ForEach(g, [&](int64_t j) { sums[j] += v; });
                      });
      });
    });
  });
}

void PlainPoolMaxBackward(const PoolGeometry& g, const View& dy, const View& x,
                          const View& dx) {
  VisitFloat(dx.dtype, [&]<typename T>() {
    using A = Accumulate<T>;
    ForEachPlane(g, [&](int64_t n, int64_t c) {
      FillPlane(g, dx.data<T>(), g.Plane(n, c, g.in_size()), [&](A* sums) {
        ForEachWindow(
            g, n, c, true, [&](int64_t xs, int64_t ys, const PoolWindow& w, int64_t i) {
              const int64_t j = ArgMax(g, w, x.data<const T>() + xs);
              if (j < 0) return;
              sums[j] += static_cast<A>(dy.data<const T>()[ys + i * g.step()]);
            });
      });
    });
  });
}

void PlainPoolTake(const PoolGeometry& g, const View& u, const View& x, const View& y) {
  VisitFloat(y.dtype, [&]<typename T>() {
    ForEachPlane(g, [&](int64_t n, int64_t c) {
      ForEachWindow(g, n, c, true,
                    [&](int64_t xs, int64_t ys, const PoolWindow& w, int64_t i) {
                      const int64_t j = ArgMax(g, w, x.data<const T>() + xs);
                      y.data<T>()[ys + i * g.step()] =
                          j < 0 ? T(0.0f) : u.data<const T>()[xs + j * g.step()];
                    });
    });
  });
}

}  // namespace plait
