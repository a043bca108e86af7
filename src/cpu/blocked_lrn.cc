// Sums over neighbouring channels of blocked arrays, and normalisation by them.

#include <algorithm>
#include <cmath>

#include "base/parallel.h"
#include "cpu/blocked.h"
#include "cpu/scratch.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/blocked_lrn.cc"
#include "cpu/simd/targets.h"
#include "hwy/foreach_target.h"
//
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace plait::cpu::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using D = hn::CappedTag<float, 8>;  // in blocks of any size
using V = hn::Vec<D>;

// (k + scale * sum)^-beta.
V Factor(V sum, const LocalResponse& r) {
  const D d;
  const V n = hn::Add(hn::Set(d, r.k), hn::Mul(hn::Set(d, r.scale), sum));
  if (r.beta == 0.75f) {
    const V root = hn::Sqrt(n);
    return hn::Div(hn::Set(d, 1.0f), hn::Mul(root, hn::Sqrt(root)));
  }
  HWY_ALIGN float part[8];
  hn::Store(n, d, part);
  for (size_t i = 0; i < hn::Lanes(d); ++i) part[i] = std::pow(part[i], -r.beta);
  return hn::Load(d, part);
}

// Pixels [first, last) of all samples. `line` has room for all channels, `half` more on
// both sides and a block. A pixel is read before it is written.
void Pixels(const BlockedArray& a, const LocalResponse& r, int64_t first, int64_t last,
            const float* x, float* line, float* y) {
  const D d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d)), half = r.window / 2;
  const int64_t blocks = a.blocks(), step = a.size * a.block;
  std::fill_n(line, blocks * a.block + 2 * half + a.block, 0.0f);
  for (int64_t i = first; i < last; ++i) {
    const int64_t at = i / a.size * blocks * step + i % a.size * a.block;
    for (int64_t b = 0; b < blocks; ++b) {
      for (int64_t v = 0; v < a.block; v += lanes) {
        const V value = hn::LoadU(d, x + at + b * step + v);
        hn::StoreU(r.normalise ? hn::Mul(value, value) : value, d,
                   line + half + b * a.block + v);
      }
    }
    for (int64_t b = 0; b < blocks; ++b) {
      for (int64_t v = 0; v < a.block; v += lanes) {
        const int64_t c = b * a.block + v;
        V sum = hn::LoadU(d, line + c);
        for (int64_t k = 1; k < r.window; ++k)
          sum = hn::Add(sum, hn::LoadU(d, line + c + k));
        float* to = y + at + b * step + v;
        if (r.normalise)
          sum = hn::Mul(hn::LoadU(d, x + at + b * step + v), Factor(sum, r));
        if (c + lanes > a.channels) {  // zeros fill the last block up
          const int64_t there = std::max<int64_t>(0, a.channels - c);
          sum = hn::IfThenElseZero(hn::FirstN(d, static_cast<size_t>(there)), sum);
        }
        hn::StoreU(sum, d, to);
      }
    }
  }
}

}  // namespace
}  // namespace plait::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plait::cpu {
namespace {
HWY_EXPORT(Pixels);
}  // namespace

void BlockedChannelWindows(const BlockedArray& a, const LocalResponse& r,
                           const float* x, float* y) {
  const auto run = HWY_DYNAMIC_DISPATCH(Pixels);
  const int64_t line = a.blocks() * a.block + r.window + a.block;
  ParallelFor(a.batch * a.size, std::max<int64_t>(1, (1 << 14) / line),
              [&](int64_t first, int64_t last) {
                const Scratch scratch(Scratch::Bytes<float>(line));
                run(a, r, first, last, x, scratch.As<float>(), y);
              });
}

}  // namespace plait::cpu
#endif  // HWY_ONCE
