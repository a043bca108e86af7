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
class ForwardPass {
 public:
  ForwardPass(const ConvProblem& problem, const T* x, const T* weight, const T* bias,
              bool relu, T* y)
      : x_(x),
        bias_(bias),
        relu_(relu),
        y_(y),
        plan_(problem, kWidth, kLanes<T>),
        p_(plan_.p),
        rows_(plan_.out_channels, plan_.taps),
        packed_(Scratch::Bytes<T>(rows_.size() * p_.groups)),
        panels_(CeilDiv(plan_.pixels, kWidth)),
        longest_(rows_.Length(rows_.pieces - 1) + 1),
        chunk_(std::clamp<int64_t>(kPackedElements / (longest_ * kWidth), 1, panels_)) {
    for (int64_t g = 0; g < p_.groups; ++g) {
      rows_.Pack({weight + g * rows_.size(), plan_.taps, 1},
                 packed_.template As<T>() + g * rows_.size());
    }
  }

  void Run() {
    const int64_t images = p_.batch * p_.groups,
                  parts = Parts(images, panels_, p_.Work());
    ParallelFor(images * parts, 1, [&](int64_t begin, int64_t end) {
      PaddedImage<T> padded(plan_, 0, plan_.in_channels);
      const Scratch scratch(Scratch::Bytes<T>(longest_ * chunk_ * kWidth));
      for (int64_t task = begin; task < end; ++task) {
        const int64_t image = task / parts, part = task % parts;
        const T* from = padded.Load(x_ + image * plan_.in_channels * plan_.in_size);
        const int64_t last = panels_ * (part + 1) / parts;
        for (int64_t first = panels_ * part / parts; first < last; first += chunk_) {
          Chunk(image, from, first, std::min(chunk_, last - first), scratch.As<T>());
        }
      }
    });
  }

 private:
  static constexpr int64_t kWidth = kTileColumns<T>;

  // `count` panels of pixels of an image, from panel `first` on.
  void Chunk(int64_t image, const T* from, int64_t first, int64_t count, T* b) const {
    for (int64_t s = 0; s < rows_.pieces; ++s) {
      const int64_t k = rows_.Length(s);
      for (int64_t j = 0; j < count; ++j) {
        const ColumnPanel<T> panel(plan_.pixels, (first + j) * kWidth);
        PackPixels(plan_, from, rows_.Begin(s), k, first + j, panel.columns,
                   panel.width, b + j * kWidth * k);
      }
      Multiply(image, s, first, count, b);
    }
  }

  // Adds piece s of the sums over taps to y; the last one finishes y.
  void Multiply(int64_t image, int64_t s, int64_t first, int64_t count,
                const T* b) const {
    const int64_t group = image % p_.groups, k = rows_.Length(s);
    const T* a = packed_.template As<T>() + group * rows_.size();
    T* to = y_ + image * plan_.out_channels * plan_.pixels;
    TileStore<T> store{nullptr, plan_.pixels,
                       T(1),    s == 0 ? T(0) : T(1),
                       nullptr, relu_ && s + 1 == rows_.pieces};
    for (int64_t i = 0; i < rows_.panels.count; ++i) {
      const int64_t row = rows_.panels.First(i);
      if (bias_ != nullptr && s == 0) {
        store.bias = bias_ + group * plan_.out_channels + row;
      }
      for (int64_t j = 0; j < count; ++j) {
        const ColumnPanel<T> panel(plan_.pixels, (first + j) * kWidth);
        store.c = to + row * plan_.pixels + (first + j) * kWidth;
        FindPackedTile<T>(rows_.panels.Rows(i), panel.vecs)(
            k, a + rows_.Offset(i, s), b + j * kWidth * k, panel.columns, store);
      }
    }
  }

  const T* x_;
  const T* bias_;
  const bool relu_;
  T* y_;
  const ConvPlan plan_;
  const ConvProblem& p_;
  const PackedRowPanels<T> rows_;
  const Scratch packed_;
  const int64_t panels_;   // of pixels, in an image
  const int64_t longest_;  // taps of a piece
  const int64_t chunk_;    // panels that are packed together
};

void ForwardF32(const ConvProblem& p, const float* x, const float* w, const float* b,
                bool relu, float* y) {
  ForwardPass(p, x, w, b, relu, y).Run();
}
void ForwardF64(const ConvProblem& p, const double* x, const double* w, const double* b,
                bool relu, double* y) {
  ForwardPass(p, x, w, b, relu, y).Run();
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
