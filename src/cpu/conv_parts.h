// What the passes of the project's own convolution share, for the Highway target at
// hand.
//
// Included once for each target, after hwy/foreach_target.h.

#if defined(PLAIT_CPU_CONV_PARTS_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PLAIT_CPU_CONV_PARTS_H_
#undef PLAIT_CPU_CONV_PARTS_H_
#else
#define PLAIT_CPU_CONV_PARTS_H_
#endif

#include <algorithm>
#include <cstdint>

#include "base/parallel.h"
#include "cpu/conv_plan.h"
#include "cpu/gemm_pack.h"
#include "cpu/gemm_tile.h"
#include "cpu/scratch.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace plait::cpu::kernel {
namespace HWY_NAMESPACE {

// Elements of packed panels that a thread works on at a time; they stay in L2.
constexpr int64_t kPackedElements = 1 << 16;
// The most of k that one tile adds up.
constexpr int64_t kMaxTaps = 512;

// The padded form of channels [first, last) of one group of one image.
template <typename T>
class PaddedImage {
 public:
  PaddedImage(const ConvPlan& plan, int64_t first, int64_t last)
      : plan_(plan),
        first_(first),
        last_(last),
        scratch_(plan.padded ? Scratch::Bytes<T>((last - first) * plan.channel) : 0) {}

  // x: the group's first channel. A pointer for use with ConvPlan::tap.
  const T* Load(const T* x) {
    if (!plan_.padded) return x;
    T* to = scratch_.template As<T>();
    std::fill_n(to, (last_ - first_) * plan_.channel, T(0));
    ForEachRow([&](int64_t plain, int64_t padded) {
      std::copy_n(x + plain, plan_.p.in[2], to + padded - first_ * plan_.channel);
    });
    return to - first_ * plan_.channel;
  }

 private:
  template <typename F>
  void ForEachRow(F&& f) const {
    const ConvProblem& p = plan_.p;
    int64_t plain = first_ * plan_.in_size;
    for (int64_t c = first_; c < last_; ++c) {
      for (int64_t z = 0; z < p.in[0]; ++z) {
        for (int64_t y = 0; y < p.in[1]; ++y, plain += p.in[2]) {
          f(plain, c * plan_.channel + (z + p.pad_low[0]) * plan_.plane +
                       (y + p.pad_low[1]) * plan_.row + p.pad_low[2]);
        }
      }
    }
  }

  const ConvPlan& plan_;
  int64_t first_, last_;
  Scratch scratch_;
};

// A matrix of `rows` by k packed for tiles: pieces of k, in each the panels of rows.
template <typename T>
class PackedRowPanels {
 public:
  PackedRowPanels(int64_t rows, int64_t k)
      : panels(rows), pieces(CeilDiv(k, kMaxTaps)), k_(k) {}
  int64_t size() const { return panels.rows * k_; }
  int64_t Begin(int64_t piece) const { return k_ * piece / pieces; }
  int64_t Length(int64_t piece) const { return Begin(piece + 1) - Begin(piece); }
  int64_t Offset(int64_t panel, int64_t piece) const {
    return Begin(piece) * panels.rows + panels.First(panel) * Length(piece);
  }
  void Pack(const Operand<T>& x, T* to) const {
    for (int64_t i = 0; i < panels.count; ++i) {
      for (int64_t s = 0; s < pieces; ++s) {
        HWY_NAMESPACE::Pack(x.From(panels.First(i), Begin(s)), panels.Rows(i),
                            Length(s), panels.Rows(i), to + Offset(i, s));
      }
    }
  }
  const RowPanels panels;
  const int64_t pieces;

 private:
  int64_t k_;
};

// How many parts to cut each of `items` into, so that all threads have work.
inline int64_t Parts(int64_t items, int64_t most, double work) {
  const int64_t threads =
      std::min<int64_t>(ComputeThreads(), 1 + static_cast<int64_t>(work / 1e6));
  return std::clamp<int64_t>(CeilDiv(2 * threads, items), 1,
                             items >= threads ? 1 : most);
}

}  // namespace HWY_NAMESPACE
}  // namespace plait::cpu::kernel
HWY_AFTER_NAMESPACE();

#endif  // PLAIT_CPU_CONV_PARTS_H_
