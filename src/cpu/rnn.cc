// Recurrent layers: packing the recurrent weights, and the walk through the steps.

#include "cpu/rnn.h"

// GCC 12 warns of its own intrinsics' undefined values.
#pragma GCC diagnostic ignored "-Wuninitialized"

#include <algorithm>

#include "base/parallel.h"
#include "cpu/scratch.h"
#include "cpu/team_barrier.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/rnn.cc"
#include "cpu/simd/targets.h"
#include "hwy/foreach_target.h"
//
#include "cpu/gemm_pack.h"
#include "cpu/gemm_tile.h"
#include "cpu/rnn_cell.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace plait::cpu::kernel {
namespace HWY_NAMESPACE {

// A matrix B (k, n) in column panels, for products with few rows, again and again.
template <typename T>
class PackedMatrix {
 public:
  PackedMatrix(int64_t k, int64_t n) : k_(k), n_(n) {}
  int64_t panels() const { return CeilDiv(n_, kTileColumns<T>); }
  int64_t size() const { return panels() * PanelSize(); }
  void SetMemory(T* to) { data_ = to; }
  // Columns of B as an operand: At(column, k).
  void PackPanel(const Operand<T>& columns, int64_t panel) {
    const ColumnPanel<T> p(n_, panel * kTileColumns<T>);
    Pack(columns.From(panel * kTileColumns<T>, 0), p.columns, k_, p.width,
         data_ + panel * PanelSize());
  }
  // C (m, columns of the panel) = A B + beta C; c points to the panel's first column.
  void Multiply(int64_t panel, int64_t m, const T* a, int64_t lda, T beta, T* c,
                int64_t ldc) const {
    const ColumnPanel<T> p(n_, panel * kTileColumns<T>);
    const RowPanels rows(m);
    for (int64_t i = 0; i < rows.count; ++i) {
      const int64_t first = rows.First(i);
      FindDirectTile<T>(rows.Rows(i), p.vecs)(
          k_, a + first * lda, lda, 1, data_ + panel * PanelSize(), p.width, p.columns,
          {c + first * ldc, ldc, 1, beta, nullptr, false});
    }
  }

 private:
  int64_t PanelSize() const { return kTileColumns<T> * k_; }
  int64_t k_, n_;
  T* data_ = nullptr;
};

// What both directions of the walk share: blocks of hidden units and of state values,
// shared out among a team.
template <typename T>
class Walk {
 public:
  static constexpr int64_t kBlock = kTileColumns<T>;

  explicit Walk(const RnnSteps<T>& s)
      : s_(s),
        blocks_(CeilDiv(s.hidden, kBlock)),
        state_blocks_(CeilDiv(s.state(), kBlock)) {}

 protected:
  // A thread is worth its meetings for about half a million multiplications a step.
  int64_t TeamSize() const {
    const double work = static_cast<double>(s_.batch) * static_cast<double>(s_.rows()) *
                        static_cast<double>(s_.state());
    const int64_t worth = 1 + static_cast<int64_t>(work / 5e5);
    return std::max<int64_t>(
        1, std::min<int64_t>({ComputeThreads(), worth, std::max(blocks_, int64_t{1})}));
  }
  // Calls f(first of items, last of items, size of the team) on each thread.
  template <typename F>
  void Run(F&& f) {
    const int64_t team = TeamSize();
    TeamBarrier barrier(team);
    ParallelFor(team, 1, [&](int64_t first, int64_t last) {
      f(Part{&barrier, first, last, team});
    });
  }
  struct Part {
    TeamBarrier* barrier;
    int64_t first, last, team;
    void Meet() const { barrier->Meet(last - first); }
    // This part's share of n blocks.
    int64_t Begin(int64_t n) const { return n * first / team; }
    int64_t End(int64_t n) const { return n * last / team; }
  };
  CellBlock BlockOf(int64_t i, int64_t step) const {
    CellBlock b;
    b.time = s_.TimeOf(step);
    b.before = step == 0 ? -1 : s_.TimeOf(step - 1);
    b.first = i * kBlock;
    b.units = std::min(kBlock, s_.hidden - b.first);
    return b;
  }
  int64_t RowOf(int64_t step) const { return s_.TimeOf(step) * s_.batch; }
  int64_t Columns(int64_t block) const {
    return std::min(kBlock, s_.state() - block * kBlock);
  }
  bool projected() const { return s_.projected > 0; }

  const RnnSteps<T>& s_;
  const int64_t blocks_, state_blocks_;
};

template <typename T>
class ForwardWalk : Walk<T> {
  using Base = Walk<T>;
  using Base::kBlock;
  using Base::s_;

 public:
  explicit ForwardWalk(const RnnSteps<T>& s)
      : Base(s),
        gates_(RnnGates(s.mode)),
        weights_(s.state(), s.hidden),
        projection_(s.hidden, s.state()) {}

  void Run() {
    const int64_t all = gates_ * weights_.size();
    const Scratch scratch(
        Scratch::Bytes<T>(all + (this->projected() ? projection_.size() : 0)));
    memory_ = scratch.template As<T>();
    projection_.SetMemory(memory_ + all);
    Base::Run([&](const typename Base::Part& part) {
      PackShare(part);
      for (int64_t step = 0; step < s_.steps; ++step) {
        Step(part, step);
        part.Meet();
      }
    });
  }

 private:
  PackedMatrix<T> Gate(int64_t k) const {
    PackedMatrix<T> m = weights_;
    m.SetMemory(memory_ + k * m.size());
    return m;
  }
  void PackShare(const typename Base::Part& part) {
    const int64_t P = s_.state();
    for (int64_t i = part.Begin(this->blocks_); i < part.End(this->blocks_); ++i) {
      for (int64_t k = 0; k < gates_; ++k) {
        Gate(k).PackPanel({s_.recurrent + k * s_.hidden * P, P, 1}, i);
      }
    }
    if (!this->projected()) return;
    const int64_t n = this->state_blocks_;
    for (int64_t i = part.Begin(n); i < part.End(n); ++i) {
      projection_.PackPanel({s_.projection, s_.hidden, 1}, i);
    }
  }
  void Step(const typename Base::Part& part, int64_t step) {
    const int64_t n = s_.batch, H = s_.hidden, row = this->RowOf(step);
    const bool first = step == 0;
    const T* before = first ? s_.h0 : s_.hs + this->RowOf(step - 1) * s_.hs_row;
    const int64_t before_row = first ? s_.state() : s_.hs_row;
    T* const hs = s_.hs + row * s_.hs_row;
    T* const h = this->projected() ? s_.raw + row * H : hs;
    const int64_t h_row = this->projected() ? H : s_.hs_row;
    for (int64_t i = part.Begin(this->blocks_); i < part.End(this->blocks_); ++i) {
      for (int64_t k = 0; k < gates_; ++k) {
        const bool apart = s_.mode == RnnMode::kGru && k == 2;
        T* const c = apart ? s_.inner + row * H + i * kBlock
                           : s_.gates + row * s_.rows() + k * H + i * kBlock;
        Gate(k).Multiply(i, n, before, before_row, apart ? T(0) : T(1), c,
                         apart ? H : s_.rows());
      }
      ForwardCell(s_, this->BlockOf(i, step), h, h_row);
      if (!this->projected()) KeepEnded(i, step, before, before_row, hs);
    }
    if (!this->projected()) return;
    part.Meet();
    const int64_t blocks = this->state_blocks_;
    for (int64_t i = part.Begin(blocks); i < part.End(blocks); ++i) {
      projection_.Multiply(i, n, h, h_row, 0, hs + i * kBlock, s_.hs_row);
      KeepEnded(i, step, before, before_row, hs);
    }
  }
  // The state of a sample that has ended stays.
  void KeepEnded(int64_t block, int64_t step, const T* before, int64_t before_row,
                 T* hs) {
    if (s_.lengths == nullptr) return;
    for (int64_t n = 0; n < s_.batch; ++n) {
      if (Active(s_, s_.TimeOf(step), n)) continue;
      std::copy_n(before + n * before_row + block * kBlock, this->Columns(block),
                  hs + n * s_.hs_row + block * kBlock);
    }
  }

  const int64_t gates_;
  const PackedMatrix<T> weights_;  // of one gate
  PackedMatrix<T> projection_;
  T* memory_ = nullptr;
};

template <typename T>
class BackwardWalk : Walk<T> {
  using Base = Walk<T>;
  using Base::kBlock;
  using Base::s_;

 public:
  BackwardWalk(const RnnSteps<T>& s, const RnnGradients<T>& g)
      : Base(s),
        g_(g),
        weights_(s.rows(), s.state()),
        projection_(s.state(), s.hidden) {}

  void Run() {
    const int64_t N = s_.batch, all = weights_.size();
    const int64_t extra =
        this->projected() ? projection_.size() + N * s_.hidden : N * s_.state();
    const Scratch scratch(Scratch::Bytes<T>(all + extra));
    T* memory = scratch.template As<T>();
    weights_.SetMemory(memory);
    projection_.SetMemory(memory + all);
    inside_ = memory + all + (this->projected() ? projection_.size() : 0);
    Base::Run([&](const typename Base::Part& part) {
      Prepare(part);
      part.Meet();
      for (int64_t step = s_.steps - 1; step >= 0; --step) {
        Step(part, step);
        part.Meet();
      }
      if (s_.steps > 0) {
        const int64_t n = this->state_blocks_;
        for (int64_t i = part.Begin(n); i < part.End(n); ++i) FlowBack(i, 0);
      }
    });
  }

 private:
  void Prepare(const typename Base::Part& part) {
    const int64_t n = this->state_blocks_, H = s_.hidden;
    for (int64_t i = part.Begin(n); i < part.End(n); ++i) {
      weights_.PackPanel({s_.recurrent, 1, s_.state()}, i);
    }
    const int64_t m = this->blocks_;
    for (int64_t i = part.Begin(m); i < part.End(m); ++i) {
      if (this->projected()) projection_.PackPanel({s_.projection, 1, H}, i);
      const int64_t units = std::min(kBlock, H - i * kBlock);
      for (int64_t k = 0; k < RnnGates(s_.mode); ++k) {
        std::fill_n(g_.dbias_input + k * H + i * kBlock, units, T(0));
        std::fill_n(g_.dbias_hidden + k * H + i * kBlock, units, T(0));
      }
    }
  }
  const T* HiddenGradients() const {
    return s_.mode == RnnMode::kGru ? g_.dgates_hidden : g_.dgates;
  }
  // What passes by the gates to the state before: nothing, but for gru and for samples
  // that have ended.
  bool PassesBy() const { return s_.mode == RnnMode::kGru || s_.lengths != nullptr; }
  // Adds what comes through the gates of `step` to the gradient of the state before.
  void FlowBack(int64_t block, int64_t step) {
    weights_.Multiply(block, s_.batch,
                      HiddenGradients() + this->RowOf(step) * s_.rows(), s_.rows(),
                      PassesBy() ? T(1) : T(0), g_.dh + block * kBlock, s_.state());
  }
  // total = the gradient of the state after `step`, from y and from later steps.
  void Total(int64_t block, int64_t step, T* total) {
    if (step + 1 < s_.steps) FlowBack(block, step + 1);
    const int64_t P = s_.state(), first = block * kBlock, n = this->Columns(block);
    for (int64_t b = 0; b < s_.batch; ++b) {
      const T* dy = g_.dy + (this->RowOf(step) + b) * g_.dy_row + first;
      T *dh = g_.dh + b * P + first, *to = total + b * P + first;
      if (Active(s_, s_.TimeOf(step), b)) {
        for (int64_t i = 0; i < n; ++i) to[i] = dh[i] + dy[i];
        if (PassesBy() && s_.mode != RnnMode::kGru) std::fill_n(dh, n, T(0));
      } else if (this->projected()) {
        std::fill_n(to, n, T(0));
      } else {
        std::copy_n(dh, n, to);
      }
    }
  }
  void Step(const typename Base::Part& part, int64_t step) {
    const int64_t N = s_.batch, H = s_.hidden, P = s_.state();
    T* const total = this->projected() ? g_.dhs + this->RowOf(step) * P : inside_;
    if (this->projected()) {
      const int64_t n = this->state_blocks_;
      for (int64_t i = part.Begin(n); i < part.End(n); ++i) Total(i, step, total);
      part.Meet();
    }
    for (int64_t i = part.Begin(this->blocks_); i < part.End(this->blocks_); ++i) {
      if (this->projected()) {
        projection_.Multiply(i, N, total, P, 0, inside_ + i * kBlock, H);
      } else {
        Total(i, step, total);
      }
      BackwardCell(s_, g_, this->BlockOf(i, step), inside_, H);
    }
  }

  const RnnGradients<T>& g_;
  PackedMatrix<T> weights_, projection_;
  T* inside_ = nullptr;  // (batch, H): the gradient of what the cells gave
};

void ForwardF32(const RnnSteps<float>& s) {
  ForwardWalk<float>(s).Run();
}
void ForwardF64(const RnnSteps<double>& s) {
  ForwardWalk<double>(s).Run();
}
void BackwardF32(const RnnSteps<float>& s, const RnnGradients<float>& g) {
  BackwardWalk<float>(s, g).Run();
}
void BackwardF64(const RnnSteps<double>& s, const RnnGradients<double>& g) {
  BackwardWalk<double>(s, g).Run();
}

}  // namespace HWY_NAMESPACE
}  // namespace plait::cpu::kernel
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plait::cpu {
namespace kernel {

HWY_EXPORT(ForwardF32);
HWY_EXPORT(ForwardF64);
HWY_EXPORT(BackwardF32);
HWY_EXPORT(BackwardF64);
void Forward(const RnnSteps<float>& s) {
  HWY_DYNAMIC_DISPATCH(ForwardF32)(s);
}
void Forward(const RnnSteps<double>& s) {
  HWY_DYNAMIC_DISPATCH(ForwardF64)(s);
}
void Backward(const RnnSteps<float>& s, const RnnGradients<float>& g) {
  HWY_DYNAMIC_DISPATCH(BackwardF32)(s, g);
}
void Backward(const RnnSteps<double>& s, const RnnGradients<double>& g) {
  HWY_DYNAMIC_DISPATCH(BackwardF64)(s, g);
}

}  // namespace kernel

template <typename T>
void RnnForward(const RnnSteps<T>& s) {
  if (s.steps > 0 && s.batch > 0) kernel::Forward(s);
}
template <typename T>
void RnnBackward(const RnnSteps<T>& s, const RnnGradients<T>& g) {
  kernel::Backward(s, g);
}
template void RnnForward(const RnnSteps<float>&);
template void RnnForward(const RnnSteps<double>&);
template void RnnBackward(const RnnSteps<float>&, const RnnGradients<float>&);
template void RnnBackward(const RnnSteps<double>&, const RnnGradients<double>&);

}  // namespace plait::cpu
#endif  // HWY_ONCE
