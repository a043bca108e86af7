// The kernels of normalisation for contiguous runs, in one pass for the statistics and
// one for the result.

#include <cmath>
#include <vector>

#include "base/parallel.h"
#include "ops/nn/lanes.h"
#include "ops/nn/normalize.h"

namespace plait {
namespace {

// A group of elements with one mean is `count` runs of `length`, `stride` apart. A run
// is cut into `parts` on which gamma is constant, or gamma runs along with it.
struct Layout {
  int64_t groups = 1, count = 1, stride = 0, length = 1;
  int64_t parts = 1, part = 1;
  bool elementwise = false;

  int64_t Offset(int64_t group, int64_t run) const {
    return count == 1 ? group * length : run * stride + group * length;
  }
  // The element of gamma for a part of a group; `affine` is how many there are.
  int64_t Affine(int64_t group, int64_t k, int64_t affine) const {
    return (group * parts + k) % affine;
  }
};

Layout LayoutOf(const Norm& norm) {
  const Shape& s = norm.sizes;
  Layout l;
  l.groups = norm.Count(norm.stats_axes);
  if (norm.stats_axes == 0b10) {  // batch
    l.count = s[0];
    l.length = s[2] * s[3];
    l.stride = s[1] * l.length;
  } else {
    l.length = l.groups == 0 ? 0 : s.size() / l.groups;
  }
  l.elementwise = norm.affine_axes == 0b10 && (norm.stats_axes & 0b10) == 0;
  l.parts = norm.affine_axes == 0b110 ? s[2] : 1;
  l.part = l.length / std::max<int64_t>(l.parts, 1);
  return l;
}

template <typename A>
std::vector<A> Load(const View& v, bool ones) {
  std::vector<A> result(static_cast<size_t>(v.size()), A{1});
  if (ones) return result;
  VisitFloat(v.dtype, [&]<typename T>() {
    for (int64_t i = 0; i < v.size(); ++i) {
      result[i] = static_cast<A>(static_cast<Accumulate<T>>(v.data<const T>()[i]));
    }
  });
  return result;
}

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

// A block stays in the cache between its two sweeps.
template <typename T>
void AddRun(Moments& m, const T* x, int64_t n) {
  using A = Accumulate<T>;
  for (int64_t at = 0; at < n; at += kLaneBlock) {
    const T* p = x + at;
    const int64_t count = std::min(kLaneBlock, n - at);
    const A sum = LaneSum<A>(count, [&](int64_t i) { return static_cast<A>(p[i]); });
    const A mean = sum / static_cast<A>(count);
    const A squares = LaneSum<A>(count, [&](int64_t i) {
      const A d = static_cast<A>(p[i]) - mean;
      return d * d;
    });
    m.Add(static_cast<double>(count), static_cast<double>(mean),
          static_cast<double>(squares));
  }
}

int64_t Grain(const Layout& l) {
  return std::max<int64_t>(1, 16384 / std::max<int64_t>(1, l.count * l.length));
}

}  // namespace

bool HasRuns(const Norm& norm) {
  switch (norm.stats_axes) {
    case 0b10:
    case 0b11:
      return norm.affine_axes == 0b10 || norm.affine_axes == 0b110;
    case 0b101:
      return norm.sizes[2] == 1 && norm.sizes[3] == 1;
    default:
      return false;
  }
}

void RunsNormStats(const Norm& norm, const View& x, const View& mean, const View& third,
                   void* variance) {
  const Layout l = LayoutOf(norm);
  VisitFloat(x.dtype, [&]<typename T>() {
    using A = Accumulate<T>;
    ParallelFor(l.groups, Grain(l), [&](int64_t first, int64_t last) {
      for (int64_t g = first; g < last; ++g) {
        Moments m;
        for (int64_t run = 0; run < l.count; ++run) {
          AddRun(m, x.data<const T>() + l.Offset(g, run), l.length);
        }
        const double var = m.n > 0 ? m.squares / m.n : 0,
                     std = std::sqrt(var + norm.eps);
        mean.data<A>()[g] = static_cast<A>(m.mean);
        third.data<A>()[g] = static_cast<A>(norm.third_is_std ? std : 1 / std);
        if (variance) static_cast<A*>(variance)[g] = static_cast<A>(var);
      }
    });
  });
}

void RunsNormApply(const Norm& norm, const View& x, const View& gamma, const View& beta,
                   const View& mean, const View& third, const View& y) {
  const Layout l = LayoutOf(norm);
  VisitFloat(x.dtype, [&]<typename T>() {
    using A = Accumulate<T>;
    const std::vector<A> scale = Load<A>(gamma, norm.fix_gamma);
    const std::vector<A> shift = Load<A>(beta, false);
    const auto affine = static_cast<int64_t>(shift.size());
    ParallelFor(l.groups, Grain(l), [&](int64_t first, int64_t last) {
      for (int64_t g = first; g < last; ++g) {
        const A m = mean.data<const A>()[g], t = third.data<const A>()[g];
        const A r = norm.third_is_std ? 1 / t : t;
        for (int64_t run = 0; run < l.count * l.parts; ++run) {
          const int64_t k = run % l.parts;
          const int64_t at = l.Offset(g, run / l.parts) + k * l.part;
          const T* src = x.data<const T>() + at;
          T* dst = y.data<T>() + at;
          if (l.elementwise) {
            for (int64_t i = 0; i < l.part; ++i) {
              dst[i] = static_cast<T>((static_cast<A>(src[i]) - m) * r * scale[i] +
                                      shift[i]);
            }
            continue;
          }
          const int64_t j = l.Affine(g, k, affine);
          const A a = r * scale[j], b = shift[j];
          for (int64_t i = 0; i < l.part; ++i) {
            dst[i] = static_cast<T>((static_cast<A>(src[i]) - m) * a + b);
          }
        }
      }
    });
  });
}

namespace {

// The sums of a part: of dy and of dy (x - mean).
struct PartSums {
  double dy = 0, product = 0;
};

// The backward pass of one group where gamma is constant on each part. `sums` has a
// place for every part of every group.
template <typename T>
void BackwardGroup(const Layout& l, int64_t g, const T* dy, const T* x, T* dx,
                   const std::vector<Accumulate<T>>& scale, Accumulate<T> m,
                   Accumulate<T> r, PartSums* sums) {
  using A = Accumulate<T>;
  const auto affine = static_cast<int64_t>(scale.size());
  double total = 0, product = 0;
  for (int64_t run = 0; run < l.count * l.parts; ++run) {
    const int64_t k = run % l.parts, at = l.Offset(g, run / l.parts) + k * l.part;
    const T *p = dy + at, *q = x + at;
    PartSums s;
    s.dy = LongSum<A>(l.part, [&](int64_t i) { return static_cast<A>(p[i]); });
    s.product = LongSum<A>(l.part, [&](int64_t i) {
      return static_cast<A>(p[i]) * (static_cast<A>(q[i]) - m);
    });
    sums[k].dy += s.dy;
    sums[k].product += s.product * static_cast<double>(r);
    const double gamma = static_cast<double>(scale[l.Affine(g, k, affine)]);
    total += s.dy * gamma;
    product += s.product * gamma * static_cast<double>(r);
  }
  const double n = static_cast<double>(l.count * l.length);
  const A mean_g = static_cast<A>(total / n), slope = static_cast<A>(product / n) * r;
  for (int64_t run = 0; run < l.count * l.parts; ++run) {
    const int64_t k = run % l.parts, at = l.Offset(g, run / l.parts) + k * l.part;
    const T *p = dy + at, *q = x + at;
    const A gamma = scale[l.Affine(g, k, affine)];
    T* out = dx + at;
    for (int64_t i = 0; i < l.part; ++i) {
      out[i] = static_cast<T>(r * (static_cast<A>(p[i]) * gamma - mean_g -
                                   (static_cast<A>(q[i]) - m) * slope));
    }
  }
}

void Store(const View& v, int64_t i, double value) {
  VisitFloat(v.dtype, [&]<typename T>() {
    v.data<T>()[i] = static_cast<T>(static_cast<Accumulate<T>>(value));
  });
}

// Layer normalisation of the last axis: gamma runs along with each row, and its
// gradient is a sum over rows, taken in a fixed number of slices whatever the threads.
template <typename T>
void BackwardRows(const Norm& norm, const Layout& l, const View& dy, const View& x,
                  const View& gamma, const View& mean, const View& third,
                  const View& dx, const View& dgamma, const View& dbeta) {
  using A = Accumulate<T>;
  constexpr int64_t kSlices = 16;
  const int64_t n = l.length, rows = l.groups;
  const std::vector<A> scale = Load<A>(gamma, norm.fix_gamma);
  std::vector<A> partial(static_cast<size_t>(2 * kSlices * n), A{0});
  ParallelFor(kSlices, 1, [&](int64_t first, int64_t last) {
    for (int64_t slice = first; slice < last; ++slice) {
      A *gs = &partial[static_cast<size_t>(slice * 2 * n)], *bs = gs + n;
      for (int64_t g = slice * rows / kSlices; g < (slice + 1) * rows / kSlices; ++g) {
        const T *p = dy.data<const T>() + g * n, *q = x.data<const T>() + g * n;
        const A m = mean.data<const A>()[g], t = third.data<const A>()[g];
        const A r = norm.third_is_std ? 1 / t : t;
        const double total =
            LongSum<A>(n, [&](int64_t i) { return static_cast<A>(p[i]) * scale[i]; });
        const double product = LongSum<A>(n, [&](int64_t i) {
          return static_cast<A>(p[i]) * scale[i] * (static_cast<A>(q[i]) - m);
        });
        const double count = static_cast<double>(n);
        const A mean_g = static_cast<A>(total / count);
        const A slope = static_cast<A>(product / count) * r * r;
        T* out = dx.data<T>() + g * n;
        for (int64_t i = 0; i < n; ++i) {
          const A d = static_cast<A>(p[i]), c = static_cast<A>(q[i]) - m;
          gs[i] += d * c * r;
          bs[i] += d;
          out[i] = static_cast<T>(r * (d * scale[i] - mean_g - c * slope));
        }
      }
    }
  });
  for (int64_t i = 0; i < n; ++i) {
    double g = 0, b = 0;
    for (int64_t slice = 0; slice < kSlices; ++slice) {
      g += partial[static_cast<size_t>(slice * 2 * n + i)];
      b += partial[static_cast<size_t>(slice * 2 * n + n + i)];
    }
    Store(dgamma, i, norm.fix_gamma ? 0 : g);
    Store(dbeta, i, b);
  }
}

}  // namespace

void RunsNormBackward(const Norm& norm, const View& dy, const View& x,
                      const View& gamma, const View& mean, const View& third,
                      const View& dx, const View& dgamma, const View& dbeta) {
  const Layout l = LayoutOf(norm);
  VisitFloat(x.dtype, [&]<typename T>() {
    if (l.elementwise) {
      return BackwardRows<T>(norm, l, dy, x, gamma, mean, third, dx, dgamma, dbeta);
    }
    using A = Accumulate<T>;
    const std::vector<A> scale = Load<A>(gamma, norm.fix_gamma);
    const auto affine = static_cast<int64_t>(scale.size());
    std::vector<PartSums> sums(static_cast<size_t>(l.groups * l.parts));
    ParallelFor(l.groups, Grain(l), [&](int64_t first, int64_t last) {
      for (int64_t g = first; g < last; ++g) {
        const A t = third.data<const A>()[g];
        BackwardGroup(l, g, dy.data<const T>(), x.data<const T>(), dx.data<T>(), scale,
                      mean.data<const A>()[g], norm.third_is_std ? 1 / t : t,
                      &sums[static_cast<size_t>(g * l.parts)]);
      }
    });
    std::vector<PartSums> totals(static_cast<size_t>(affine));
    for (int64_t g = 0; g < l.groups; ++g) {
      for (int64_t k = 0; k < l.parts; ++k) {
        PartSums& total = totals[static_cast<size_t>(l.Affine(g, k, affine))];
        total.dy += sums[static_cast<size_t>(g * l.parts + k)].dy;
        total.product += sums[static_cast<size_t>(g * l.parts + k)].product;
      }
    }
    for (int64_t i = 0; i < affine; ++i) {
      Store(dgamma, i, norm.fix_gamma ? 0 : totals[static_cast<size_t>(i)].product);
      Store(dbeta, i, totals[static_cast<size_t>(i)].dy);
    }
  });
}

}  // namespace plait
