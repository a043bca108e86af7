// Winograd's transform of filters.

#include <algorithm>

#include "base/parallel.h"
#include "cpu/scratch.h"
#include "cpu/winograd.h"
#include "cpu/winograd_plan.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/winograd_filters.cc"
#include "cpu/simd/targets.h"
#include "hwy/foreach_target.h"
//
#include "cpu/bfloat16_vectors.h"
#include "cpu/gemm_pack.h"
#include "cpu/winograd_filters.h"
#include "cpu/winograd_transform.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace plait::cpu::kernel {
namespace HWY_NAMESPACE {
namespace winograd {

constexpr int64_t kTaps = 9;

// Filters by the numbers of their channels as the pass sees them.
struct FilterView {
  FilterView(const ConvProblem& p, ConvPass pass) {
    rotated = pass == ConvPass::kBackwardData;
    out_stride = rotated ? kTaps : p.in_channels * kTaps;
    in_stride = rotated ? p.in_channels * kTaps : kTaps;
  }
  int64_t in_stride, out_stride;
  bool rotated;
};

// The taps of `no` outputs and `ni` inputs, a vector of outputs for each.
template <typename F>
void PackTaps(const FilterView& f, const F* weight, int64_t ni, int64_t no, F* taps) {
  if (f.in_stride == kTaps) {
    Pack(Operand<F>{weight, f.out_stride, 1}, no, ni * kTaps, kBlock<F>, taps);
    return;
  }
  for (int64_t i = 0; i < ni; ++i) {
    Pack(Operand<F>{weight + i * f.in_stride, f.out_stride, 1}, no, kTaps, kBlock<F>,
         taps + i * kTaps * kBlock<F>);
  }
}
// The same of a half type, by way of a copy.
template <typename W>
void PackTaps(FilterView f, const W* weight, int64_t ni, int64_t no,
              float* taps) requires(sizeof(W) == 2) {
  constexpr int64_t kB = kBlock<float>;
  HWY_ALIGN float wide[kTaps * kB * kB];
  const bool by_out = f.in_stride == kTaps;
  const int64_t runs = by_out ? no : ni, size = (by_out ? ni : no) * kTaps;
  for (int64_t r = 0; r < runs; ++r) {
    const W* from = weight + r * (by_out ? f.out_stride : f.in_stride);
    float* const to = wide + r * kTaps * kB;
    int64_t i = 0;
    for (; i + kB <= size; i += kB)
      hn::StoreU(cpu::HWY_NAMESPACE::Read(Tag<float>(), from + i), Tag<float>(),
                 to + i);
    for (; i < size; ++i) to[i] = static_cast<float>(from[i]);
  }
  (by_out ? f.out_stride : f.in_stride) = kTaps * kB;
  PackTaps<float>(f, wide, ni, no, taps);
}

// The filters of one block of `in` and one of `out`, of which `ni` and `no` channels
// exist. `taps` has room for kTaps * kBlock * kBlock values.
template <typename F, typename W>
HWY_NOINLINE void FilterBlock(const FilterView& f, const W* weight, int64_t ni,
                              int64_t no, F* taps, F* to, int64_t width,
                              int64_t stride) {
  constexpr int64_t kB = kBlock<F>;
  PackTaps(f, weight, ni, no, taps);
  std::fill(taps + ni * kTaps * kB, taps + kTaps * kB * kB, F(0));
  for (int64_t i = 0; i < kB; ++i) {
    const F* g = taps + i * kTaps * kB;
    if (f.rotated) {
      FilterTile<F>(g + 8 * kB, -kB, to + i * width, stride);
    } else {
      FilterTile<F>(g, kB, to + i * width, stride);
    }
  }
}

template <typename F, typename W>
void TransformFilters(const ConvProblem& p, ConvPass pass, const W* weight,
                      int64_t first_block, int64_t last_block, F* u) {
  constexpr int64_t kB = kBlock<F>;
  const WinogradPass sizes(p, pass);
  const WinogradFilterPlan plan(kB, sizes.in, sizes.out);
  const FilterView f(p, pass);
  const int64_t n = (last_block - first_block) * plan.in_blocks;
  ParallelFor(n, 4, [&](int64_t first, int64_t last) {
    HWY_ALIGN F taps[kTaps * kB * kB];
    for (int64_t t = first; t < last; ++t) {
      const int64_t ob = first_block + t / plan.in_blocks, ib = t % plan.in_blocks;
      const int64_t panel = ob / 2, width = plan.Vecs(panel) * kB;
      F* const to = u + plan.PanelOffset(panel) - plan.PanelOffset(first_block / 2);
      FilterBlock<F>(
          f, weight + ob * kB * f.out_stride + ib * kB * f.in_stride,
          std::min(kB, sizes.in - ib * kB), std::min(kB, sizes.out - ob * kB), taps,
          to + ib * kB * width + ob % 2 * kB, width, plan.MatrixStride(panel));
    }
  });
}

template void TransformFilters(const ConvProblem&, ConvPass, const float*, int64_t,
                               int64_t, float*);
template void TransformFilters(const ConvProblem&, ConvPass, const Bfloat16*, int64_t,
                               int64_t, float*);
template void TransformFilters(const ConvProblem&, ConvPass, const Float16*, int64_t,
                               int64_t, float*);
template void TransformFilters(const ConvProblem&, ConvPass, const double*, int64_t,
                               int64_t, double*);

}  // namespace winograd

template <typename W>
void AllFilters(const ConvProblem& p, ConvPass pass, const W* weight, float* u) {
  const WinogradPass sizes(p, pass);
  const WinogradFilterPlan plan(winograd::kBlock<float>, sizes.in, sizes.out);
  winograd::TransformFilters(p, pass, weight, 0, plan.out_blocks, u);
}
void FiltersF32(const ConvProblem& p, ConvPass pass, const float* weight, float* u) {
  AllFilters(p, pass, weight, u);
}
void FiltersB16(const ConvProblem& p, ConvPass pass, const Bfloat16* weight, float* u) {
  AllFilters(p, pass, weight, u);
}
void FiltersF16(const ConvProblem& p, ConvPass pass, const Float16* weight, float* u) {
  AllFilters(p, pass, weight, u);
}
int64_t FloatLanes() {
  return winograd::kBlock<float>;
}

}  // namespace HWY_NAMESPACE
}  // namespace plait::cpu::kernel
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plait::cpu {
namespace kernel {

HWY_EXPORT(FloatLanes);
HWY_EXPORT(FiltersF32);
HWY_EXPORT(FiltersB16);
HWY_EXPORT(FiltersF16);
int64_t Block() {
  return HWY_DYNAMIC_DISPATCH(FloatLanes)();
}
void Filters(const ConvProblem& p, ConvPass pass, const float* weight, float* u) {
  HWY_DYNAMIC_DISPATCH(FiltersF32)(p, pass, weight, u);
}
void Filters(const ConvProblem& p, ConvPass pass, const Bfloat16* weight, float* u) {
  HWY_DYNAMIC_DISPATCH(FiltersB16)(p, pass, weight, u);
}
void Filters(const ConvProblem& p, ConvPass pass, const Float16* weight, float* u) {
  HWY_DYNAMIC_DISPATCH(FiltersF16)(p, pass, weight, u);
}

}  // namespace kernel

int64_t FloatLanes() {
  return kernel::Block();
}

bool HasWinograd(const ConvProblem& p) {
  if (p.rank != 2 || p.groups != 1 || p.Work() <= 0) return false;
  for (int axis = 1; axis < 3; ++axis) {
    if (p.kernel[axis] != 3 || p.stride[axis] != 1 || p.dilation[axis] != 1 ||
        std::min(p.pad_low[axis], p.pad_high[axis]) < 0 ||
        std::max(p.pad_low[axis], p.pad_high[axis]) > 2 || p.Out(axis) <= 0) {
      return false;
    }
  }
  return true;
}

size_t WinogradFilterBytes(const ConvProblem& p, ConvPass pass) {
  const WinogradPass sizes(p, pass);
  const WinogradFilterPlan plan(FloatLanes(), sizes.in, sizes.out);
  return static_cast<size_t>(plan.Size()) * sizeof(float);
}

template <typename T>
void WinogradFilters(const ConvProblem& p, ConvPass pass, const T* weight, float* u) {
  kernel::Filters(p, pass, weight, u);
}
template void WinogradFilters(const ConvProblem&, ConvPass, const float*, float*);
template void WinogradFilters(const ConvProblem&, ConvPass, const Bfloat16*, float*);
template void WinogradFilters(const ConvProblem&, ConvPass, const Float16*, float*);

}  // namespace plait::cpu
#endif  // HWY_ONCE
