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

// The filters of one block of `in` and one of `out`, of which `ni` and `no` channels
// exist. `taps` has room for kTaps * kBlock * kBlock values.
HWY_NOINLINE void FilterBlock(const FilterView& f, const float* weight, int64_t ni,
                              int64_t no, float* taps, float* to, int64_t width,
                              int64_t stride) {
  if (f.in_stride == kTaps) {
    Pack(Operand<float>{weight, f.out_stride, 1}, no, ni * kTaps, kBlock, taps);
  } else {
    for (int64_t i = 0; i < ni; ++i) {
      Pack(Operand<float>{weight + i * f.in_stride, f.out_stride, 1}, no, kTaps, kBlock,
           taps + i * kTaps * kBlock);
    }
  }
  std::fill(taps + ni * kTaps * kBlock, taps + kTaps * kBlock * kBlock, 0.0f);
  for (int64_t i = 0; i < kBlock; ++i) {
    const float* g = taps + i * kTaps * kBlock;
    if (f.rotated) {
      FilterTile(g + 8 * kBlock, -kBlock, to + i * width, stride);
    } else {
      FilterTile(g, kBlock, to + i * width, stride);
    }
  }
}

void TransformFilters(const ConvProblem& p, ConvPass pass, const float* weight,
                      int64_t first_block, int64_t last_block, float* u) {
  const WinogradPass sizes(p, pass);
  const WinogradFilterPlan plan(kBlock, sizes.in, sizes.out);
  const FilterView f(p, pass);
  const int64_t n = (last_block - first_block) * plan.in_blocks;
  ParallelFor(n, 4, [&](int64_t first, int64_t last) {
    HWY_ALIGN float taps[kTaps * kBlock * kBlock];
    for (int64_t t = first; t < last; ++t) {
      const int64_t ob = first_block + t / plan.in_blocks, ib = t % plan.in_blocks;
      const int64_t panel = ob / 2, width = plan.Vecs(panel) * kBlock;
      float* const to = u + plan.PanelOffset(panel) - plan.PanelOffset(first_block / 2);
      FilterBlock(f, weight + ob * kBlock * f.out_stride + ib * kBlock * f.in_stride,
                  std::min(kBlock, sizes.in - ib * kBlock),
                  std::min(kBlock, sizes.out - ob * kBlock), taps,
                  to + ib * kBlock * width + ob % 2 * kBlock, width,
                  plan.MatrixStride(panel));
    }
  });
}

}  // namespace winograd

void WinogradFilters(const ConvProblem& p, ConvPass pass, const float* weight,
                     float* u) {
  const WinogradPass sizes(p, pass);
  const WinogradFilterPlan plan(winograd::kBlock, sizes.in, sizes.out);
  winograd::TransformFilters(p, pass, weight, 0, plan.out_blocks, u);
}
int64_t FloatLanes() {
  return winograd::kBlock;
}

}  // namespace HWY_NAMESPACE
}  // namespace plait::cpu::kernel
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plait::cpu {
namespace kernel {

HWY_EXPORT(FloatLanes);
HWY_EXPORT(WinogradFilters);
int64_t Block() {
  return HWY_DYNAMIC_DISPATCH(FloatLanes)();
}
void Filters(const ConvProblem& p, ConvPass pass, const float* weight, float* u) {
  HWY_DYNAMIC_DISPATCH(WinogradFilters)(p, pass, weight, u);
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

void WinogradFilters(const ConvProblem& p, ConvPass pass, const float* weight,
                     float* u) {
  kernel::Filters(p, pass, weight, u);
}

}  // namespace plait::cpu
#endif  // HWY_ONCE
