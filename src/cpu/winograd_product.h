// Winograd's matrix products: tiles times filters, for the Highway target at hand.
//
// Included once for each target, after hwy/foreach_target.h. Pixels and filters lie so
// that a product reads both from front to back.

#if defined(PLAIT_CPU_WINOGRAD_PRODUCT_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PLAIT_CPU_WINOGRAD_PRODUCT_H_
#undef PLAIT_CPU_WINOGRAD_PRODUCT_H_
#else
#define PLAIT_CPU_WINOGRAD_PRODUCT_H_
#endif

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "cpu/gemm_tile.h"
#include "cpu/winograd_transform.h"
#include "hwy/cache_control.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace plait::cpu::kernel {
namespace HWY_NAMESPACE {
namespace winograd {

// Input channels of one sum; several sums are added up, for the sake of the rounding
// errors.
inline constexpr int64_t kSumChannels = 128;

// m (kRows, kVecs blocks) = or, to `add`, += v (blocks, kRows, block) * u (blocks *
// block, kVecs blocks). Asks for blocks * block vectors at `ahead`, which need not be
// readable.
template <typename F, int kRows, int kVecs>
HWY_NOINLINE void Product(int64_t blocks, const F* HWY_RESTRICT v,
                          const F* HWY_RESTRICT u, bool add, F* HWY_RESTRICT m,
                          const F* ahead) {
  const Tag<F> d;
  V<F> acc[kRows][kVecs];
#pragma GCC unroll 12
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 2
    for (int j = 0; j < kVecs; ++j) acc[i][j] = hn::Zero(d);
  }
  for (; blocks > 0; --blocks) {
    for (const F* const end = v + kBlock<F>; v != end; ++v) {
      V<F> f[kVecs];
#pragma GCC unroll 2
      for (int j = 0; j < kVecs; ++j) f[j] = hn::LoadU(d, u + j * kBlock<F>);
#pragma GCC unroll 12
      for (int i = 0; i < kRows; ++i) {
        const V<F> x = hn::Set(d, v[i * kBlock<F>]);
#pragma GCC unroll 2
        for (int j = 0; j < kVecs; ++j) acc[i][j] = hn::MulAdd(x, f[j], acc[i][j]);
      }
      u += kVecs * kBlock<F>;
      hwy::Prefetch(ahead);
      ahead += kBlock<F>;
    }
    v += (kRows - 1) * kBlock<F>;
  }
#pragma GCC unroll 12
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 2
    for (int j = 0; j < kVecs; ++j) {
      F* const to = m + (i * kVecs + j) * kBlock<F>;
      hn::StoreU(add ? hn::Add(hn::LoadU(d, to), acc[i][j]) : acc[i][j], d, to);
    }
  }
}

template <typename F>
using ProductFn = void (*)(int64_t blocks, const F* v, const F* u, bool add, F* m,
                           const F* ahead);

// The product of 1 <= rows <= kTileRows and 1 <= vecs <= 2.
template <typename F>
ProductFn<F> FindProduct(int rows, int64_t vecs) {
  static constexpr auto kTable = []<size_t... I>(std::index_sequence<I...>) {
    return std::array<std::array<ProductFn<F>, 2>, sizeof...(I)>{
        {{Product<F, I + 1, 1>, Product<F, I + 1, 2>}...}};
  }
  (std::make_index_sequence<kTileRows>());
  return kTable[rows - 1][vecs - 1];
}

}  // namespace winograd
}  // namespace HWY_NAMESPACE
}  // namespace plait::cpu::kernel
HWY_AFTER_NAMESPACE();

#endif  // PLAIT_CPU_WINOGRAD_PRODUCT_H_
