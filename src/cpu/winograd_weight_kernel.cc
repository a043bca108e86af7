// Winograd's convolution: the gradient of the filters.

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "base/parallel.h"
#include "cpu/scratch.h"
#include "cpu/winograd.h"
#include "cpu/winograd_plan.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/winograd_weight_kernel.cc"
#include "cpu/simd/targets.h"
#include "hwy/foreach_target.h"
//
#include "cpu/gemm_pack.h"
#include "cpu/gemm_tile.h"
#include "cpu/winograd_gather.h"
#include "cpu/winograd_transform.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace plait::cpu::kernel {
namespace HWY_NAMESPACE {
namespace winograd {

constexpr int64_t kTaps = 9;
// Tiles of a sum; the sums are added up then. Many filters want long sums, as each sum
// goes over all of the gradients, which are in memory then.
constexpr int64_t kShortSum = 96, kLongSum = 264;
constexpr int64_t kManyFilters = 1 << 22;
// Few filters are worked on in up to 8 shares of at least 4 sums, with gradients of
// their own; so threads need not wait for each other.
constexpr int64_t kFewFilters = 1 << 19, kMostShares = 8, kSumsOfShare = 4;
// Values of a long sum, 40 MB.
constexpr int64_t kMostValues = 10 << 20;
// Values that the threads transform before they multiply, unless one sum has more.
constexpr int64_t kRoundValues = 1 << 22;
// Input blocks and panels of outputs that one thread works on: for each point, a
// group's values and gradients should be in its second-level cache.
constexpr int64_t kGroupBlocks = 8, kGroupPanels = 8;
// Rows of a register tile, a divisor of kBlock<F>.
template <typename F>
constexpr int kGradientRows = HWY_TARGET <= HWY_AVX3&& kBlock<F> >= 8 ? 8
                              : kBlock<F> >= 4                        ? 4
                                                                      : 1;

// m (kGradientRows, kVecs blocks, rows `width` apart) = or += the sum over n tiles of
// v (n, block) by d (kVecs, n, block).
template <typename F, int kVecs>
HWY_NOINLINE void SumProducts(int64_t n, const F* HWY_RESTRICT v,
                              const F* HWY_RESTRICT d_values, bool add,
                              F* HWY_RESTRICT m) {
  const Tag<F> d;
  constexpr int64_t kWidth = kVecs * kBlock<F>;
  V<F> acc[kGradientRows<F>][kVecs];
#pragma GCC unroll 8
  for (int i = 0; i < kGradientRows<F>; ++i) {
#pragma GCC unroll 2
    for (int j = 0; j < kVecs; ++j) acc[i][j] = hn::Zero(d);
  }
  const F* second = d_values + (kVecs - 1) * n * kBlock<F>;
  for (int64_t t = 0; t < n;
       ++t, v += kBlock<F>, d_values += kBlock<F>, second += kBlock<F>) {
    V<F> f[kVecs];
    f[0] = hn::LoadU(d, d_values);
    if (kVecs == 2) f[kVecs - 1] = hn::LoadU(d, second);
#pragma GCC unroll 8
    for (int i = 0; i < kGradientRows<F>; ++i) {
      const V<F> x = hn::Set(d, v[i]);
#pragma GCC unroll 2
      for (int j = 0; j < kVecs; ++j) acc[i][j] = hn::MulAdd(x, f[j], acc[i][j]);
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < kGradientRows<F>; ++i) {
#pragma GCC unroll 2
    for (int j = 0; j < kVecs; ++j) {
      F* to = m + i * kWidth + j * kBlock<F>;
      hn::StoreU(add ? hn::Add(hn::LoadU(d, to), acc[i][j]) : acc[i][j], d, to);
    }
  }
}

// n is a multiple of kBlock<F>.
template <typename F>
void AddTo(F* HWY_RESTRICT sum, const F* HWY_RESTRICT x, int64_t n) {
  const Tag<F> d;
  for (int64_t i = 0; i < n; i += kBlock<F>) {
    hn::StoreU(hn::Add(hn::LoadU(d, sum + i), hn::LoadU(d, x + i)), d, sum + i);
  }
}

// F: what is computed in. S: of images and gradients; F, or a half type where F is
// float.
template <typename F, typename S>
class WeightGradient {
 public:
  explicit WeightGradient(const WinogradWeightCall<F, S>& c)
      : p_(c.problem, ConvPass::kForward),
        plan_(kB, p_.in, p_.out),
        x_{c.x, p_.in, p_.in_h, p_.in_w, c.layout},
        dy_{c.dy, p_.out, p_.out_h, p_.out_w, c.layout},
        dweight_(c.dweight),
        dbias_(c.dbias),
        sums_(CeilDiv(p_.Tiles(), SumTiles(plan_))),
        shares_(plan_.Size() > kFewFilters
                    ? 1
                    : std::clamp<int64_t>(sums_ / kSumsOfShare, 1, kMostShares)),
        tiles_(CeilDiv(p_.Tiles(), sums_)),
        x_values_(Values<F>::Size(tiles_ * plan_.in_blocks)),
        dy_values_(Values<F>::Size(tiles_ * plan_.out_blocks)) {
    const int64_t threads = ComputeThreads();
    together_ = threads > shares_;
    if (together_) {
      round_ = std::clamp<int64_t>(kRoundValues / (x_values_ + dy_values_), 1,
                                   std::min(threads, sums_));
    }
    const auto cut = [&] {
      in_groups_ = CeilDiv(plan_.in_blocks, group_blocks_);
      groups_ = CeilDiv(plan_.panels, group_panels_) * in_groups_;
    };
    for (cut(); together_ && groups_ < 2 * threads; cut()) {
      if (group_panels_ * group_blocks_ == 1) break;
      (group_panels_ > 1 ? group_panels_ : group_blocks_) /= 2;
    }
  }

  void Run() {
    const int64_t channels = plan_.out_blocks * kB;
    const Scratch sums(Scratch::Bytes<F>(sums_ * channels));
    channel_sums_ = sums.As<F>();
    const int64_t size = sums_ == 1 ? 0 : shares_ * groups_ * GroupSize();
    const Scratch gradients(Scratch::Bytes<F>(size));
    gradients_ = gradients.As<F>();
    if (together_) {
      Shares(0, shares_);
    } else {
      ParallelFor(shares_, 1,
                  [&](int64_t first, int64_t last) { Shares(first, last); });
    }
    if (shares_ > 1) AddShares();
    for (int64_t c = 0; dbias_ != nullptr && c < p_.out; ++c) {
      double sum = 0;
      for (int64_t i = 0; i < sums_; ++i) sum += channel_sums_[i * channels + c];
      dbias_[c] = static_cast<S>(static_cast<F>(sum));
    }
  }

 private:
  static constexpr int64_t kB = kBlock<F>;
  // Depends on sizes only, and so do the bits of the result.
  static int64_t SumTiles(const WinogradFilterPlan& plan) {
    if (plan.Size() < kManyFilters) return kShortSum;
    const int64_t tile = kPoints * (plan.in_blocks + plan.out_blocks) * kB;
    return std::clamp(kMostValues / tile, kShortSum, kLongSum);
  }
  // A part of the gradients: 36 matrices, one block apart, of (panel, in, width).
  struct Group {
    int64_t first_panel, last_panel, first_block, last_block;
    int64_t PanelOffset(int64_t panel) const {
      return (panel - first_panel) * (last_block - first_block) * kB * 2 * kB;
    }
  };
  Group GroupAt(int64_t i) const {
    const int64_t panel = i / in_groups_ * group_panels_;
    const int64_t block = i % in_groups_ * group_blocks_;
    return {panel, std::min(panel + group_panels_, plan_.panels), block,
            std::min(block + group_blocks_, plan_.in_blocks)};
  }
  int64_t MatrixStride(const Group& g) const {
    const int64_t out =
        std::min(2 * g.last_panel, plan_.out_blocks) - 2 * g.first_panel;
    return (g.last_block - g.first_block) * kB * out * kB + kB;
  }
  int64_t GroupSize() const {
    return kPoints * (group_blocks_ * group_panels_ * 2 * kB + 1) * kB;
  }
  int64_t First(int64_t sum) const { return p_.Tiles() * sum / sums_; }
  int64_t Tiles(int64_t sum) const { return First(sum + 1) - First(sum); }

  // Some sums of a share, transformed into `values`.
  struct Round {
    int64_t share, first, last;
    bool add, finish;  // whether it is not the first, whether it is the very last one
    F* values;
  };
  Values<F> XValues(const Round& r, int64_t sum) const {
    return {r.values + (sum - r.first) * (x_values_ + dy_values_),
            Values<F>::Stride(Tiles(sum) * plan_.in_blocks)};
  }
  Values<F> DyValues(const Round& r, int64_t sum) const {
    return {XValues(r, sum).data + x_values_,
            Values<F>::Stride(Tiles(sum) * plan_.out_blocks)};
  }

  // On all threads, or on one of several.
  void Shares(int64_t first, int64_t last) const {
    const Scratch values(Scratch::Bytes<F>(round_ * (x_values_ + dy_values_)));
    for (int64_t share = first; share < last; ++share) {
      const int64_t begin = sums_ * share / shares_,
                    end = sums_ * (share + 1) / shares_;
      for (int64_t sum = begin; sum < end; sum += round_) {
        const int64_t stop = std::min(sum + round_, end);
        const Round round{
            share, sum, stop, sum > begin, stop == end && shares_ == 1, values.As<F>()};
        Gather(round);
        Multiply(round);
      }
    }
  }
  void Gather(const Round& round) const {
    const int64_t blocks = plan_.in_blocks + plan_.out_blocks;
    const int64_t count = round.last - round.first;
    ParallelFor(count * blocks, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t sum = round.first + i / blocks, tile = First(sum), n = Tiles(sum);
        const int64_t in = i % blocks, out = in - plan_.in_blocks;
        if (out < 0) {
          const Values<F> v = XValues(round, sum);
          GatherData(p_, x_, in, tile, n, v.data + in * n * kB, v.stride);
        } else {
          const Values<F> v = DyValues(round, sum);
          GatherGradient(p_, dy_, out, tile, n, v.data + out * n * kB, v.stride,
                         channel_sums_ + (sum * plan_.out_blocks + out) * kB);
        }
      }
    });
  }

  void Multiply(const Round& round) const {
    ParallelFor(groups_, 1, [&](int64_t begin, int64_t end) {
      const Scratch one(sums_ == 1 ? Scratch::Bytes<F>(GroupSize()) : 0);
      for (int64_t i = begin; i < end; ++i) {
        F* const m = sums_ == 1 ? one.As<F>() : Gradients(round.share, i);
        for (int64_t sum = round.first; sum < round.last; ++sum) {
          MultiplyGroup(XValues(round, sum), DyValues(round, sum), Tiles(sum),
                        GroupAt(i), round.add || sum > round.first, m);
        }
        if (round.finish) Finish(GroupAt(i), m);
      }
    });
  }
  F* Gradients(int64_t share, int64_t group) const {
    return gradients_ + (share * groups_ + group) * GroupSize();
  }
  // Adds one sum to a group of the gradients.
  void MultiplyGroup(const Values<F>& x, const Values<F>& dy, int64_t n, const Group& g,
                     bool add, F* m) const {
    for (int64_t i = 0; i < kPoints; ++i, m += MatrixStride(g)) {
      for (int64_t panel = g.first_panel; panel < g.last_panel; ++panel) {
        const bool two = plan_.Vecs(panel) == 2;
        const F* d = dy.data + i * dy.stride + 2 * panel * n * kB;
        F* to = m + g.PanelOffset(panel);
        for (int64_t block = g.first_block; block < g.last_block; ++block) {
          const F* v = x.data + i * x.stride + block * n * kB;
          for (int64_t r = 0; r < kB; r += kGradientRows<F>) {
            (two ? SumProducts<F, 2> : SumProducts<F, 1>)(n, v + r, d, add, to);
            to += kGradientRows<F> * plan_.Vecs(panel) * kB;
          }
        }
      }
    }
  }
  // The shares in their order.
  void AddShares() const {
    ParallelFor(groups_, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const Group g = GroupAt(i);
        const int64_t stride = MatrixStride(g);
        for (int64_t share = 1; share < shares_; ++share) {
          for (int64_t k = 0; k < kPoints; ++k) {
            AddTo(Gradients(0, i) + k * stride, Gradients(share, i) + k * stride,
                  stride - kB);
          }
        }
        Finish(g, Gradients(0, i));
      }
    });
  }
  void Finish(const Group& g, const F* m) const {
    HWY_ALIGN F taps[kTaps * kB * kB];
    for (int64_t panel = g.first_panel; panel < g.last_panel; ++panel) {
      for (int64_t block = g.first_block; block < g.last_block; ++block) {
        const int64_t width = plan_.Vecs(panel) * kB;
        const F* from = m + g.PanelOffset(panel) + (block - g.first_block) * kB * width;
        FinishBlock(panel, block, from, MatrixStride(g), taps);
      }
    }
  }
  void FinishBlock(int64_t panel, int64_t block, const F* m, int64_t stride,
                   F* taps) const {
    const int64_t ni = std::min(kB, p_.in - block * kB);
    for (int64_t j = 0; j < plan_.Vecs(panel); ++j, m += kB) {
      const int64_t out = (2 * panel + j) * kB;
      for (int64_t i = 0; i < ni; ++i) {
        TapsTile<F>(m + i * plan_.Vecs(panel) * kB, stride, taps + i * kTaps * kB);
      }
      StoreTaps(taps, ni * kTaps, std::min(kB, p_.out - out),
                dweight_ + (out * p_.in + block * kB) * kTaps);
    }
  }
  // Values of `n` taps by `no` outputs to filters.
  void StoreTaps(const F* taps, int64_t n, int64_t no, S* to) const {
    const int64_t row = p_.in * kTaps;
    if constexpr (std::is_same_v<F, S>) {
      Transpose(taps, n, no, row, to);
    } else {
      HWY_ALIGN F plain[kTaps * kB * kB];
      const Tag<F> d;
      Transpose(taps, n, no, kTaps * kB, plain);
      for (int64_t o = 0; o < no; ++o) {
        const F* from = plain + o * kTaps * kB;
        int64_t i = 0;
        for (; i + kB <= n; i += kB)
          cpu::HWY_NAMESPACE::Write(hn::LoadU(d, from + i), d, to + o * row + i);
        for (; i < n; ++i) to[o * row + i] = static_cast<S>(from[i]);
      }
    }
  }

  const WinogradPass p_;
  const WinogradFilterPlan plan_;
  const Images<F, S> x_, dy_;
  S *const dweight_, *const dbias_;
  const int64_t sums_, shares_, tiles_;  // tiles of the longest sum
  const int64_t x_values_, dy_values_;   // of a sum
  bool together_ = false;                // do the threads work on one share?
  int64_t round_ = 1;                    // sums that are transformed together
  int64_t group_panels_ = kGroupPanels, group_blocks_ = kGroupBlocks;
  int64_t in_groups_ = 1, groups_ = 1;  // of in blocks, and in all
  F* channel_sums_ = nullptr;           // by sum
  F* gradients_ = nullptr;              // by share and group, unless there is one sum
};

}  // namespace winograd

void WeightGradientF32(const WinogradWeightCall<float, float>& call) {
  winograd::WeightGradient(call).Run();
}
void WeightGradientB16(const WinogradWeightCall<float, Bfloat16>& call) {
  winograd::WeightGradient(call).Run();
}
void WeightGradientF16(const WinogradWeightCall<float, Float16>& call) {
  winograd::WeightGradient(call).Run();
}
void WeightGradientF64(const WinogradWeightCall<double, double>& call) {
  winograd::WeightGradient(call).Run();
}

}  // namespace HWY_NAMESPACE
}  // namespace plait::cpu::kernel
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plait::cpu {
namespace kernel {

HWY_EXPORT(WeightGradientF32);
HWY_EXPORT(WeightGradientB16);
HWY_EXPORT(WeightGradientF16);
HWY_EXPORT(WeightGradientF64);
void Run(const WinogradWeightCall<float, float>& call) {
  HWY_DYNAMIC_DISPATCH(WeightGradientF32)(call);
}
void Run(const WinogradWeightCall<float, Bfloat16>& call) {
  HWY_DYNAMIC_DISPATCH(WeightGradientB16)(call);
}
void Run(const WinogradWeightCall<float, Float16>& call) {
  HWY_DYNAMIC_DISPATCH(WeightGradientF16)(call);
}
void Run(const WinogradWeightCall<double, double>& call) {
  HWY_DYNAMIC_DISPATCH(WeightGradientF64)(call);
}

}  // namespace kernel

template <typename T>
void WinogradBackwardWeight(const ConvProblem& p, const T* x, const T* dy, T* dweight,
                            T* dbias, ImageLayout layout) {
  kernel::Run(WinogradWeightCall<WinogradSum<T>, T>{p, layout, x, dy, dweight, dbias});
}

template void WinogradBackwardWeight(const ConvProblem&, const float*, const float*,
                                     float*, float*, ImageLayout);
template void WinogradBackwardWeight(const ConvProblem&, const double*, const double*,
                                     double*, double*, ImageLayout);
template void WinogradBackwardWeight(const ConvProblem&, const Bfloat16*,
                                     const Bfloat16*, Bfloat16*, Bfloat16*,
                                     ImageLayout);
template void WinogradBackwardWeight(const ConvProblem&, const Float16*, const Float16*,
                                     Float16*, Float16*, ImageLayout);

}  // namespace plait::cpu
#endif  // HWY_ONCE
