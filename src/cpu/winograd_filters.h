// Winograd's transform of filters, for the Highway target at hand.
//
// Included once for each target, after hwy/foreach_target.h.

#if defined(PLAIT_CPU_WINOGRAD_FILTERS_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PLAIT_CPU_WINOGRAD_FILTERS_H_
#undef PLAIT_CPU_WINOGRAD_FILTERS_H_
#else
#define PLAIT_CPU_WINOGRAD_FILTERS_H_
#endif

#include <cstdint>

#include "cpu/conv.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace plait::cpu::kernel {
namespace HWY_NAMESPACE {
namespace winograd {

// The filters of the blocks [first, last) of outputs, which begin a panel of the
// WinogradFilterPlan; `u` is where that panel begins.
// F, W: float and float or bfloat16, or double and double.
template <typename F, typename W>
void TransformFilters(const ConvProblem& p, ConvPass pass, const W* weight,
                      int64_t first, int64_t last, F* u);

}  // namespace winograd
}  // namespace HWY_NAMESPACE
}  // namespace plait::cpu::kernel
HWY_AFTER_NAMESPACE();

#endif  // PLAIT_CPU_WINOGRAD_FILTERS_H_
