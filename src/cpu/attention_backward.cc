// Attention, backward: weights are computed again, block by block.

#include "cpu/attention.h"

// GCC 12 warns of its own intrinsics' undefined values.
#pragma GCC diagnostic ignored "-Wuninitialized"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/attention_backward.cc"
#include "cpu/simd/targets.h"
#include "hwy/foreach_target.h"
//
#include "cpu/attention_parts.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace plait::cpu::kernel {
namespace HWY_NAMESPACE {
namespace attention {

// Two arrays of scores of such a block, and the rows that belong to it, stay in L2.
constexpr int64_t kBackwardKeys = 192;
constexpr int64_t kBackwardQueries = 120;

// For a row of scores x and the gradients g of its weights, before dropout: the weight
// w = 2^(x - log_sum), ds = w (keep g - delta) in g, and in x the weight as it counted,
// keep w. `bits` null: nothing was dropped. Zeros from n to the end of the vector.
template <typename T>
HWY_INLINE void WeightsBackward(T* x, T* g, int64_t n, T log_sum, T delta) {
  const TileTag<T> d;
  const auto from = hn::Set(d, log_sum), less = hn::Set(d, delta);
  for (int64_t j = 0; j < n; j += kLanes<T>) {
    auto w = Exp2(d, hn::Sub(hn::Load(d, x + j), from));
    if (j + kLanes < T >> n) {
      w = hn::IfThenElseZero(hn::FirstN(d, static_cast<size_t>(n - j)), w);
    }
    hn::Store(w, d, x + j);
    hn::Store(hn::Mul(w, hn::Sub(hn::Load(d, g + j), less)), d, g + j);
  }
}

template <typename T>
HWY_INLINE T Dot(const T* x, const T* y, int64_t n) {
  const TileTag<T> d;
  auto sum = hn::Zero(d);
  int64_t i = 0;
  for (; i + kLanes<T> <= n; i += kLanes<T>) {
    sum = hn::MulAdd(hn::LoadU(d, x + i), hn::LoadU(d, y + i), sum);
  }
  T total = hn::GetLane(hn::SumOfLanes(d, sum));
  for (; i < n; ++i) total += x[i] * y[i];
  return total;
}

// One thread's memory, and its work on some keys of one head.
template <typename S>
class Backward {
  using T = Computed<S>;

 public:
  struct Arrays {
    AttentionRows y, dy, dq, dk, dv;
    const T* log_sums = nullptr;
  };

  Backward(const AttentionProblem& p, const Arrays& arrays)
      : p_(p),
        arrays_(arrays),
        kept_(p),
        keep_(kept_.active() ? static_cast<T>(kept_.factor()) : T(1)),
        block_(std::min(kBackwardKeys, p.keys)),
        rows_(std::min(kBackwardQueries, p.queries)),
        size_(Padded<T>(p.size)),
        value_size_(Padded<T>(p.value_size)),
        stride_(ScoreStride<T>(block_)),
        memory_(Scratch::Bytes<T>(Elements())) {
    T* at = memory_.template As<T>();
    const auto take = [&](int64_t n) { return std::exchange(at, at + n); };
    k_ = take(block_ * std::max(size_, value_size_));
    k_columns_ = take(stride_ * size_);
    v_columns_ = take(stride_ * value_size_);
    dk_ = take(block_ * size_);
    dv_ = take(block_ * value_size_);
    q_ = take(rows_ * size_);
    q_left_ = take(rows_ * size_);
    dy_ = take(rows_ * value_size_);
    dy_left_ = take(rows_ * value_size_);
    scores_ = take(rows_ * stride_);
    grads_ = take(rows_ * stride_);
    deltas_ = take(Padded<T>(p.queries));
    bits_ = reinterpret_cast<uint32_t*>(take(stride_));
  }

  // Adds to dq (queries, padded size), which is not multiplied by the scale yet, and
  // writes the gradients of keys and values [first, last).
  void Run(int64_t b, int64_t h, int64_t first, int64_t last, T* dq) {
    Deltas(b, h);
    const int64_t end = VisibleToAny(p_, b, h, 0, p_.queries, 0, p_.keys);
    for (int64_t j = first; j < last; j += block_) {
      const int64_t all = std::min(block_, last - j);
      const int64_t keys = std::clamp<int64_t>(end - j, 0, all);
      std::fill_n(dk_, all * size_, T(0));
      std::fill_n(dv_, all * value_size_, T(0));
      if (keys > 0) Block(b, h, j, keys, dq);
      Write(arrays_.dk, dk_, size_, b, h, j, all, p_.size, static_cast<T>(p_.scale));
      Write(arrays_.dv, dv_, value_size_, b, h, j, all, p_.value_size, T(1));
    }
  }

  static void Write(const AttentionRows& to, const T* from, int64_t width, int64_t b,
                    int64_t h, int64_t first, int64_t n, int64_t size, T factor) {
    if (to.data == nullptr) return;
    WriteRows(from, width, n, size, RowsAt<S>(to, b, h, first), to.row,
              [=](int64_t) { return factor; });
  }

 private:
  int64_t Elements() const {
    return block_ * (std::max(size_, value_size_) + size_ + value_size_) +
           stride_ * (size_ + value_size_) +
           2 * rows_ * (size_ + value_size_ + stride_) + Padded<T>(p_.queries) +
           stride_;
  }

  // The sum of y dy for each query: what the normalisation takes off.
  void Deltas(int64_t b, int64_t h) {
    for (int64_t i = 0; i < p_.queries; ++i) {
      CopyRow(RowsAt<const S>(arrays_.y, b, h, i), p_.value_size, T(1), dy_left_);
      CopyRow(RowsAt<const S>(arrays_.dy, b, h, i), p_.value_size, T(1), dy_);
      deltas_[i] = Dot(dy_left_, dy_, p_.value_size);
    }
  }

  void Block(int64_t b, int64_t h, int64_t j, int64_t keys, T* dq) {
    // Values are needed as columns only; the keys' place serves on the way.
    CopyRows(RowsAt<const S>(p_.v, b, h, j), p_.v.row, keys, p_.value_size, value_size_,
             T(1), k_);
    PackColumns(k_, keys, value_size_, p_.value_size, v_columns_);
    CopyRows(RowsAt<const S>(p_.k, b, h, j), p_.k.row, keys, p_.size, size_, T(1), k_);
    PackColumns(k_, keys, size_, p_.size, k_columns_);
    const int64_t from =
        p_.causal ? std::max<int64_t>(0, j - (p_.keys - p_.queries)) : 0;
    for (int64_t i = from; i < p_.queries; i += rows_) {
      Queries(b, h, i, std::min(rows_, p_.queries - i), j, keys, dq);
    }
  }
  void Queries(int64_t b, int64_t h, int64_t i, int64_t rows, int64_t j, int64_t keys,
               T* dq) {
    const int64_t packed = keys;
    keys = VisibleToAny(p_, b, h, i, rows, j, keys);
    if (keys == 0) return;
    const RowPanels panels(rows);
    const S* q = RowsAt<const S>(p_.q, b, h, i);
    CopyRows(q, p_.q.row, rows, p_.size, size_, static_cast<T>(p_.scale * kLog2E), q_);
    PackLeft(q_, panels, size_, p_.size, q_left_);
    CopyRows(q, p_.q.row, rows, p_.size, size_, T(1), q_);
    CopyRows(RowsAt<const S>(arrays_.dy, b, h, i), arrays_.dy.row, rows, p_.value_size,
             value_size_, T(1), dy_);
    PackLeft(dy_, panels, value_size_, p_.value_size, dy_left_);
    MultiplyPacked(q_left_, panels, 0, panels.count, p_.size, k_columns_, packed, keys,
                   scores_, stride_);
    MultiplyPacked(dy_left_, panels, 0, panels.count, p_.value_size, v_columns_, packed,
                   keys, grads_, stride_);
    for (int64_t r = 0; r < rows; ++r) Row(b, h, i + r, j, keys, r);
    MultiplyRows<T>(keys, value_size_, rows, scores_, 1, stride_, dy_, true, dv_);
    MultiplyRows<T>(keys, size_, rows, grads_, 1, stride_, q_, true, dk_);
    MultiplyRows<T>(rows, size_, keys, grads_, stride_, 1, k_, true, dq + i * size_);
  }

  void Row(int64_t b, int64_t h, int64_t query, int64_t j, int64_t keys, int64_t r) {
    T *x = scores_ + r * stride_, *g = grads_ + r * stride_;
    const int64_t n = Visible(p_, b, h, query, j, keys);
    if (p_.mask.data != nullptr) AddMask(p_.mask, b, h, query, j, n, x);
    if (kept_.active()) {
      kept_.Draw(b, h, query, j, bits_, n);
      for (int64_t k = 0; k < n; ++k) g[k] *= keep_;
      Drop(kept_, bits_, n, g);
    }
    const T log_sum = arrays_.log_sums[(b * p_.heads + h) * p_.queries + query];
    WeightsBackward(x, g, n, log_sum, deltas_[query]);
    if (kept_.active()) {
      for (int64_t k = 0; k < n; ++k) x[k] *= keep_;
      Drop(kept_, bits_, n, x);
    }
    std::fill(x + n, x + keys, T(0));
    std::fill(g + n, g + keys, T(0));
  }

  const AttentionProblem& p_;
  const Arrays& arrays_;
  const Kept kept_;
  const T keep_;
  const int64_t block_, rows_, size_, value_size_, stride_;
  const Scratch memory_;
  T *k_, *k_columns_, *v_columns_, *dk_, *dv_, *q_, *q_left_, *dy_, *dy_left_, *scores_,
      *grads_, *deltas_;
  uint32_t* bits_;
};

// Where there are few heads, keys are cut into some parts, each with its own sum of dq.
// How many depends on shapes alone, since the order of sums does.
int64_t KeyParts(const AttentionProblem& p) {
  const int64_t wanted = CeilDiv(8, p.batch * p.heads);
  return std::min(wanted, CeilDiv(p.keys, 2 * kBackwardKeys));
}

template <typename S>
void RunBackward(const AttentionProblem& p, const typename Backward<S>::Arrays& a) {
  using T = Computed<S>;
  const int64_t heads = p.batch * p.heads;
  if (heads == 0 || p.keys == 0 || p.queries == 0) {
    for (int64_t u = 0; u < heads; ++u) {
      const int64_t b = u / p.heads, h = u % p.heads;
      const auto clear = [&](const AttentionRows& x, int64_t n, int64_t size) {
        for (int64_t i = 0; x.data != nullptr && i < n; ++i) {
          std::fill_n(RowsAt<S>(x, b, h, i), size, S{});
        }
      };
      clear(a.dq, p.queries, p.size);
      clear(a.dk, p.keys, p.size);
      clear(a.dv, p.keys, p.value_size);
    }
    return;
  }
  const int64_t parts = KeyParts(p), width = Padded<T>(p.size);
  const int64_t each = p.queries * width;
  const int64_t part_keys =
      CeilDiv(CeilDiv(p.keys, kBackwardKeys), parts) * kBackwardKeys;
  // Of one part, a thread's own memory will do.
  const Scratch sums(parts > 1 ? Scratch::Bytes<T>(heads * parts * each) : 0);
  const double work = 3 * static_cast<double>(heads * p.queries) *
                      static_cast<double>(p.keys * (p.size + p.value_size));
  struct Worker {
    const AttentionProblem& p;
    Backward<S> backward;
    Scratch own;
  };
  const auto write = [&](int64_t head, const T* dq) {
    Backward<S>::Write(a.dq, dq, width, head / p.heads, head % p.heads, 0, p.queries,
                       p.size, static_cast<T>(p.scale));
  };
  ShareOut(heads * parts, work, [&] {
    return [&, w = Worker{p, Backward<S>(p, a),
                          Scratch(parts > 1 ? 0 : Scratch::Bytes<T>(each))}](
               int64_t unit) mutable {
      const int64_t head = unit / parts, part = unit % parts;
      T* dq = parts > 1 ? sums.template As<T>() + unit * each : w.own.template As<T>();
      std::fill_n(dq, each, T(0));
      const int64_t first = std::min(p.keys, part * part_keys);
      w.backward.Run(head / p.heads, head % p.heads, first,
                     std::min(p.keys, first + part_keys), dq);
      if (parts == 1) write(head, dq);
    };
  });
  if (parts == 1) return;
  ParallelFor(heads, 1, [&](int64_t first, int64_t last) {
    for (int64_t head = first; head < last; ++head) {
      T* dq = sums.template As<T>() + head * parts * each;
      for (int64_t i = each; i < parts * each; ++i) dq[i % each] += dq[i];
      write(head, dq);
    }
  });
}

}  // namespace attention

void AttentionBackwardAll(const AttentionProblem& p, const AttentionRows& y,
                          const void* log_sums, const AttentionRows& dy,
                          const AttentionRows& dq, const AttentionRows& dk,
                          const AttentionRows& dv) {
  VisitFloat(p.dtype, [&]<typename S>() {
    using T = attention::Computed<S>;
    attention::RunBackward<S>(p, {y, dy, dq, dk, dv, static_cast<const T*>(log_sums)});
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace plait::cpu::kernel
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plait::cpu {
namespace kernel {
namespace {

HWY_EXPORT(AttentionBackwardAll);
void RunBackward(const AttentionProblem& p, const AttentionRows& y,
                 const void* log_sums, const AttentionRows& dy, const AttentionRows& dq,
                 const AttentionRows& dk, const AttentionRows& dv) {
  HWY_DYNAMIC_DISPATCH(AttentionBackwardAll)(p, y, log_sums, dy, dq, dk, dv);
}

}  // namespace
}  // namespace kernel

void AttentionBackward(const AttentionProblem& p, const AttentionRows& y,
                       const void* log_sums, const AttentionRows& dy,
                       const AttentionRows& dq, const AttentionRows& dk,
                       const AttentionRows& dv) {
  kernel::RunBackward(p, y, log_sums, dy, dq, dk, dv);
}

}  // namespace plait::cpu
#endif  // HWY_ONCE
