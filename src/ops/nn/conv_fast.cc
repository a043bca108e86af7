// The kernels of convolution by cpu/conv.h.

#include <algorithm>
#include <cstring>

#include "base/parallel.h"
#include "cpu/conv.h"
#include "ops/nn/conv.h"

namespace plait {

cpu::ConvProblem ProblemOf(const ConvGeometry& g) {
  return {.rank = g.rank,
          .batch = g.batch,
          .in_channels = g.in_channels,
          .out_channels = g.out_channels,
          .groups = g.groups,
          .in = g.in,
          .kernel = g.kernel,
          .stride = g.stride,
          .dilation = g.dilate,
          .pad_low = g.pad,
          .pad_high = g.pad};
}

namespace {

void Clear(const View& v) {
  std::memset(v.ptr, 0, static_cast<size_t>(v.bytes()));
}

// The sums are over nothing, or there is nothing to compute.
bool IsEmpty(const ConvGeometry& g) {
  return g.batch == 0 || g.in_channels == 0 || g.in_size() == 0 || g.out_size() == 0;
}

}  // namespace

namespace {

void Run(const ConvGeometry& g, const View& x, const View& w, const View* bias,
         bool relu, const View& y) {
  VisitFloat(y.dtype, [&]<typename T>() {
    cpu::ConvForward(ProblemOf(g), x.data<const T>(), w.data<const T>(),
                     bias ? bias->data<const T>() : nullptr, relu, y.data<T>());
  });
}

}  // namespace

void FastConvForward(const ConvGeometry& g, const View& x, const View& w,
                     const View* bias, const View& y) {
  if (IsEmpty(g)) return PlainConvForward(g, x, w, bias, y);
  Run(g, x, w, bias, false, y);
}

void FastConvRelu(const ConvGeometry& g, const View& x, const View& w, const View* bias,
                  const View& y) {
  if (IsEmpty(g)) return PlainConvRelu(g, x, w, bias, y);
  Run(g, x, w, bias, true, y);
}

// NaN stays NaN.
void PlainConvRelu(const ConvGeometry& g, const View& x, const View& w,
                   const View* bias, const View& y) {
  PlainConvForward(g, x, w, bias, y);
  VisitFloat(y.dtype, [&]<typename T>() {
    T* values = y.data<T>();
    for (int64_t i = 0; i < y.size(); ++i) {
      if (static_cast<double>(values[i]) < 0) values[i] = T(0.0f);
    }
  });
}

void FastConvData(const ConvGeometry& g, const View& y, const View& w, const View* bias,
                  const View& x) {
  if (IsEmpty(g)) return PlainConvData(g, y, w, bias, x);
  VisitFloat(x.dtype, [&]<typename T>() {
    cpu::ConvBackwardData(ProblemOf(g), y.data<const T>(), w.data<const T>(),
                          x.data<T>());
    if (bias == nullptr) return;
    const int64_t size = g.in_size();
    ParallelFor(g.batch * g.in_channels, std::max<int64_t>(1, 4096 / size),
                [&](int64_t first, int64_t last) {
                  for (int64_t plane = first; plane < last; ++plane) {
                    using A = Accumulate<T>;
                    const A b =
                        static_cast<A>(bias->data<const T>()[plane % g.in_channels]);
                    T* row = x.data<T>() + plane * size;
                    for (int64_t i = 0; i < size; ++i) {
                      row[i] = static_cast<T>(static_cast<A>(row[i]) + b);
                    }
                  }
                });
  });
}

void FastConvWeight(const ConvGeometry& g, const View& y, const View& x,
                    const View& w) {
  if (IsEmpty(g)) return Clear(w);
  VisitFloat(w.dtype, [&]<typename T>() {
    cpu::ConvBackwardWeight<T>(ProblemOf(g), x.data<const T>(), y.data<const T>(),
                               w.data<T>(), nullptr);
  });
}

}  // namespace plait
