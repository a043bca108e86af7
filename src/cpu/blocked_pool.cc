// Pooling of blocked arrays: a vector is a pixel of several channels.

#include <algorithm>
#include <limits>
#include <vector>

#include "base/parallel.h"
#include "cpu/blocked.h"

#ifndef PLAIT_CPU_BLOCKED_POOL_KERNELS
#define PLAIT_CPU_BLOCKED_POOL_KERNELS
namespace plait::cpu {
// Over planes [first, last), for one size of blocks.
struct PoolKernels {
  void (*max)(const PoolPlanes& p, int64_t first, int64_t last, const float* x,
              float* y);
  void (*max_backward)(const PoolPlanes& p, int64_t first, int64_t last,
                       const float* dy, const float* x, float* dx);
  void (*index)(const PoolPlanes& p, int64_t first, int64_t last, const float* x,
                const float* pooled, uint8_t* index);
  void (*index_backward)(const PoolPlanes& p, int64_t first, int64_t last,
                         const float* dy, const uint8_t* index, float* dx);
  void (*sum)(const PoolPlanes& p, const float* factors, int64_t first, int64_t last,
              const float* x, float* y);
  void (*sum_backward)(const PoolPlanes& p, const float* factors, int64_t first,
                       int64_t last, const float* dy, float* dx);
};
}  // namespace plait::cpu
#endif

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/blocked_pool.cc"
#include "cpu/simd/targets.h"
#include "hwy/foreach_target.h"
//
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace plait::cpu::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
// Vectors of at most a block.
template <int kBlock>
using Tag = hn::CappedTag<float, kBlock>;

// The rows and columns of a window that lie inside the plane.
struct Window {
  int64_t top, bottom, left, right;
  HWY_INLINE Window(const PoolPlanes& p, int64_t r, int64_t i) {
    const int64_t y = r * p.stride_h - p.pad_h, x = i * p.stride_w - p.pad_w;
    top = std::max<int64_t>(y, 0);
    bottom = std::min(y + p.kernel_h, p.h);
    left = std::max<int64_t>(x, 0);
    right = std::min(x + p.kernel_w, p.w);
  }
  // Calls f(pixel) in row-major order.
  template <typename F>
  HWY_INLINE void ForEach(const PoolPlanes& p, F&& f) const {
    for (int64_t a = top; a < bottom; ++a)
      for (int64_t b = left; b < right; ++b) f(a * p.w + b);
  }
};

// Calls f(window, pixel of y, first lane) for all windows and vectors of a plane.
template <int kBlock, typename F>
HWY_INLINE void ForEachWindow(const PoolPlanes& p, F&& f) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(Tag<kBlock>()));
  for (int64_t r = 0; r < p.out_h; ++r) {
    for (int64_t i = 0; i < p.out_w; ++i) {
      const Window w(p, r, i);
      for (int64_t v = 0; v < kBlock; v += lanes) f(w, r * p.out_w + i, v);
    }
  }
}

template <int kBlock>
void MaxPlanes(const PoolPlanes& p, int64_t first, int64_t last, const float* x,
               float* y) {
  using D = Tag<kBlock>;
  using V = hn::Vec<D>;
  const D d;
  for (int64_t plane = first; plane < last; ++plane) {
    const float* from = x + plane * p.h * p.w * kBlock;
    float* to = y + plane * p.out_h * p.out_w * kBlock;
    ForEachWindow<kBlock>(p, [&](const Window& w, int64_t out, int64_t v) HWY_ATTR {
      V m = hn::Set(d, std::numeric_limits<float>::lowest());
      w.ForEach(p, [&](int64_t at) HWY_ATTR {
        const V value = hn::LoadU(d, from + at * kBlock + v);
        // A NaN that is there stays: it is not less than anything.
        m = hn::IfThenElse(hn::Or(hn::Gt(value, m), hn::IsNaN(value)), value, m);
      });
      hn::StoreU(m, d, to + out * kBlock + v);
    });
  }
}

template <int kBlock>
void MaxBackwardPlanes(const PoolPlanes& p, int64_t first, int64_t last,
                       const float* dy, const float* x, float* dx) {
  using D = Tag<kBlock>;
  using V = hn::Vec<D>;
  const D d;
  for (int64_t plane = first; plane < last; ++plane) {
    const float* from = x + plane * p.h * p.w * kBlock;
    const float* dys = dy + plane * p.out_h * p.out_w * kBlock;
    float* to = dx + plane * p.h * p.w * kBlock;
    std::fill_n(to, p.h * p.w * kBlock, 0.0f);
    ForEachWindow<kBlock>(p, [&](const Window& w, int64_t out, int64_t v) HWY_ATTR {
      if (w.top >= w.bottom || w.left >= w.right) return;
      V m = hn::LoadU(d, from + (w.top * p.w + w.left) * kBlock + v);
      w.ForEach(p, [&](int64_t at) HWY_ATTR {
        const V value = hn::LoadU(d, from + at * kBlock + v);
        m = hn::IfThenElse(hn::Or(hn::Gt(value, m), hn::IsNaN(value)), value, m);
      });
      // The first one that is equal takes all. NaNs are equal here.
      const auto nan = hn::IsNaN(m);
      V left = hn::LoadU(d, dys + out * kBlock + v);
      w.ForEach(p, [&](int64_t at) HWY_ATTR {
        float* place = to + at * kBlock + v;
        const V value = hn::LoadU(d, from + at * kBlock + v);
        const auto is = hn::Or(hn::Eq(value, m), hn::And(nan, hn::IsNaN(value)));
        hn::StoreU(hn::Add(hn::LoadU(d, place), hn::IfThenElseZero(is, left)), d,
                   place);
        left = hn::IfThenZeroElse(is, left);
      });
    });
  }
}

// The places of a window inside the plane: f(pixel, place in the window).
template <typename F>
HWY_INLINE void ForEachPlace(const PoolPlanes& p, const Window& w, int64_t out, F&& f) {
  const int64_t y = out / p.out_w * p.stride_h - p.pad_h;
  const int64_t x = out % p.out_w * p.stride_w - p.pad_w;
  for (int64_t a = w.top; a < w.bottom; ++a)
    for (int64_t b = w.left; b < w.right; ++b)
      f(a * p.w + b, (a - y) * p.kernel_w + b - x);
}

template <int kBlock>
void IndexPlanes(const PoolPlanes& p, int64_t first, int64_t last, const float* x,
                 const float* pooled, uint8_t* index) {
  using D = Tag<kBlock>;
  using V = hn::Vec<D>;
  const D d;
  const hn::RebindToSigned<D> di;
  const hn::Rebind<uint8_t, D> d8;
  for (int64_t plane = first; plane < last; ++plane) {
    const float* from = x + plane * p.h * p.w * kBlock;
    const float* largest = pooled + plane * p.out_h * p.out_w * kBlock;
    uint8_t* to = index + plane * p.out_h * p.out_w * kBlock;
    ForEachWindow<kBlock>(p, [&](const Window& w, int64_t out, int64_t v) HWY_ATTR {
      const V m = hn::LoadU(d, largest + out * kBlock + v);
      const auto nan = hn::IsNaN(m);
      auto found = hn::Set(di, static_cast<int32_t>(kNoMaximum));
      ForEachPlace(p, w, out, [&](int64_t at, int64_t place) HWY_ATTR {
        const V value = hn::LoadU(d, from + at * kBlock + v);
        const auto is = hn::Or(hn::Eq(value, m), hn::And(nan, hn::IsNaN(value)));
        const auto fresh =
            hn::And(hn::RebindMask(di, is),
                    hn::Eq(found, hn::Set(di, static_cast<int32_t>(kNoMaximum))));
        found = hn::IfThenElse(fresh, hn::Set(di, static_cast<int32_t>(place)), found);
      });
      hn::StoreU(hn::DemoteTo(d8, found), d8, to + out * kBlock + v);
    });
  }
}

template <int kBlock>
void IndexBackwardPlanes(const PoolPlanes& p, int64_t first, int64_t last,
                         const float* dy, const uint8_t* index, float* dx) {
  using D = Tag<kBlock>;
  using V = hn::Vec<D>;
  const D d;
  const hn::RebindToSigned<D> di;
  const hn::Rebind<uint8_t, D> d8;
  for (int64_t plane = first; plane < last; ++plane) {
    const float* dys = dy + plane * p.out_h * p.out_w * kBlock;
    const uint8_t* from = index + plane * p.out_h * p.out_w * kBlock;
    float* to = dx + plane * p.h * p.w * kBlock;
    std::fill_n(to, p.h * p.w * kBlock, 0.0f);
    ForEachWindow<kBlock>(p, [&](const Window& w, int64_t out, int64_t v) HWY_ATTR {
      const V value = hn::LoadU(d, dys + out * kBlock + v);
      const auto found = hn::PromoteTo(di, hn::LoadU(d8, from + out * kBlock + v));
      ForEachPlace(p, w, out, [&](int64_t at, int64_t place) HWY_ATTR {
        float* sum = to + at * kBlock + v;
        const auto is = hn::Eq(found, hn::Set(di, static_cast<int32_t>(place)));
        const V part = hn::IfThenElseZero(hn::RebindMask(d, is), value);
        hn::StoreU(hn::Add(hn::LoadU(d, sum), part), d, sum);
      });
    });
  }
}

template <int kBlock>
void SumPlanes(const PoolPlanes& p, const float* factors, int64_t first, int64_t last,
               const float* x, float* y) {
  using D = Tag<kBlock>;
  using V = hn::Vec<D>;
  const D d;
  for (int64_t plane = first; plane < last; ++plane) {
    const float* from = x + plane * p.h * p.w * kBlock;
    float* to = y + plane * p.out_h * p.out_w * kBlock;
    ForEachWindow<kBlock>(p, [&](const Window& w, int64_t out, int64_t v) HWY_ATTR {
      V sum = hn::Zero(d);
      w.ForEach(p, [&](int64_t at) HWY_ATTR {
        sum = hn::Add(sum, hn::LoadU(d, from + at * kBlock + v));
      });
      hn::StoreU(hn::Mul(sum, hn::Set(d, factors[out])), d, to + out * kBlock + v);
    });
  }
}

template <int kBlock>
void SumBackwardPlanes(const PoolPlanes& p, const float* factors, int64_t first,
                       int64_t last, const float* dy, float* dx) {
  using D = Tag<kBlock>;
  using V = hn::Vec<D>;
  const D d;
  for (int64_t plane = first; plane < last; ++plane) {
    const float* dys = dy + plane * p.out_h * p.out_w * kBlock;
    float* to = dx + plane * p.h * p.w * kBlock;
    std::fill_n(to, p.h * p.w * kBlock, 0.0f);
    ForEachWindow<kBlock>(p, [&](const Window& w, int64_t out, int64_t v) HWY_ATTR {
      const V value =
          hn::Mul(hn::LoadU(d, dys + out * kBlock + v), hn::Set(d, factors[out]));
      w.ForEach(p, [&](int64_t at) HWY_ATTR {
        float* place = to + at * kBlock + v;
        hn::StoreU(hn::Add(hn::LoadU(d, place), value), d, place);
      });
    });
  }
}

PoolKernels Kernels(int64_t block) {
  const auto make = []<int kBlock>() {
    return PoolKernels{MaxPlanes<kBlock>,   MaxBackwardPlanes<kBlock>,
                       IndexPlanes<kBlock>, IndexBackwardPlanes<kBlock>,
                       SumPlanes<kBlock>,   SumBackwardPlanes<kBlock>};
  };
  return block == 16 ? make.template operator()<16>() : make.template operator()<8>();
}

}  // namespace
}  // namespace plait::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plait::cpu {
namespace {

HWY_EXPORT(Kernels);
PoolKernels KernelsOf(int64_t block) {
  return HWY_DYNAMIC_DISPATCH(Kernels)(block);
}

template <typename F>
void ForEachPlane(const PoolPlanes& p, F&& f) {
  ParallelFor(p.planes,
              std::max<int64_t>(1, (1 << 11) / std::max<int64_t>(1, p.h * p.w)), f);
}

}  // namespace

void BlockedMaxPool(const PoolPlanes& p, int64_t block, const float* x, float* y) {
  const auto run = KernelsOf(block).max;
  ForEachPlane(p, [&](int64_t first, int64_t last) { run(p, first, last, x, y); });
}
void BlockedMaxPoolBackward(const PoolPlanes& p, int64_t block, const float* dy,
                            const float* x, float* dx) {
  const auto run = KernelsOf(block).max_backward;
  ForEachPlane(p, [&](int64_t first, int64_t last) { run(p, first, last, dy, x, dx); });
}
void BlockedPoolIndex(const PoolPlanes& p, int64_t block, const float* x,
                      const float* pooled, uint8_t* index) {
  const auto run = KernelsOf(block).index;
  ForEachPlane(
      p, [&](int64_t first, int64_t last) { run(p, first, last, x, pooled, index); });
}
void BlockedPoolIndexBackward(const PoolPlanes& p, int64_t block, const float* dy,
                              const uint8_t* index, float* dx) {
  const auto run = KernelsOf(block).index_backward;
  ForEachPlane(
      p, [&](int64_t first, int64_t last) { run(p, first, last, dy, index, dx); });
}
void BlockedSumPool(const PoolPlanes& p, int64_t block, bool average, bool include_pad,
                    const float* x, float* y) {
  const std::vector<float> factors = PoolFactors(p, average, include_pad);
  const auto run = KernelsOf(block).sum;
  ForEachPlane(p, [&](int64_t first, int64_t last) {
    run(p, factors.data(), first, last, x, y);
  });
}
void BlockedSumPoolBackward(const PoolPlanes& p, int64_t block, bool average,
                            bool include_pad, const float* dy, float* dx) {
  const std::vector<float> factors = PoolFactors(p, average, include_pad);
  const auto run = KernelsOf(block).sum_backward;
  ForEachPlane(p, [&](int64_t first, int64_t last) {
    run(p, factors.data(), first, last, dy, dx);
  });
}

}  // namespace plait::cpu
#endif  // HWY_ONCE
