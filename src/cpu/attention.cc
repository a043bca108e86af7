// Attention, forward: online softmax over blocks of keys.

#include "cpu/attention.h"

// GCC 12 warns of its own intrinsics' undefined values.
#pragma GCC diagnostic ignored "-Wuninitialized"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/attention.cc"
#include "cpu/simd/targets.h"
#include "hwy/foreach_target.h"
//
#include "cpu/attention_parts.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace plait::cpu::kernel {
namespace HWY_NAMESPACE {
namespace attention {

// A block of keys and values stays in L2 while the queries of a chunk pass by; the
// scores of a group of row panels stay in L1.
constexpr int64_t kKeys = 256;
constexpr int64_t kChunk = 504;
constexpr int64_t kGroup = 2;

// One query's softmax so far: its largest score, and the sum of 2^(score - largest).
template <typename T>
struct RowState {
  T largest = -std::numeric_limits<T>::infinity();
  T sum = 0;
};

// The largest of n scores; NaN may get lost.
template <typename T>
HWY_INLINE T LargestOf(const T* x, int64_t n) {
  const TileTag<T> d;
  constexpr int64_t kL = kLanes<T>;
  const auto lowest = hn::Set(d, -std::numeric_limits<T>::infinity());
  auto m0 = lowest, m1 = lowest;
  int64_t j = 0;
  for (; j + 2 * kL <= n; j += 2 * kL) {
    m0 = hn::Max(hn::Load(d, x + j), m0);
    m1 = hn::Max(hn::Load(d, x + j + kL), m1);
  }
  for (; j < n; j += kL) {
    const auto v = hn::Load(d, x + j);
    const auto inside = hn::FirstN(d, static_cast<size_t>(std::min(n - j, kL)));
    m0 = hn::Max(hn::IfThenElse(inside, v, lowest), m0);
  }
  return hn::GetLane(hn::MaxOfLanes(d, hn::Max(m0, m1)));
}

// x[j] = 2^(x[j] - base) for j < n, 0 behind up to a whole vector; returns the sum.
template <typename T>
HWY_INLINE T Weights(T* x, int64_t n, T base) {
  const TileTag<T> d;
  constexpr int64_t kL = kLanes<T>;
  const auto from = hn::Set(d, base);
  auto s0 = hn::Zero(d), s1 = s0;
  int64_t j = 0;
  for (; j + 2 * kL <= n; j += 2 * kL) {
    const auto w0 = Exp2(d, hn::Sub(hn::Load(d, x + j), from));
    const auto w1 = Exp2(d, hn::Sub(hn::Load(d, x + j + kL), from));
    hn::Store(w0, d, x + j);
    hn::Store(w1, d, x + j + kL);
    s0 = hn::Add(s0, w0);
    s1 = hn::Add(s1, w1);
  }
  for (; j < n; j += kL) {
    const auto inside = hn::FirstN(d, static_cast<size_t>(std::min(n - j, kL)));
    const auto w =
        hn::IfThenElseZero(inside, Exp2(d, hn::Sub(hn::Load(d, x + j), from)));
    hn::Store(w, d, x + j);
    s0 = hn::Add(s0, w);
  }
  return hn::GetLane(hn::SumOfLanes(d, hn::Add(s0, s1)));
}

// One thread's memory, and its work on some queries of one head.
template <typename S>
class Forward {
  using T = Computed<S>;

 public:
  Forward(const AttentionProblem& p, const AttentionRows& y, void* log_sums,
          int64_t chunk)
      : p_(p),
        y_(y),
        log_sums_(static_cast<T*>(log_sums)),
        kept_(p),
        few_(std::is_same_v<S, T> && p.queries < kTileRows),
        chunk_(chunk),
        block_(std::min(kKeys, std::max<int64_t>(p.keys, 1))),
        size_(Padded<T>(p.size)),
        value_size_(Padded<T>(p.value_size)),
        stride_(ScoreStride<T>(block_)),
        memory_(Scratch::Bytes<T>(Elements())) {
    T* at = memory_.template As<T>();
    const auto take = [&](int64_t n) { return std::exchange(at, at + n); };
    keys_ = take(ScoreStride<T>(block_) * size_);
    values_ = take(block_ * value_size_);
    rows_ = take(std::max(block_, chunk_) * size_);
    queries_ = take(chunk_ * size_);
    result_ = take(chunk_ * value_size_);
    scores_ = take(kGroup * kTileRows * stride_);
    states_ = reinterpret_cast<RowState<T>*>(take(2 * Padded<T>(chunk_)));
    bits_ = reinterpret_cast<uint32_t*>(take(stride_));
  }

  void Run(int64_t b, int64_t h, int64_t first, int64_t n) {
    const RowPanels panels(n);
    const S* q = RowsAt<const S>(p_.q, b, h, first);
    CopyRows(q, p_.q.row, n, p_.size, size_, static_cast<T>(p_.scale * kLog2E), rows_);
    if (!few_) PackLeft(rows_, panels, size_, p_.size, queries_);
    std::fill_n(states_, n, RowState<T>{});
    const int64_t end = VisibleToAny(p_, b, h, first, n, 0, p_.keys);
    for (int64_t j = 0; j < end; j += block_) {
      const int64_t keys = std::min(block_, end - j);
      if (!few_) PackKeys(b, h, j, keys);
      for (int64_t i = 0; i < panels.count; i += kGroup) {
        const int64_t last = std::min(i + kGroup, panels.count);
        Group(b, h, first, panels, i, last, j, keys);
      }
    }
    Finish(b, h, first, n);
  }

 private:
  int64_t Elements() const {
    return ScoreStride<T>(block_) * size_ + block_ * value_size_ +
           std::max(block_, chunk_) * size_ + chunk_ * (size_ + value_size_) +
           kGroup * kTileRows * stride_ + 2 * Padded<T>(chunk_) + stride_;
  }

  void PackKeys(int64_t b, int64_t h, int64_t j, int64_t keys) {
    CopyRows(RowsAt<const S>(p_.k, b, h, j), p_.k.row, keys, p_.size, size_, T(1),
             rows_);
    PackColumns(rows_, keys, size_, p_.size, keys_);
    CopyRows(RowsAt<const S>(p_.v, b, h, j), p_.v.row, keys, p_.value_size, value_size_,
             T(1), values_);
  }

  // The row panels [i, last) of the chunk that starts at query `first`, and the keys
  // from j on.
  void Group(int64_t b, int64_t h, int64_t first, const RowPanels& panels, int64_t i,
             int64_t last, int64_t j, int64_t keys) {
    const int64_t row = panels.First(i);
    const int64_t rows = panels.First(last - 1) + panels.Rows(last - 1) - row;
    const int64_t packed = keys;
    keys = VisibleToAny(p_, b, h, first + row, rows, j, keys);
    if (keys == 0) return;
    if constexpr (std::is_same_v<S, T>) {
      if (few_) return FewRows(b, h, first, rows, j, keys);
    }
    MultiplyPacked(queries_, panels, i, last, p_.size, keys_, packed, keys, scores_,
                   stride_);
    for (int64_t r = 0; r < rows; ++r) {
      Row(b, h, first + row + r, j, keys, scores_ + r * stride_, states_[row + r],
          result_ + (row + r) * value_size_);
    }
    MultiplyRows<T>(rows, value_size_, keys, scores_, stride_, 1, values_, j > 0,
                    result_ + row * value_size_);
  }

  // All queries, of which there are too few to pay for packing keys and values.
  void FewRows(int64_t b, int64_t h, int64_t first, int64_t rows, int64_t j,
               int64_t keys) {
    const ScopedComputeThreads alone(1);
    Gemm<T>(false, true, rows, keys, p_.size, 1, rows_, size_,
            RowsAt<const T>(p_.k, b, h, j), p_.k.row, 0, scores_, stride_);
    for (int64_t r = 0; r < rows; ++r) {
      Row(b, h, first + r, j, keys, scores_ + r * stride_, states_[r],
          result_ + r * value_size_);
    }
    Gemm<T>(false, false, rows, p_.value_size, keys, 1, scores_, stride_,
            RowsAt<const T>(p_.v, b, h, j), p_.v.row, j > 0 ? 1 : 0, result_,
            value_size_);
  }

  // Scores of a query become weights; what is known of it so far is scaled down where
  // its largest score grows.
  void Row(int64_t b, int64_t h, int64_t query, int64_t j, int64_t keys, T* scores,
           RowState<T>& state, T* result) {
    const int64_t n = Visible(p_, b, h, query, j, keys);
    if (p_.mask.data != nullptr) AddMask(p_.mask, b, h, query, j, n, scores);
    const T largest = std::max(state.largest, LargestOf(scores, n));
    const T base = std::isinf(largest) && largest < 0 ? T(0) : largest;
    if (j > 0 && largest > state.largest) {
      const T factor = std::exp2(state.largest - largest);
      state.sum *= factor;
      for (int64_t d = 0; d < value_size_; ++d) result[d] *= factor;
    }
    state.largest = largest;
    state.sum += Weights(scores, n, base);
    std::fill(scores + n, scores + keys, T(0));
    if (kept_.active()) {
      kept_.Draw(b, h, query, j, bits_, n);
      Drop(kept_, bits_, n, scores);
    }
  }

  void Finish(int64_t b, int64_t h, int64_t first, int64_t n) {
    const T keep = kept_.active() ? static_cast<T>(kept_.factor()) : T(1);
    T* log_sums = log_sums_ + (b * p_.heads + h) * p_.queries + first;
    for (int64_t i = 0; i < n; ++i) {
      const RowState<T>& s = states_[i];
      log_sums[i] = s.sum == 0 ? std::numeric_limits<T>::infinity()
                               : s.largest + std::log2(s.sum);
      // Of what no key was added to, the result was never written.
      if (s.sum == 0) std::fill_n(result_ + i * value_size_, value_size_, T(0));
    }
    WriteRows(result_, value_size_, n, p_.value_size, RowsAt<S>(y_, b, h, first),
              y_.row, [&](int64_t i) {
                const T sum = states_[i].sum;
                return sum == 0 ? T(0) : keep / sum;
              });
  }

  const AttentionProblem& p_;
  const AttentionRows& y_;
  T* const log_sums_;
  const Kept kept_;
  const bool few_;
  const int64_t chunk_, block_, size_, value_size_, stride_;
  const Scratch memory_;
  T *keys_, *values_, *rows_, *queries_, *result_, *scores_;
  RowState<T>* states_;
  uint32_t* bits_;
};

template <typename S>
void RunForward(const AttentionProblem& p, const AttentionRows& y, void* log_sums) {
  if (p.batch * p.heads * p.queries == 0) return;
  // Rows do not depend on how queries are cut; each thread should get some.
  const int64_t enough = 4 * ComputeThreads();
  const int64_t cuts = std::max(
      CeilDiv(p.queries, kChunk),
      std::min(CeilDiv(enough, p.batch * p.heads), CeilDiv(p.queries, 4 * kTileRows)));
  const int64_t chunk = CeilDiv(CeilDiv(p.queries, cuts), kTileRows) * kTileRows;
  const int64_t chunks = CeilDiv(p.queries, chunk);
  const double work = static_cast<double>(p.batch * p.heads * p.queries) *
                      static_cast<double>(p.keys * (p.size + p.value_size));
  ShareOut(p.batch * p.heads * chunks, work, [&] {
    return [&, f = Forward<S>(p, y, log_sums, chunk)](int64_t unit) mutable {
      // The last chunks have the most to do when attention is causal.
      const int64_t c = chunks - 1 - unit / (p.batch * p.heads);
      const int64_t head = unit % (p.batch * p.heads);
      const int64_t first = c * chunk;
      f.Run(head / p.heads, head % p.heads, first, std::min(chunk, p.queries - first));
    };
  });
}

}  // namespace attention

void AttentionForwardAll(const AttentionProblem& p, const AttentionRows& y,
                         void* log_sums) {
  VisitFloat(p.dtype, [&]<typename S>() { attention::RunForward<S>(p, y, log_sums); });
}

}  // namespace HWY_NAMESPACE
}  // namespace plait::cpu::kernel
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plait::cpu {
namespace kernel {
namespace {

HWY_EXPORT(AttentionForwardAll);
void RunForward(const AttentionProblem& p, const AttentionRows& y, void* log_sums) {
  HWY_DYNAMIC_DISPATCH(AttentionForwardAll)(p, y, log_sums);
}

}  // namespace
}  // namespace kernel

void AttentionForward(const AttentionProblem& p, const AttentionRows& y,
                      void* log_sums) {
  kernel::RunForward(p, y, log_sums);
}

}  // namespace plait::cpu
#endif  // HWY_ONCE
