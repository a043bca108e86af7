// Our own convolution, gradient of the filters.

#include <algorithm>

#include "base/parallel.h"
#include "cpu/conv_kernel.h"
#include "cpu/conv_plan.h"
#include "cpu/scratch.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/conv_weight_kernel.cc"
#include "cpu/simd/targets.h"
#include "hwy/foreach_target.h"
//
#include "cpu/conv_pack.h"
#include "cpu/conv_parts.h"
#include "cpu/gemm_pack.h"
#include "cpu/gemm_tile.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace plait::cpu::kernel {
namespace HWY_NAMESPACE {

template <typename T>
T RowSum(const T* x, int64_t n) {
  const TileTag<T> d;
  auto s0 = hn::Zero(d), s1 = s0;
  int64_t i = 0;
  for (; i + 2 * kLanes<T> <= n; i += 2 * kLanes<T>) {
    s0 = hn::Add(s0, hn::LoadU(d, x + i));
    s1 = hn::Add(s1, hn::LoadU(d, x + i + kLanes<T>));
  }
  T sum = hn::GetLane(hn::SumOfLanes(d, hn::Add(s0, s1)));
  for (; i < n; ++i) sum += x[i];
  return sum;
}

// dweight: dy times the transposed matrix of taps and pixels, added up over the images.
//
// The batch is cut into shares whose number depends on sizes only; each adds up its own
// dweight, and these are added in order. So the bits do not depend on the threads.
template <typename T>
class WeightGradient {
 public:
  WeightGradient(const ConvProblem& problem, const T* x, const T* dy, T* dweight,
                 T* dbias)
      : x_(x),
        dy_(dy),
        dweight_(dweight),
        dbias_(dbias),
        panel_(CeilDiv(problem.OutSize(), CeilDiv(problem.OutSize(), kMaxPixels))),
        plan_(problem, panel_, kMaxPixels),
        p_(plan_.p),
        panels_(CeilDiv(plan_.pixels, panel_)),
        together_(std::max<int64_t>(1, kMaxPixels / plan_.pixels)),
        size_(p_.out_channels * plan_.taps),
        blocks_(CeilDiv(plan_.taps, kMaxColumns)),
        shares_(std::clamp<int64_t>(
            std::min<int64_t>(static_cast<int64_t>(p_.Work() / 4e6), (1 << 23) / size_),
            1, std::min<int64_t>(p_.batch, 16))) {}

  void Run() {
    const Scratch partial(Scratch::Bytes<T>((size_ + p_.out_channels) * (shares_ - 1)));
    partial_ = partial.As<T>();
    ParallelFor(shares_ * p_.groups * blocks_, 1, [&](int64_t begin, int64_t end) {
      for (int64_t task = begin; task < end; ++task) {
        const int64_t block = task % blocks_, group = task / blocks_ % p_.groups;
        Block(task / blocks_ / p_.groups, group, block);
      }
    });
    AddUp(dweight_, partial_, size_);
    if (dbias_ != nullptr) {
      AddUp(dbias_, partial_ + size_ * (shares_ - 1), p_.out_channels);
    }
  }

 private:
  static constexpr int64_t kMaxPixels = 256, kMaxColumns = 256;

  void AddUp(T* sum, const T* parts, int64_t n) const {
    ParallelFor(n, 1 << 14, [&](int64_t begin, int64_t end) {
      for (int64_t s = 0; s + 1 < shares_; ++s) {
        for (int64_t i = begin; i < end; ++i) sum[i] += parts[s * n + i];
      }
    });
  }

  // Share `share` of the images, one group, one block of taps.
  void Block(int64_t share, int64_t group, int64_t block) {
    constexpr int64_t kWidth = kTileColumns<T>;
    const int64_t t0 = plan_.taps * block / blocks_,
                  t1 = plan_.taps * (block + 1) / blocks_;
    const int64_t oc = plan_.out_channels, longest = panel_ * together_;
    const RowPanels rows(oc);
    const int64_t columns = CeilDiv(t1 - t0, kWidth) * kWidth;
    const Scratch scratch(Scratch::Bytes<T>((columns + oc) * longest));
    T* b = scratch.As<T>();
    T* a = b + columns * longest;
    T* dw = share == 0 ? dweight_ : partial_ + (share - 1) * size_;
    dw += group * oc * plan_.taps + t0;
    T* db = nullptr;
    if (dbias_ != nullptr && block == 0) {
      db = share == 0
               ? dbias_
               : partial_ + size_ * (shares_ - 1) + (share - 1) * p_.out_channels;
      db += group * oc;
      std::fill_n(db, oc, T(0));
    }
    // Panels are packed in whole vectors: the taps up to the last column are read, too.
    const int64_t read = std::min(t0 + columns, plan_.taps);
    PaddedImage<T> padded(plan_, t0 / plan_.kernel, (read - 1) / plan_.kernel + 1);
    // A single image's dy is read in place, unless its rows share lines of L1 or many
    // columns pay for a copy.
    const bool packs_dy = together_ > 1 || columns > 4 * kWidth ||
                          plan_.pixels * int64_t{sizeof(T)} % 1024 == 0;
    bool first = true;
    const int64_t last = p_.batch * (share + 1) / shares_;
    for (int64_t n = p_.batch * share / shares_; n < last; n += together_) {
      const int64_t images = std::min(together_, last - n);
      for (int64_t panel = 0; panel < panels_; ++panel) {
        const int64_t pixels = std::min(panel_, plan_.pixels - panel * panel_);
        const int64_t k = images * pixels;
        for (int64_t m = 0; m < images; ++m) {
          const int64_t image = (n + m) * p_.groups + group;
          const T* dy = dy_ + image * oc * plan_.pixels + panel * panel_;
          PackImage(padded.Load(x_ + image * plan_.in_channels * plan_.in_size), panel,
                    t0, t1, m * pixels, k, b);
          for (int64_t i = 0; packs_dy && i < rows.count; ++i) {
            Pack(Operand<T>{dy + rows.First(i) * plan_.pixels, plan_.pixels, 1},
                 rows.Rows(i), pixels, rows.Rows(i),
                 a + rows.First(i) * k + m * pixels * rows.Rows(i));
          }
          for (int64_t i = 0; db != nullptr && i < oc; ++i) {
            db[i] += RowSum(dy + i * plan_.pixels, pixels);
          }
        }
        const T* dy =
            dy_ + (n * p_.groups + group) * oc * plan_.pixels + panel * panel_;
        for (int64_t j = 0; j < t1 - t0; j += kWidth) {
          const ColumnPanel<T> tile(t1 - t0, j);
          for (int64_t i = 0; i < rows.count; ++i) {
            const TileStore<T> store{dw + rows.First(i) * plan_.taps + j,
                                     plan_.taps,
                                     T(1),
                                     first ? T(0) : T(1),
                                     nullptr,
                                     false};
            if (packs_dy) {
              FindPackedTile<T>(rows.Rows(i), tile.vecs)(
                  k, a + rows.First(i) * k, b + j * k, tile.columns, store);
            } else {
              FindDirectTile<T>(rows.Rows(i), tile.vecs)(
                  k, dy + rows.First(i) * plan_.pixels, plan_.pixels, 1, b + j * k,
                  tile.width, tile.columns, store);
            }
          }
        }
        first = false;
      }
    }
  }

  void PackImage(const T* image, int64_t panel, int64_t t0, int64_t t1, int64_t at,
                 int64_t k, T* b) const {
    for (int64_t j = 0; j < t1 - t0; j += kTileColumns<T>) {
      const ColumnPanel<T> tile(t1 - t0, j);
      PackTaps(plan_, image, t0 + j, panel, tile.width, b + j * k + at * tile.width);
    }
  }

  const T* x_;
  const T* dy_;
  T* dweight_;
  T* dbias_;
  T* partial_ = nullptr;
  const int64_t panel_;  // pixels of a panel
  const ConvPlan plan_;
  const ConvProblem& p_;
  const int64_t panels_;    // of an image
  const int64_t together_;  // images that are added up in one product
  const int64_t size_;      // elements of dweight
  const int64_t blocks_, shares_;
};

void WeightF32(const ConvProblem& p, const float* x, const float* dy, float* dw,
               float* db) {
  WeightGradient<float>(p, x, dy, dw, db).Run();
}
void WeightF64(const ConvProblem& p, const double* x, const double* dy, double* dw,
               double* db) {
  WeightGradient<double>(p, x, dy, dw, db).Run();
}

}  // namespace HWY_NAMESPACE
}  // namespace plait::cpu::kernel
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plait::cpu {
namespace kernel {

HWY_EXPORT(WeightF32);
HWY_EXPORT(WeightF64);
auto* WeightOf(float) {
  return HWY_DYNAMIC_DISPATCH(WeightF32);
}
auto* WeightOf(double) {
  return HWY_DYNAMIC_DISPATCH(WeightF64);
}

}  // namespace kernel

template <typename T>
void OwnConvBackwardWeight(const ConvProblem& p, const T* x, const T* dy, T* dweight,
                           T* dbias) {
  kernel::WeightOf(T())(p, x, dy, dweight, dbias);
}
template void OwnConvBackwardWeight<float>(const ConvProblem&, const float*,
                                           const float*, float*, float*);
template void OwnConvBackwardWeight<double>(const ConvProblem&, const double*,
                                            const double*, double*, double*);

}  // namespace plait::cpu
#endif  // HWY_ONCE
