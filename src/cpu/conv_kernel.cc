// Our own convolution, forward: matrix products whose panels come from the image.

#include "cpu/conv_kernel.h"

#include <algorithm>

#include "base/parallel.h"
#include "cpu/conv_plan.h"
#include "cpu/scratch.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/conv_kernel.cc"
#include "cpu/simd/targets.h"
#include "hwy/foreach_target.h"
//
#include "cpu/conv_pack.h"
#include "cpu/conv_parts.h"
#include "cpu/gemm_pack.h"
#include "cpu/gemm_tile.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace plait::cpu::kernel {
namespace HWY_NAMESPACE {

template <typename T>
void Forward(const ConvProblem& problem, const T* x, const T* weight, const T* bias,
             bool relu, T* y) {
  constexpr int64_t kWidth = kTileColumns<T>;
  const ConvPlan plan(problem, kWidth, kLanes<T>);
  const ConvProblem& p = plan.p;
  const PackedRowPanels<T> rows(plan.out_channels, plan.taps);
  const Scratch packed(Scratch::Bytes<T>(rows.size() * p.groups));
  for (int64_t g = 0; g < p.groups; ++g) {
    rows.Pack({weight + g * rows.size(), plan.taps, 1},
              packed.As<T>() + g * rows.size());
  }
  const int64_t images = p.batch * p.groups, panels = CeilDiv(plan.pixels, kWidth);
  const int64_t parts = Parts(images, panels, p.Work());
  const int64_t longest = rows.Length(rows.pieces - 1) + 1;
  const int64_t chunk =
      std::clamp<int64_t>(kPackedElements / (longest * kWidth), 1, panels);
  ParallelFor(images * parts, 1, [&](int64_t begin, int64_t end) {
    PaddedImage<T> padded(plan, 0, plan.in_channels);
    const Scratch scratch(Scratch::Bytes<T>(longest * chunk * kWidth));
    T* b = scratch.As<T>();
    for (int64_t task = begin; task < end; ++task) {
      const int64_t image = task / parts, group = image % p.groups, part = task % parts;
      const T* a = packed.As<T>() + group * rows.size();
      const T* from = padded.Load(x + image * plan.in_channels * plan.in_size);
      T* to = y + image * plan.out_channels * plan.pixels;
      const int64_t last = panels * (part + 1) / parts;
      for (int64_t first = panels * part / parts; first < last; first += chunk) {
        const int64_t count = std::min(chunk, last - first);
        for (int64_t s = 0; s < rows.pieces; ++s) {
          const int64_t k = rows.Length(s);
          for (int64_t j = 0; j < count; ++j) {
            const ColumnPanel<T> panel(plan.pixels, (first + j) * kWidth);
            PackPixels(plan, from, rows.Begin(s), k, first + j, panel.columns,
                       panel.width, b + j * kWidth * k);
          }
          TileStore<T> store{nullptr, plan.pixels,
                             T(1),    s == 0 ? T(0) : T(1),
                             nullptr, relu && s + 1 == rows.pieces};
          for (int64_t i = 0; i < rows.panels.count; ++i) {
            const int64_t row = rows.panels.First(i);
            if (bias != nullptr && s == 0) {
              store.bias = bias + group * plan.out_channels + row;
            }
            for (int64_t j = 0; j < count; ++j) {
              const ColumnPanel<T> panel(plan.pixels, (first + j) * kWidth);
              store.c = to + row * plan.pixels + (first + j) * kWidth;
              FindPackedTile<T>(rows.panels.Rows(i), panel.vecs)(
                  k, a + rows.Offset(i, s), b + j * kWidth * k, panel.columns, store);
            }
          }
        }
      }
    }
  });
}

void ForwardF32(const ConvProblem& p, const float* x, const float* w, const float* b,
                bool relu, float* y) {
  Forward(p, x, w, b, relu, y);
}
void ForwardF64(const ConvProblem& p, const double* x, const double* w, const double* b,
                bool relu, double* y) {
  Forward(p, x, w, b, relu, y);
}

}  // namespace HWY_NAMESPACE
}  // namespace plait::cpu::kernel
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plait::cpu {
namespace kernel {

HWY_EXPORT(ForwardF32);
HWY_EXPORT(ForwardF64);
auto* ForwardOf(float) {
  return HWY_DYNAMIC_DISPATCH(ForwardF32);
}
auto* ForwardOf(double) {
  return HWY_DYNAMIC_DISPATCH(ForwardF64);
}

}  // namespace kernel

template <typename T>
void OwnConvForward(const ConvProblem& p, const T* x, const T* weight, const T* bias,
                    bool relu, T* y) {
  kernel::ForwardOf(T())(p, x, weight, bias, relu, y);
}
template void OwnConvForward<float>(const ConvProblem&, const float*, const float*,
                                    const float*, bool, float*);
template void OwnConvForward<double>(const ConvProblem&, const double*, const double*,
                                     const double*, bool, double*);

}  // namespace plait::cpu
#endif  // HWY_ONCE
