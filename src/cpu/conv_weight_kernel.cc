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
  static constexpr int64_t kWidth = kTileColumns<T>;

  void AddUp(T* sum, const T* parts, int64_t n) const {
    ParallelFor(n, 1 << 14, [&](int64_t begin, int64_t end) {
      for (int64_t s = 0; s + 1 < shares_; ++s) {
        for (int64_t i = begin; i < end; ++i) sum[i] += parts[s * n + i];
      }
    });
  }

  // One task: where its sums go, and what is packed for it.
  struct Task {
    int64_t group, t0, t1;  // taps [t0, t1)
    T* dw;                  // of tap t0
    T* db;                  // nullptr: another task adds up dbias
    T* a;                   // packed dy
    T* b;                   // packed taps
    bool packs_dy;
    bool first = true;
    int64_t columns() const { return CeilDiv(t1 - t0, kWidth) * kWidth; }
  };

  // Share `share` of the images, one group, one block of taps.
  void Block(int64_t share, int64_t group, int64_t block) {
    const int64_t oc = plan_.out_channels, longest = panel_ * together_;
    Task t{group, plan_.taps * block / blocks_, plan_.taps * (block + 1) / blocks_};
    const Scratch scratch(Scratch::Bytes<T>((t.columns() + oc) * longest));
    t.b = scratch.As<T>();
    t.a = t.b + t.columns() * longest;
    t.dw = share == 0 ? dweight_ : partial_ + (share - 1) * size_;
    t.dw += group * oc * plan_.taps + t.t0;
    t.db = nullptr;
    if (dbias_ != nullptr && block == 0) {
      t.db = share == 0
                 ? dbias_
                 : partial_ + size_ * (shares_ - 1) + (share - 1) * p_.out_channels;
      t.db += group * oc;
      std::fill_n(t.db, oc, T(0));
    }
    // A single image's dy is read in place, unless its rows share lines of L1 or many
    // columns pay for a copy.
    t.packs_dy = together_ > 1 || t.columns() > 4 * kWidth ||
                 plan_.pixels * int64_t{sizeof(T)} % 1024 == 0;
    // Panels are packed in whole vectors: the taps up to the last column are read, too.
    const int64_t read = std::min(t.t0 + t.columns(), plan_.taps);
    PaddedImage<T> padded(plan_, t.t0 / plan_.kernel, (read - 1) / plan_.kernel + 1);
    const int64_t last = p_.batch * (share + 1) / shares_;
    for (int64_t n = p_.batch * share / shares_; n < last; n += together_) {
      for (int64_t panel = 0; panel < panels_; ++panel) {
        Images(&t, n, std::min(together_, last - n), panel, &padded);
      }
    }
  }

  // A panel of pixels of `images` images, from image n on.
  void Images(Task* t, int64_t n, int64_t images, int64_t panel,
              PaddedImage<T>* padded) const {
    const int64_t oc = plan_.out_channels;
    const int64_t pixels = std::min(panel_, plan_.pixels - panel * panel_);
    const int64_t k = images * pixels;
    const RowPanels rows(oc);
    const auto dy_of = [&](int64_t image) {
      return dy_ + (image * p_.groups + t->group) * oc * plan_.pixels + panel * panel_;
    };
    for (int64_t m = 0; m < images; ++m) {
      const int64_t image = (n + m) * p_.groups + t->group;
      const T* dy = dy_of(n + m);
      PackImage(padded->Load(x_ + image * plan_.in_channels * plan_.in_size), panel,
                t->t0, t->t1, m * pixels, k, t->b);
      for (int64_t i = 0; t->packs_dy && i < rows.count; ++i) {
        Pack(Operand<T>{dy + rows.First(i) * plan_.pixels, plan_.pixels, 1},
             rows.Rows(i), pixels, rows.Rows(i),
             t->a + rows.First(i) * k + m * pixels * rows.Rows(i));
      }
      for (int64_t i = 0; t->db != nullptr && i < oc; ++i) {
        t->db[i] += RowSum(dy + i * plan_.pixels, pixels);
      }
    }
    Multiply(*t, dy_of(n), k);
    t->first = false;
  }

  // Adds the sums over k pixels to dweight. dy: the first image's, for reading in
  // place.
  void Multiply(const Task& t, const T* dy, int64_t k) const {
    const RowPanels rows(plan_.out_channels);
    for (int64_t j = 0; j < t.t1 - t.t0; j += kWidth) {
      const ColumnPanel<T> tile(t.t1 - t.t0, j);
      for (int64_t i = 0; i < rows.count; ++i) {
        const int64_t row = rows.First(i);
        const TileStore<T> store{t.dw + row * plan_.taps + j, plan_.taps, T(1),
                                 t.first ? T(0) : T(1),       nullptr,    false};
        if (t.packs_dy) {
          FindPackedTile<T>(rows.Rows(i), tile.vecs)(k, t.a + row * k, t.b + j * k,
                                                     tile.columns, store);
        } else {
          FindDirectTile<T>(rows.Rows(i), tile.vecs)(k, dy + row * plan_.pixels,
                                                     plan_.pixels, 1, t.b + j * k,
                                                     tile.width, tile.columns, store);
        }
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
