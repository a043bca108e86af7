// The plain kernels of convolution: every result is one sum, in float for the halves.

#include <algorithm>

#include "base/parallel.h"
#include "ops/nn/conv.h"

namespace plait {
namespace {

using Triple = ConvGeometry::Triple;

// Calls f(offset of a kernel element, offset of an input element) for each element of
// the kernel that touches the input, at the output position `at`.
template <typename F>
void ForEachTap(const ConvGeometry& g, const Triple& at, F&& f) {
  Triple first;
  for (int d = 0; d < 3; ++d) first[d] = at[d] * g.stride[d] - g.pad[d];
  for (int64_t a = 0; a < g.kernel[0]; ++a) {
    const int64_t z = first[0] + a * g.dilate[0];
    if (z < 0 || z >= g.in[0]) continue;
    for (int64_t b = 0; b < g.kernel[1]; ++b) {
      const int64_t y = first[1] + b * g.dilate[1];
      if (y < 0 || y >= g.in[1]) continue;
      for (int64_t c = 0; c < g.kernel[2]; ++c) {
        const int64_t x = first[2] + c * g.dilate[2];
        if (x < 0 || x >= g.in[2]) continue;
        f((a * g.kernel[1] + b) * g.kernel[2] + c, (z * g.in[1] + y) * g.in[2] + x);
      }
    }
  }
}

template <typename F>
void ForEachOutput(const ConvGeometry& g, F&& f) {
  int64_t i = 0;
  Triple at;
  for (at[0] = 0; at[0] < g.out[0]; ++at[0])
    for (at[1] = 0; at[1] < g.out[1]; ++at[1])
      for (at[2] = 0; at[2] < g.out[2]; ++at[2]) f(at, i++);
}

}  // namespace

void PlainConvForward(const ConvGeometry& g, const View& x, const View& w,
                      const View* bias, const View& y) {
  const int64_t ci = g.in_channels / g.groups, co = g.out_channels / g.groups;
  const int64_t in = g.in_size(), out = g.out_size(), taps = g.kernel_size();
  VisitFloat(y.dtype, [&]<typename T>() {
    using A = Accumulate<T>;
    ParallelFor(g.batch * g.out_channels, 1, [&](int64_t first, int64_t last) {
      for (int64_t plane = first; plane < last; ++plane) {
        const int64_t n = plane / g.out_channels, o = plane % g.out_channels;
        const T* xs = x.data<const T>() + (n * g.in_channels + o / co * ci) * in;
        const T* ws = w.data<const T>() + o * ci * taps;
        T* ys = y.data<T>() + plane * out;
        const A start = bias ? static_cast<A>(bias->data<const T>()[o]) : A{0};
        ForEachOutput(g, [&](const Triple& at, int64_t i) {
          A total = start;
          for (int64_t c = 0; c < ci; ++c) {
            ForEachTap(g, at, [&](int64_t tap, int64_t j) {
              total +=
                  static_cast<A>(xs[c * in + j]) * static_cast<A>(ws[c * taps + tap]);
            });
          }
          ys[i] = static_cast<T>(total);
        });
      }
    });
  });
}

void PlainConvData(const ConvGeometry& g, const View& y, const View& w,
                   const View* bias, const View& x) {
  const int64_t ci = g.in_channels / g.groups, co = g.out_channels / g.groups;
  const int64_t in = g.in_size(), out = g.out_size(), taps = g.kernel_size();
  VisitFloat(x.dtype, [&]<typename T>() {
    using A = Accumulate<T>;
    ParallelFor(g.batch * g.in_channels, 1, [&](int64_t first, int64_t last) {
      std::vector<A> sums(static_cast<size_t>(in));
      for (int64_t plane = first; plane < last; ++plane) {
        const int64_t n = plane / g.in_channels, c = plane % g.in_channels;
        const int64_t group = c / ci;
        const A start = bias ? static_cast<A>(bias->data<const T>()[c]) : A{0};
        std::fill(sums.begin(), sums.end(), start);
        for (int64_t o = group * co; o < (group + 1) * co; ++o) {
          const T* ys = y.data<const T>() + (n * g.out_channels + o) * out;
          const T* ws = w.data<const T>() + (o * ci + c % ci) * taps;
          ForEachOutput(g, [&](const Triple& at, int64_t i) {
            ForEachTap(g, at, [&](int64_t tap, int64_t j) {
              sums[j] += static_cast<A>(ys[i]) * static_cast<A>(ws[tap]);
            });
          });
        }
        T* xs = x.data<T>() + plane * in;
        for (int64_t j = 0; j < in; ++j) xs[j] = static_cast<T>(sums[j]);
      }
    });
  });
}

void PlainConvWeight(const ConvGeometry& g, const View& y, const View& x,
                     const View& w) {
  const int64_t ci = g.in_channels / g.groups, co = g.out_channels / g.groups;
  const int64_t in = g.in_size(), out = g.out_size(), taps = g.kernel_size();
  VisitFloat(w.dtype, [&]<typename T>() {
    using A = Accumulate<T>;
    ParallelFor(g.out_channels * ci, 1, [&](int64_t first, int64_t last) {
      std::vector<A> sums(static_cast<size_t>(taps));
      for (int64_t pair = first; pair < last; ++pair) {
        const int64_t o = pair / ci, c = o / co * ci + pair % ci;
        std::fill(sums.begin(), sums.end(), A{0});
        for (int64_t n = 0; n < g.batch; ++n) {
          const T* ys = y.data<const T>() + (n * g.out_channels + o) * out;
          const T* xs = x.data<const T>() + (n * g.in_channels + c) * in;
          ForEachOutput(g, [&](const Triple& at, int64_t i) {
            ForEachTap(g, at, [&](int64_t tap, int64_t j) {
              sums[tap] += static_cast<A>(ys[i]) * static_cast<A>(xs[j]);
            });
          });
        }
        T* ws = w.data<T>() + pair * taps;
        for (int64_t t = 0; t < taps; ++t) ws[t] = static_cast<T>(sums[t]);
      }
    });
  });
}

}  // namespace plait
