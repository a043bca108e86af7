// Our own convolution, gradient of the data.

#include <algorithm>
#include <vector>

#include "base/parallel.h"
#include "cpu/conv_kernel.h"
#include "cpu/conv_plan.h"
#include "cpu/scratch.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/conv_data_kernel.cc"
#include "cpu/simd/targets.h"
#include "hwy/foreach_target.h"
//
#include "cpu/conv_gather.h"
#include "cpu/conv_parts.h"
#include "cpu/gemm_pack.h"
#include "cpu/gemm_tile.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace plait::cpu::kernel {
namespace HWY_NAMESPACE {

// dx: the transposed filters times dy give, for each pixel of y and each tap, what the
// pixel adds to the element of dx under the tap; Gather adds these up.
template <typename T>
class DataGradient {
 public:
  DataGradient(const ConvProblem& problem, const T* dy, const T* weight, T* dx)
      : dy_(dy),
        dx_(dx),
        plan_(problem, problem.OutSize(), problem.OutSize()),
        p_(plan_.p),
        oc_(plan_.out_channels),
        pointwise_(plan_.kernel == 1 && plan_.in_size == plan_.pixels),
        images_(p_.batch * p_.groups),
        parts_(Parts(images_, plan_.in_channels, p_.Work())),
        together_(std::clamp<int64_t>(96 / plan_.kernel, 1, plan_.in_channels)),
        packed_(Scratch::Bytes<T>(plan_.taps * oc_ * p_.groups)) {
    for (int64_t g = 0; g < p_.groups; ++g) {
      ForEachChannels(0, plan_.in_channels, [&](int64_t c, int64_t count) {
        const int64_t tap = c * plan_.kernel;
        PackedRowPanels<T>(count * plan_.kernel, oc_)
            .Pack({weight + g * oc_ * plan_.taps + tap, 1, plan_.taps},
                  packed_.template As<T>() + (g * plan_.taps + tap) * oc_);
      });
    }
    MakeChunks();
  }

  void Run() {
    ParallelFor(images_ * parts_, 1, [&](int64_t begin, int64_t end) {
      const Scratch scratch(
          Scratch::Bytes<T>((oc_ + together_ * plan_.kernel) * longest_));
      for (int64_t task = begin; task < end; ++task) {
        Image(task / parts_, task % parts_, scratch.As<T>());
      }
    });
  }

 private:
  // Calls f(first, count) for the channels in [begin, end) that are worked on together.
  // Blocks are the same for all parts, so the packed filters serve each.
  template <typename F>
  void ForEachChannels(int64_t begin, int64_t end, F&& f) const {
    for (int64_t c = begin; c < end; c += together_) {
      f(c, std::min(together_, end - c));
    }
  }

  // Whole rows as far as the panels of a chunk stay in L2, else parts of a row.
  void MakeChunks() {
    constexpr int64_t kWidth = kTileColumns<T>;
    const int64_t most = std::min(kPackedElements / oc_,
                                  kPackedElements / 2 / (together_ * plan_.kernel)) /
                         kWidth * kWidth;
    const int64_t width = p_.Out(2), rows = p_.Out(0) * p_.Out(1);
    const int64_t part = std::min(width, std::max(most, kWidth));
    const int64_t step = std::max<int64_t>(1, most / width);
    for (int64_t row = 0; row < rows; row += step) {
      for (int64_t x = 0; x < width; x += part) {
        chunks_.push_back(
            {row, std::min(rows, row + step), x, std::min(width, x + part)});
        longest_ = std::max(longest_, chunks_.back().pixels() + kWidth);
      }
    }
  }

  // Some channels of one group of one image: no two tasks write the same element.
  void Image(int64_t image, int64_t part, T* scratch) const {
    constexpr int64_t kWidth = kTileColumns<T>;
    const int64_t blocks = CeilDiv(plan_.in_channels, together_);
    const int64_t c0 = std::min(plan_.in_channels, blocks * part / parts_ * together_);
    const int64_t c1 =
        std::min(plan_.in_channels, blocks * (part + 1) / parts_ * together_);
    const T* a = packed_.template As<T>() + image % p_.groups * plan_.taps * oc_;
    T* dx = dx_ + image * plan_.in_channels * plan_.in_size;
    const bool only = chunks_.size() == 1;
    if (!only && !pointwise_) {
      std::fill(dx + c0 * plan_.in_size, dx + c1 * plan_.in_size, T(0));
    }
    for (const PixelChunk& chunk : chunks_) {
      const int64_t n = chunk.pixels(),
                    first = chunk.row_begin * p_.Out(2) + chunk.x_begin;
      const int64_t width = CeilDiv(n, kWidth) * kWidth;
      T* b = scratch;
      T* products = scratch + oc_ * width;
      for (int64_t j = 0; j < n; j += kWidth) {
        const ColumnPanel<T> panel(n, j);
        Pack(Operand<T>{dy_ + image * oc_ * plan_.pixels + first + j, 1, plan_.pixels},
             panel.columns, oc_, panel.width, b + j * oc_);
      }
      Gather<T> gather(plan_, chunk);
      ForEachChannels(c0, c1, [&](int64_t c, int64_t count) {
        T* to = dx + c * plan_.in_size;
        if (pointwise_) {
          Multiply(count, a + c * oc_, b, n, to + first, plan_.pixels);
        } else {
          Multiply(count * plan_.kernel, a + c * plan_.kernel * oc_, b, n, products,
                   width);
          gather.Run(products, width, count, only, to);
        }
      });
    }
  }

  // c (m, n) = packed filters (m, oc) * packed dy (oc, n).
  void Multiply(int64_t m, const T* a, const T* b, int64_t n, T* c, int64_t ldc) const {
    constexpr int64_t kWidth = kTileColumns<T>;
    const PackedRowPanels<T> rows(m, oc_);
    for (int64_t j = 0; j < n; j += kWidth) {
      const ColumnPanel<T> panel(n, j);
      for (int64_t i = 0; i < rows.panels.count; ++i) {
        for (int64_t s = 0; s < rows.pieces; ++s) {
          FindPackedTile<T>(rows.panels.Rows(i), panel.vecs)(
              rows.Length(s), a + rows.Offset(i, s),
              b + j * oc_ + rows.Begin(s) * panel.width, panel.columns,
              {c + rows.panels.First(i) * ldc + j, ldc, T(1), s == 0 ? T(0) : T(1),
               nullptr, false});
        }
      }
    }
  }

  const T* dy_;
  T* dx_;
  const ConvPlan plan_;
  const ConvProblem& p_;
  const int64_t oc_;
  const bool pointwise_;
  const int64_t images_, parts_;
  const int64_t together_;  // channels whose products are gathered together
  const Scratch packed_;
  std::vector<PixelChunk> chunks_;
  int64_t longest_ = 0;  // pixels of a chunk, and a tile's width
};

void DataF32(const ConvProblem& p, const float* dy, const float* w, float* dx) {
  DataGradient(p, dy, w, dx).Run();
}
void DataF64(const ConvProblem& p, const double* dy, const double* w, double* dx) {
  DataGradient(p, dy, w, dx).Run();
}

}  // namespace HWY_NAMESPACE
}  // namespace plait::cpu::kernel
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plait::cpu {
namespace kernel {

HWY_EXPORT(DataF32);
HWY_EXPORT(DataF64);
auto* DataOf(float) {
  return HWY_DYNAMIC_DISPATCH(DataF32);
}
auto* DataOf(double) {
  return HWY_DYNAMIC_DISPATCH(DataF64);
}

}  // namespace kernel

template <typename T>
void OwnConvBackwardData(const ConvProblem& p, const T* dy, const T* weight, T* dx) {
  kernel::DataOf(T())(p, dy, weight, dx);
}
template void OwnConvBackwardData<float>(const ConvProblem&, const float*, const float*,
                                         float*);
template void OwnConvBackwardData<double>(const ConvProblem&, const double*,
                                          const double*, double*);

}  // namespace plait::cpu
#endif  // HWY_ONCE
