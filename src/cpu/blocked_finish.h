// The end of a convolution's sums, for the Highway target at hand: see ConvFinish.
//
// Included once for each target, after hwy/foreach_target.h.

#if defined(PLAIT_CPU_BLOCKED_FINISH_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PLAIT_CPU_BLOCKED_FINISH_H_
#undef PLAIT_CPU_BLOCKED_FINISH_H_
#else
#define PLAIT_CPU_BLOCKED_FINISH_H_
#endif

#include <algorithm>
#include <limits>

#include "cpu/blocked_direct.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace plait::cpu::HWY_NAMESPACE {

// Finishes vectors of channels from `channel` on; there are `channels` of them.
template <class D>
class Finish {
  using V = hwy::HWY_NAMESPACE::Vec<D>;

 public:
  HWY_INLINE Finish(const ConvFinish& f, int64_t channel, int64_t channels) {
    namespace hn = hwy::HWY_NAMESPACE;
    const D d;
    const int64_t there = channels - channel,
                  lanes = static_cast<int64_t>(hn::Lanes(d));
    if (f.bias == nullptr || there <= 0) {
      bias_ = hn::Zero(d);
    } else if (there >= lanes) {
      bias_ = hn::LoadU(d, f.bias + channel);
    } else {
      HWY_ALIGN float part[16] = {};
      std::copy_n(f.bias + channel, there, part);
      bias_ = hn::Load(d, part);
    }
    constexpr float kInfinity = std::numeric_limits<float>::infinity();
    low_ = hn::Set(d, f.bounded ? f.low : -kInfinity);
    high_ = hn::Set(d, f.bounded ? f.high : kInfinity);
  }
  // other: null, or where the other array has this pixel, `at` floats on.
  HWY_INLINE V operator()(V sum, const float* other, int64_t at) const {
    namespace hn = hwy::HWY_NAMESPACE;
    V v = hn::Add(sum, bias_);
    if (other != nullptr) v = hn::Add(v, hn::LoadU(D(), other + at));
#if HWY_ARCH_X86 && HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128
    // These instructions give their second operand where one is NaN.
    return hn::Min(high_, hn::Max(low_, v));
#else
    v = hn::IfThenElse(hn::Lt(v, low_), low_, v);
    return hn::IfThenElse(hn::Gt(v, high_), high_, v);
#endif
  }

 private:
  V bias_, low_, high_;
};

}  // namespace plait::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // PLAIT_CPU_BLOCKED_FINISH_H_
