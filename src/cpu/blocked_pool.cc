// Pooling of blocked arrays: a vector is a pixel of several channels.

#include <algorithm>
#include <limits>
#include <vector>

#include "base/parallel.h"
#include "cpu/blocked.h"
#include "cpu/scratch.h"

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

// The rows and columns of a window that lie inside the plane. kSize: of its rows and
// columns, or 0 where they are not known in advance.
template <int kSize>
struct Window {
  int64_t y, x, top, bottom, left, right;
  HWY_INLINE Window(const PoolPlanes& p, int64_t r, int64_t i)
      : y(r * p.stride_h - p.pad_h), x(i * p.stride_w - p.pad_w) {
    top = std::max<int64_t>(y, 0);
    bottom = std::min(y + p.kernel_h, p.h);
    left = std::max<int64_t>(x, 0);
    right = std::min(x + p.kernel_w, p.w);
  }
  // Calls f(pixel, place in the window) in row-major order.
  template <typename F>
  HWY_INLINE void ForEach(const PoolPlanes& p, F&& f) const {
    if (kSize > 0 && bottom - top == kSize && right - left == kSize) {
#pragma GCC unroll 3
      for (int a = 0; a < kSize; ++a) {
#pragma GCC unroll 3
        for (int b = 0; b < kSize; ++b) f((y + a) * p.w + x + b, a * kSize + b);
      }
      return;
    }
    for (int64_t a = top; a < bottom; ++a)
      for (int64_t b = left; b < right; ++b)
        f(a * p.w + b, (a - y) * p.kernel_w + b - x);
  }
};

// Calls f(window, pixel of y, first lane) for all windows and vectors of a plane.
template <int kBlock, int kSize, typename F>
HWY_INLINE void WindowsOf(const PoolPlanes& p, F&& f) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(Tag<kBlock>()));
  for (int64_t r = 0; r < p.out_h; ++r) {
    for (int64_t i = 0; i < p.out_w; ++i) {
      const Window<kSize> w(p, r, i);
      for (int64_t v = 0; v < kBlock; v += lanes) f(w, r * p.out_w + i, v);
    }
  }
}
template <int kBlock, typename F>
HWY_INLINE void ForEachWindow(const PoolPlanes& p, F&& f) {
  if (p.kernel_h == 3 && p.kernel_w == 3) return WindowsOf<kBlock, 3>(p, f);
  if (p.kernel_h == 2 && p.kernel_w == 2) return WindowsOf<kBlock, 2>(p, f);
  WindowsOf<kBlock, 0>(p, f);
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
    ForEachWindow<kBlock>(p, [&](const auto& w, int64_t out, int64_t v) HWY_ATTR {
      V m = hn::Set(d, std::numeric_limits<float>::lowest());
      w.ForEach(p, [&](int64_t at, int64_t) HWY_ATTR {
        const V value = hn::LoadU(d, from + at * kBlock + v);
        // A NaN that is there stays: it is not less than anything.
        m = hn::IfThenElse(hn::Or(hn::Gt(value, m), hn::IsNaN(value)), value, m);
      });
      hn::StoreU(m, d, to + out * kBlock + v);
    });
  }
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
    ForEachWindow<kBlock>(p, [&](const auto& w, int64_t out, int64_t v) HWY_ATTR {
      const V m = hn::LoadU(d, largest + out * kBlock + v);
      const auto nan = hn::IsNaN(m);
      auto found = hn::Set(di, static_cast<int32_t>(kNoMaximum));
      w.ForEach(p, [&](int64_t at, int64_t place) HWY_ATTR {
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

// The windows [first, last) along an axis that a pixel lies in.
struct Span {
  int32_t first, last;
};
void FindSpans(int64_t size, int64_t kernel, int64_t stride, int64_t pad, int64_t out,
               std::vector<Span>& spans) {
  spans.clear();
  for (int64_t i = pad; i < size + pad; ++i) {
    const int64_t last = std::min(out, i / stride + 1);
    const int64_t first = std::min(last, i < kernel ? 0 : (i - kernel) / stride + 1);
    spans.push_back({static_cast<int32_t>(first), static_cast<int32_t>(last)});
  }
}

struct Spans {
  explicit Spans(const PoolPlanes& p) {
    FindSpans(p.h, p.kernel_h, p.stride_h, p.pad_h, p.out_h, rows);
    FindSpans(p.w, p.kernel_w, p.stride_w, p.pad_w, p.out_w, columns);
  }
  std::vector<Span> rows, columns;
};

// What kRows x kColumns windows (0: as many as there are) give to pixel (a, b), in
// their order.
template <int kBlock, int kRows, int kColumns>
HWY_INLINE hn::Vec<Tag<kBlock>> Given(const PoolPlanes& p, int64_t a, Span rows,
                                      int64_t b, Span columns, const float* dys,
                                      const uint8_t* index) {
  const Tag<kBlock> d;
  const hn::RebindToSigned<Tag<kBlock>> di;
  const hn::Rebind<uint8_t, Tag<kBlock>> d8;
  auto sum = hn::Zero(d);
  const int64_t tall = kRows > 0 ? kRows : rows.last - rows.first;
  const int64_t wide = kColumns > 0 ? kColumns : columns.last - columns.first;
#pragma GCC unroll 3
  for (int64_t r = 0; r < tall; ++r) {
    const int64_t place = (a + p.pad_h - (rows.first + r) * p.stride_h) * p.kernel_w +
                          b + p.pad_w - columns.first * p.stride_w;
    const int64_t at = ((rows.first + r) * p.out_w + columns.first) * kBlock;
#pragma GCC unroll 3
    for (int64_t i = 0; i < wide; ++i) {
      const auto found = hn::PromoteTo(di, hn::LoadU(d8, index + at + i * kBlock));
      const auto is =
          hn::Eq(found, hn::Set(di, static_cast<int32_t>(place - i * p.stride_w)));
      sum = hn::Add(sum, hn::IfThenElseZero(hn::RebindMask(d, is),
                                            hn::LoadU(d, dys + at + i * kBlock)));
    }
  }
  return sum;
}

template <int kBlock, int kRows>
void GatherRow(const PoolPlanes& p, const Spans& spans, int64_t a, const float* dys,
               const uint8_t* index, float* to) {
  const Tag<kBlock> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const Span rows = spans.rows[a];
  for (int64_t b = 0; b < p.w; ++b, to += kBlock) {
    const Span columns = spans.columns[b];
    const auto give = [&]<int kColumns>() HWY_ATTR {
      for (int64_t v = 0; v < kBlock; v += lanes)
        hn::StoreU(
            Given<kBlock, kRows, kColumns>(p, a, rows, b, columns, dys + v, index + v),
            d, to + v);
    };
    switch (columns.last - columns.first) {
      case 1:
        give.template operator()<1>();
        break;
      case 2:
        give.template operator()<2>();
        break;
      case 3:
        give.template operator()<3>();
        break;
      default:
        give.template operator()<0>();
    }
  }
}

// Adds up for each pixel of a plane what the windows give whose maximum it is.
template <int kBlock>
void Gather(const PoolPlanes& p, const Spans& spans, const float* dys,
            const uint8_t* index, float* to) {
  for (int64_t a = 0; a < p.h; ++a, to += p.w * kBlock) {
    const int32_t count = spans.rows[a].last - spans.rows[a].first;
    (count == 1   ? GatherRow<kBlock, 1>
     : count == 2 ? GatherRow<kBlock, 2>
     : count == 3 ? GatherRow<kBlock, 3>
                  : GatherRow<kBlock, 0>)(p, spans, a, dys, index, to);
  }
}

template <int kBlock>
void IndexBackwardPlanes(const PoolPlanes& p, int64_t first, int64_t last,
                         const float* dy, const uint8_t* index, float* dx) {
  const Spans spans(p);
  const int64_t size = p.out_h * p.out_w * kBlock;
  for (int64_t plane = first; plane < last; ++plane)
    Gather<kBlock>(p, spans, dy + plane * size, index + plane * size,
                   dx + plane * p.h * p.w * kBlock);
}

// The place of the first largest element of each window of a plane, of the first NaN
// where there is one.
template <int kBlock>
void FindMaxima(const PoolPlanes& p, const float* from, uint8_t* to) {
  using D = Tag<kBlock>;
  using V = hn::Vec<D>;
  const D d;
  const hn::RebindToSigned<D> di;
  const hn::Rebind<uint8_t, D> d8;
  ForEachWindow<kBlock>(p, [&](const auto& w, int64_t out, int64_t v) HWY_ATTR {
    V m = hn::Set(d, -std::numeric_limits<float>::infinity());
    auto found = hn::Set(di, static_cast<int32_t>(kNoMaximum));
    bool none = true;
    w.ForEach(p, [&](int64_t at, int64_t place) HWY_ATTR {
      const V value = hn::LoadU(d, from + at * kBlock + v);
      const auto here = hn::Set(di, static_cast<int32_t>(place));
      if (none) {
        m = value;
        found = here;
        none = false;
        return;
      }
      // Larger or NaN, but after a NaN nothing is.
      const auto is = hn::AndNot(hn::Le(value, m), hn::Eq(m, m));
      m = hn::IfThenElse(is, value, m);
      found = hn::IfThenElse(hn::RebindMask(di, is), here, found);
    });
    hn::StoreU(hn::DemoteTo(d8, found), d8, to + out * kBlock + v);
  });
}

// Windows whose places do not fit a byte.
template <int kBlock>
void LargeMaxBackwardPlanes(const PoolPlanes& p, int64_t first, int64_t last,
                            const float* dy, const float* x, float* dx) {
  using D = Tag<kBlock>;
  using V = hn::Vec<D>;
  const D d;
  for (int64_t plane = first; plane < last; ++plane) {
    const float* from = x + plane * p.h * p.w * kBlock;
    const float* dys = dy + plane * p.out_h * p.out_w * kBlock;
    float* to = dx + plane * p.h * p.w * kBlock;
    std::fill_n(to, p.h * p.w * kBlock, 0.0f);
    ForEachWindow<kBlock>(p, [&](const auto& w, int64_t out, int64_t v) HWY_ATTR {
      if (w.top >= w.bottom || w.left >= w.right) return;
      V m = hn::LoadU(d, from + (w.top * p.w + w.left) * kBlock + v);
      w.ForEach(p, [&](int64_t at, int64_t) HWY_ATTR {
        const V value = hn::LoadU(d, from + at * kBlock + v);
        m = hn::IfThenElse(hn::Or(hn::Gt(value, m), hn::IsNaN(value)), value, m);
      });
      // The first one that is equal takes all. NaNs are equal here.
      const auto nan = hn::IsNaN(m);
      V left = hn::LoadU(d, dys + out * kBlock + v);
      w.ForEach(p, [&](int64_t at, int64_t) HWY_ATTR {
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

template <int kBlock>
void MaxBackwardPlanes(const PoolPlanes& p, int64_t first, int64_t last,
                       const float* dy, const float* x, float* dx) {
  if (p.kernel_h * p.kernel_w >= kNoMaximum)
    return LargeMaxBackwardPlanes<kBlock>(p, first, last, dy, x, dx);
  const Spans spans(p);
  const int64_t size = p.out_h * p.out_w * kBlock;
  const Scratch index(static_cast<size_t>(size));
  for (int64_t plane = first; plane < last; ++plane) {
    const int64_t at = plane * p.h * p.w * kBlock;
    FindMaxima<kBlock>(p, x + at, index.As<uint8_t>());
    Gather<kBlock>(p, spans, dy + plane * size, index.As<uint8_t>(), dx + at);
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
    ForEachWindow<kBlock>(p, [&](const auto& w, int64_t out, int64_t v) HWY_ATTR {
      V sum = hn::Zero(d);
      w.ForEach(p, [&](int64_t at, int64_t) HWY_ATTR {
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
    ForEachWindow<kBlock>(p, [&](const auto& w, int64_t out, int64_t v) HWY_ATTR {
      const V value =
          hn::Mul(hn::LoadU(d, dys + out * kBlock + v), hn::Set(d, factors[out]));
      w.ForEach(p, [&](int64_t at, int64_t) HWY_ATTR {
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
