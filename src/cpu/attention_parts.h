// What forward and backward of attention share, for the Highway target at hand: reading
// rows, products by register tiles, weights of a row of scores.
//
// Included once for each target, after hwy/foreach_target.h.

#if defined(PLAIT_CPU_ATTENTION_PARTS_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PLAIT_CPU_ATTENTION_PARTS_H_
#undef PLAIT_CPU_ATTENTION_PARTS_H_
#else
#define PLAIT_CPU_ATTENTION_PARTS_H_
#endif

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "base/parallel.h"
#include "cpu/attention.h"
#include "cpu/gemm.h"
#include "cpu/gemm_pack.h"
#include "cpu/gemm_tile.h"
#include "cpu/random.h"
#include "cpu/scratch.h"
#include "cpu/simd/words.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace plait::cpu::kernel {
namespace HWY_NAMESPACE {
namespace attention {

inline constexpr double kLog2E = 1.4426950408889634;

// The type that a storage type is computed in.
template <typename S>
using Computed = std::conditional_t<std::is_same_v<S, double>, double, float>;

// Scores of a block lie in rows of this many elements: not a power of two, so that rows
// do not fall on the same lines of L1.
template <typename T>
constexpr int64_t ScoreStride(int64_t keys) {
  return CeilDiv(keys, kTileColumns<T>) * kTileColumns<T> + kLanes<T>;
}

// Widths of copies are whole vectors, zeros behind the last element.
template <typename T>
int64_t Padded(int64_t n) {
  return CeilDiv(n, kLanes<T>) * kLanes<T>;
}

// to[d] = factor * x[d], and the other way round. The compiler makes vectors of the
// loops, but for float16.
template <typename S, typename T>
HWY_INLINE void CopyRow(const S* x, int64_t n, T factor, T* to) {
  int64_t d = 0;
#if PLAIT_HAVE_VECTORS
  if constexpr (std::is_same_v<S, Float16>) {
    const TileTag<float> wide;
    const hn::Rebind<hwy::float16_t, TileTag<float>> half;
    for (; d + kLanes<float> <= n; d += kLanes<float>) {
      const auto v = hn::LoadU(half, reinterpret_cast<const hwy::float16_t*>(x + d));
      hn::StoreU(hn::Mul(hn::PromoteTo(wide, v), hn::Set(wide, factor)), wide, to + d);
    }
  }
#endif
  for (; d < n; ++d) to[d] = static_cast<T>(x[d]) * factor;
}
template <typename S, typename T>
HWY_INLINE void WriteRow(const T* x, int64_t n, T factor, S* to) {
  int64_t d = 0;
#if PLAIT_HAVE_VECTORS
  if constexpr (std::is_same_v<S, Float16>) {
    const TileTag<float> wide;
    const hn::Rebind<hwy::float16_t, TileTag<float>> half;
    for (; d + kLanes<float> <= n; d += kLanes<float>) {
      const auto v = hn::Mul(hn::LoadU(wide, x + d), hn::Set(wide, factor));
      hn::StoreU(hn::DemoteTo(half, v), half,
                 reinterpret_cast<hwy::float16_t*>(to + d));
    }
  }
#endif
  for (; d < n; ++d) to[d] = static_cast<S>(x[d] * factor);
}

// to[i * width + d] = factor * row i of x. Elements behind the rows' end are 0.
template <typename S, typename T>
void CopyRows(const S* x, int64_t row, int64_t n, int64_t size, int64_t width, T factor,
              T* to) {
  for (int64_t i = 0; i < n; ++i, x += row, to += width) {
    CopyRow(x, size, factor, to);
    for (int64_t d = size; d < width; ++d) to[d] = 0;
  }
}
// The way back, each row with a factor of its own.
template <typename S, typename T, typename F>
void WriteRows(const T* x, int64_t width, int64_t n, int64_t size, S* to, int64_t row,
               F&& factor) {
  for (int64_t i = 0; i < n; ++i, x += width, to += row) {
    WriteRow(x, size, factor(i), to);
  }
}

template <typename S>
S* RowsAt(const AttentionRows& x, int64_t b, int64_t h, int64_t i) {
  return static_cast<S*>(x.data) + b * x.batch + h * x.head + i * x.row;
}

// Rows as the right side of a product by their transpose, in column panels.
template <typename T>
void PackColumns(const T* rows, int64_t n, int64_t width, int64_t k, T* to) {
  for (int64_t j = 0; j < n; j += kTileColumns<T>) {
    const ColumnPanel<T> panel(n, j);
    Pack<T>({rows + j * width, width, 1}, panel.columns, k, panel.width, to);
    to += panel.width * k;
  }
}
// Rows as the left side, in panels of at most kTileRows.
template <typename T>
void PackLeft(const T* rows, const RowPanels& panels, int64_t width, int64_t k, T* to) {
  for (int64_t i = 0; i < panels.count; ++i) {
    const int64_t first = panels.First(i);
    Pack<T>({rows + first * width, width, 1}, panels.Rows(i), k, panels.Rows(i),
            to + first * k);
  }
}

// c = a b for the panels [first, last) of a packed left side; c points to row
// panels.First(first). b was packed with `packed` columns, of which the first ones
// count; c is overwritten up to a whole panel.
template <typename T>
void MultiplyPacked(const T* a, const RowPanels& panels, int64_t first, int64_t last,
                    int64_t k, const T* b, int64_t packed, int64_t columns, T* c,
                    int64_t ldc) {
  for (int64_t j = 0; j < columns; j += kTileColumns<T>) {
    const ColumnPanel<T> panel(packed, j);
    for (int64_t i = first; i < last; ++i) {
      const int64_t row = panels.First(i);
      FindPackedTile<T>(panels.Rows(i), panel.vecs)(
          k, a + row * k, b, panel.width,
          {c + (row - panels.First(first)) * ldc + j, ldc, 1, 0, nullptr, false});
    }
    b += panel.width * k;
  }
}

// c (m, n) = a b, or += with add; a by any strides, b in rows of `n`, a whole number of
// vectors.
template <typename T>
void MultiplyRows(int64_t m, int64_t n, int64_t k, const T* a, int64_t a_row,
                  int64_t a_k, const T* b, bool add, T* c) {
  const RowPanels rows(m);
  for (int64_t j = 0; j < n; j += kTileColumns<T>) {
    const ColumnPanel<T> panel(n, j);
    for (int64_t i = 0; i < rows.count; ++i) {
      const int64_t first = rows.First(i);
      FindDirectTile<T>(rows.Rows(i), panel.vecs)(
          k, a + first * a_row, a_row, a_k, b + j, n, panel.columns,
          {c + first * n + j, n, 1, add ? T(1) : T(0), nullptr, false});
    }
  }
}

// 2^x for x below the largest exponent, to about an ULP; 0 for -infinity.
template <class D, class V, typename T = hn::TFromD<D>>
HWY_INLINE V Exp2(D d, V x) {
#if PLAIT_HAVE_VECTORS
  namespace words = cpu::HWY_NAMESPACE;
  if constexpr (sizeof(T) == 4) {
    // (2^r - 1) / r for |r| <= 1/2, a minimax polynomial.
    constexpr float kExp2[] = {0x1.62e43p-1f,  0x1.ebfbdcp-3f,  0x1.c6aee8p-5f,
                               0x1.3b2d4cp-7f, 0x1.5f3e54p-10f, 0x1.41fbcp-13f};
    x = words::AtLeast(hn::Set(d, -150.f), x);
    const V n = hn::Round(x), r = hn::Sub(x, n);
    const V p = hn::MulAdd(r, words::Polynomial(d, r, kExp2), hn::Set(d, 1.f));
    return words::Scale(d, p, n);
  } else {
    x = words::AtLeast(hn::Set(d, T(-1100)), x);
    const V n = hn::Round(x), r = hn::Sub(x, n);
    const V p =
        hn::MulAdd(r, words::Polynomial(d, r, words::C<D>::kExp2), hn::Set(d, T(1)));
    return words::Scale(d, p, n);
  }
#else
  return hn::Set(d, std::exp2(hn::GetLane(x)));
#endif
}

// Which weights of the stream are kept, for a row of keys.
class Kept {
 public:
  explicit Kept(const AttentionProblem& p) : p_(p) {
    const double below = (1 - p.dropout) * 0x1p32;
    none_ = below < 1;
    last_ = none_ ? 0 : static_cast<uint32_t>(static_cast<uint64_t>(below) - 1);
  }
  bool active() const { return p_.dropout > 0; }
  double factor() const { return p_.dropout < 1 ? 1 / (1 - p_.dropout) : 0; }
  // bits[j] <= limit() where key first + j is kept; with none() none are.
  void Draw(int64_t b, int64_t h, int64_t query, int64_t first, uint32_t* bits,
            int64_t n) const {
    const int64_t row = (b * p_.heads + h) * p_.queries + query;
    FillUniformBits(p_.random, row * p_.keys + first, bits, n);
  }
  uint32_t limit() const { return last_; }
  bool none() const { return none_; }

 private:
  const AttentionProblem& p_;
  uint32_t last_;
  bool none_;
};

// Of n weights those that are dropped become 0.
template <typename T>
void Drop(const Kept& kept, const uint32_t* bits, int64_t n, T* x) {
  if (kept.none()) {
    std::fill_n(x, n, T(0));
    return;
  }
  const uint32_t limit = kept.limit();
  for (int64_t j = 0; j < n; ++j) x[j] = bits[j] <= limit ? x[j] : T(0);
}

// scores[j] += the mask of key first + j, in units of the base 2.
template <typename T>
void AddMask(const AttentionMask& m, int64_t b, int64_t h, int64_t query, int64_t first,
             int64_t n, T* scores) {
  const int64_t at = b * m.batch + h * m.head + query * m.query + first * m.key;
  VisitDType(m.dtype, [&]<typename M>() {
    const M* mask = static_cast<const M*>(m.data) + at;
    constexpr bool kAdds = std::is_floating_point_v<M> || std::is_same_v<M, Float16> ||
                           std::is_same_v<M, Bfloat16>;
    for (int64_t j = 0; j < n; ++j) {
      const M v = mask[j * m.key];
      if constexpr (kAdds) {
        scores[j] += static_cast<T>(v) * static_cast<T>(kLog2E);
      } else {
        scores[j] = v != M{} ? scores[j] : -std::numeric_limits<T>::infinity();
      }
    }
  });
}

// How many of the keys from `first` on a query sees, at most n.
inline int64_t Visible(const AttentionProblem& p, int64_t b, int64_t h, int64_t query,
                       int64_t first, int64_t n) {
  int64_t end = std::clamp<int64_t>(p.Length(b, h, query), 0, p.keys);
  if (p.causal) end = std::min(end, query + p.keys - p.queries + 1);
  return std::clamp<int64_t>(end - first, 0, n);
}

// The most that one of some queries sees.
inline int64_t VisibleToAny(const AttentionProblem& p, int64_t b, int64_t h,
                            int64_t query, int64_t queries, int64_t first, int64_t n) {
  int64_t most = Visible(p, b, h, query + queries - 1, first, n);
  if (p.lengths == nullptr || p.length_query == 0) return most;  // the last sees most
  for (int64_t i = 0; i < queries; ++i) {
    most = std::max(most, Visible(p, b, h, query + i, first, n));
  }
  return most;
}

// Runs f(unit) for each unit, on all threads; results must not depend on who does what.
// `make` gives a thread its own memory.
template <typename Make>
void ShareOut(int64_t units, double work, Make&& make) {
  const int64_t worth = 1 + static_cast<int64_t>(work / 1e6);
  const int64_t team = std::min<int64_t>({units, ComputeThreads(), worth});
  std::atomic<int64_t> next{0};
  ParallelFor(std::max<int64_t>(team, 1), 1, [&](int64_t, int64_t) {
    auto worker = make();
    for (int64_t u = next.fetch_add(1); u < units; u = next.fetch_add(1)) worker(u);
  });
}

}  // namespace attention
}  // namespace HWY_NAMESPACE
}  // namespace plait::cpu::kernel
HWY_AFTER_NAMESPACE();

#endif  // PLAIT_CPU_ATTENTION_PARTS_H_
