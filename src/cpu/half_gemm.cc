// Products of bfloat16 matrices: packed panels of pairs along k, blocked for the
// caches.
//
// An instruction adds the products of two neighbours along k to a sum, so A and B are
// copied into panels in which the pairs of a row (of a column) at one place lie side by
// side. B is copied once for a chunk of columns, A a block of rows at a time. A panel
// has all of k if that is not too long, as B comes from the second-level cache fast
// enough; so C is touched once, and needs no array of sums.

#include "cpu/half_gemm.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/parallel.h"
#include "cpu/half_target.h"
#include "cpu/scratch.h"

#if defined(__x86_64__)

namespace plait::cpu {
namespace {

constexpr int kTileRows = 12, kTileVecs = 2;
constexpr int64_t kLanes = 16, kTileColumns = kTileVecs * kLanes;
// A piece of k; a block of A in the second-level cache; copies of B, both in pairs.
// Places of k that are copied of all panels, where rows lie contiguous.
constexpr int64_t kPlaces = 16;
constexpr int64_t kMostK = 4096, kBlockPairs = 100 << 10, kChunkPairs = 2 << 20;
// Longer sums would make copies of B too large.
constexpr int64_t kLongest = int64_t{1} << 17;

constexpr int64_t CeilDiv(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

// An operand as rows (of A) or columns (of B), `row` elements apart, along k.
struct Operand {
  const Bfloat16* data;
  int64_t row, k;
  Operand From(int64_t i, int64_t q) const { return {data + i * row + q * k, row, k}; }
};

// The first n of 16 lanes.
__mmask16 First(int64_t n) {
  return static_cast<__mmask16>(n >= kLanes ? 0xffff
                                            : (1u << std::max<int64_t>(n, 0)) - 1);
}

// to[t * width + i] = the pair (x(i, 2 t), x(i, 2 t + 1)) for i < n; zeros for the
// other `lanes`, and where k is odd. Up to 16 rows, of which k lies contiguous.
PLAIT_BF16_TARGET void PackRows(const Bfloat16* from, int64_t row, int64_t n, int64_t k,
                                int64_t width, __mmask16 lanes, uint32_t* to) {
  for (int64_t q = 0; q < k; q += 2 * kLanes, to += kLanes * width) {
    const int64_t left = std::min(2 * kLanes, k - q);
    const auto mask = static_cast<__mmask32>(left == 32 ? ~0u : (1u << left) - 1);
    for (int64_t i = 0; i < n; ++i) _mm_prefetch(from + (i + n) * row + q, _MM_HINT_T0);
    __m512i a[kLanes];
#pragma GCC unroll 16
    for (int i = 0; i < kLanes; ++i)
      a[i] = i < n ? _mm512_maskz_loadu_epi16(mask, from + i * row + q)
                   : _mm512_setzero_si512();
    half::Transpose(a);
    const int64_t pairs = (left + 1) / 2;
#pragma GCC unroll 16
    for (int t = 0; t < kLanes; ++t)
      if (t < pairs) _mm512_mask_storeu_epi32(to + t * width, lanes, a[t]);
  }
}

// The same where the rows lie contiguous, and places of k are `step` elements apart: up
// to two vectors of rows.
PLAIT_BF16_TARGET void PairRows(const Bfloat16* from, int64_t step, int64_t n,
                                int64_t k, int64_t width, uint32_t* to) {
  const auto there = static_cast<__mmask32>(n >= 32 ? ~0u : (1u << n) - 1);
  const __mmask16 low = First(width), high = First(width - kLanes);
  const __m512i order =
      _mm512_set_epi16(47, 15, 46, 14, 45, 13, 44, 12, 43, 11, 42, 10, 41, 9, 40, 8, 39,
                       7, 38, 6, 37, 5, 36, 4, 35, 3, 34, 2, 33, 1, 32, 0);
  const __m512i upper = _mm512_add_epi16(order, _mm512_set1_epi16(kLanes));
  for (int64_t q = 0; q < k; q += 2, from += 2 * step, to += width) {
    _mm_prefetch(from + kPlaces * step, _MM_HINT_T0);
    _mm_prefetch(from + (kPlaces + 1) * step, _MM_HINT_T0);
    const __m512i a = _mm512_maskz_loadu_epi16(there, from);
    const __m512i b = q + 1 < k ? _mm512_maskz_loadu_epi16(there, from + step)
                                : _mm512_setzero_si512();
    _mm512_mask_storeu_epi32(to, low, _mm512_permutex2var_epi16(a, order, b));
    if (high != 0)
      _mm512_mask_storeu_epi32(to + kLanes, high,
                               _mm512_permutex2var_epi16(a, upper, b));
  }
}

// Copies `count` panels; panel i has n(i) rows from first(i) on and is width(i) wide,
// and goes to `to` + first(i) * pairs: to[t * width + row]. Where rows lie contiguous,
// all panels of a few places of k follow one another, as memory does.
template <class Panels>
void Pack(const Operand& x, const Panels& panels, int64_t k, uint32_t* to) {
  const int64_t pairs = CeilDiv(k, 2);
  if (x.k != 1) {
    for (int64_t q = 0; q < k; q += kPlaces)
      for (int64_t i = 0; i < panels.count; ++i)
        PairRows(x.data + panels.First(i) + q * x.k, x.k, panels.Rows(i),
                 std::min(kPlaces, k - q), panels.Width(i),
                 to + panels.First(i) * pairs + q / 2 * panels.Width(i));
    return;
  }
  for (int64_t i = 0; i < panels.count; ++i) {
    const int64_t width = panels.Width(i);
    for (int64_t r = 0; r < width; r += kLanes)
      PackRows(x.data + (panels.First(i) + r) * x.row, x.row, panels.Rows(i) - r, k,
               width, First(width - r), to + panels.First(i) * pairs + r);
  }
}

// n rows of A cut into equal panels of at most kTileRows.
struct RowPanels {
  explicit RowPanels(int64_t rows) : n(rows), count(CeilDiv(rows, kTileRows)) {}
  int64_t First(int64_t i) const { return n * i / count; }
  int64_t Rows(int64_t i) const { return First(i + 1) - First(i); }
  int64_t Width(int64_t i) const { return Rows(i); }
  int64_t n, count;
};
// n columns of B in panels of kTileColumns, the last one of as few vectors as will do.
struct ColumnPanels {
  explicit ColumnPanels(int64_t columns)
      : n(columns), count(CeilDiv(columns, kTileColumns)) {}
  int64_t First(int64_t i) const { return i * kTileColumns; }
  int64_t Rows(int64_t i) const { return std::min(kTileColumns, n - First(i)); }
  int64_t Width(int64_t i) const { return CeilDiv(Rows(i), kLanes) * kLanes; }
  int64_t n, count;
};

// What becomes of a tile's sums.
struct TileStore {
  const HalfGemmProblem* p;
  int64_t i, j, columns;  // the tile's place in C
  float* sums;            // those of other pieces of k, or none
  int64_t width;          // of rows of sums
  bool first, last;       // piece of k
  const uint32_t* next;   // of B: what to fetch from the third-level cache meanwhile
};

// Rows of `vecs` vectors.
PLAIT_BF16_TARGET void FinishTile(const float* acc, int rows, int vecs,
                                  const TileStore& s) {
  const HalfGemmProblem& p = *s.p;
  const __m512 alpha = _mm512_set1_ps(p.alpha), beta = _mm512_set1_ps(p.beta);
  for (int j = 0; j < vecs; ++j) {
    const __mmask16 mask = First(s.columns - j * kLanes);
    const int64_t column = s.j + j * kLanes;
    const auto widen = [mask](const Bfloat16* from) PLAIT_BF16_TARGET {
      const __m256i bits = _mm256_maskz_loadu_epi16(mask, from);
      return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16));
    };
    const __m512 bias =
        p.bias != nullptr && s.last ? widen(p.bias + column) : _mm512_setzero_ps();
    for (int i = 0; i < rows; ++i) {
      __m512 v = _mm512_load_ps(acc + (i * vecs + j) * kLanes);
      float* sums = s.sums + i * s.width + j * kLanes;
      if (!s.first) v = _mm512_add_ps(v, _mm512_maskz_loadu_ps(mask, sums));
      if (!s.last) {
        _mm512_mask_storeu_ps(sums, mask, v);
        continue;
      }
      const int64_t at = (s.i + i) * p.ldc + column;
      float* const c = static_cast<float*>(p.c) + at;
      Bfloat16* const half = static_cast<Bfloat16*>(p.c) + at;
      v = _mm512_mul_ps(v, alpha);
      if (p.beta != 0) {
        const __m512 old = p.to_float ? _mm512_maskz_loadu_ps(mask, c) : widen(half);
        v = _mm512_fmadd_ps(beta, old, v);
      }
      if (p.bias != nullptr) v = _mm512_add_ps(v, bias);
      if (p.relu) {
        const __mmask16 below = _mm512_cmp_ps_mask(v, _mm512_setzero_ps(), _CMP_LT_OQ);
        v = _mm512_mask_blend_ps(below, v, _mm512_setzero_ps());
      }
      if (p.to_float) {
        _mm512_mask_storeu_ps(c, mask, v);
      } else {
        _mm256_mask_storeu_epi16(half, mask,
                                 reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(v)));
      }
    }
  }
}

// The tile of kRows rows by kVecs vectors of columns.
template <int kRows, int kVecs>
PLAIT_BF16_TARGET void Tile(int64_t pairs, const uint32_t* a, const uint32_t* b,
                            const TileStore& store) {
  __m512 acc[kRows][kVecs];
#pragma GCC unroll 12
  for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 2
    for (int j = 0; j < kVecs; ++j) acc[i][j] = _mm512_setzero_ps();
  const uint32_t* next = store.next;
  for (; pairs > 0; --pairs, a += kRows, b += kVecs * kLanes, next += kLanes) {
    _mm_prefetch(next, _MM_HINT_T1);
    __m512bh v[kVecs];
#pragma GCC unroll 2
    for (int j = 0; j < kVecs; ++j)
      v[j] = reinterpret_cast<__m512bh>(_mm512_loadu_si512(b + j * kLanes));
#pragma GCC unroll 12
    for (int i = 0; i < kRows; ++i) {
      const __m512bh x =
          reinterpret_cast<__m512bh>(_mm512_set1_epi32(static_cast<int>(a[i])));
#pragma GCC unroll 2
      for (int j = 0; j < kVecs; ++j) acc[i][j] = _mm512_dpbf16_ps(acc[i][j], v[j], x);
    }
  }
  alignas(64) float sums[kRows * kVecs * kLanes];
#pragma GCC unroll 12
  for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 2
    for (int j = 0; j < kVecs; ++j)
      _mm512_store_ps(sums + (i * kVecs + j) * kLanes, acc[i][j]);
  FinishTile(sums, kRows, kVecs, store);
}

using TileFn = void (*)(int64_t, const uint32_t*, const uint32_t*, const TileStore&);

TileFn FindTile(int64_t rows, int64_t vecs) {
  static constexpr auto kTable = []<size_t... I>(std::index_sequence<I...>) {
    return std::array<std::array<TileFn, kTileVecs>, sizeof...(I)>{
        {{Tile<I + 1, 1>, Tile<I + 1, 2>}...}};
  }
  (std::make_index_sequence<kTileRows>());
  return kTable[rows - 1][vecs - 1];
}

// One thread's share: rows [i0, i1) and columns [j0, j1) of C.
class Block {
 public:
  Block(const HalfGemmProblem& p, int64_t i0, int64_t i1, int64_t j0, int64_t j1)
      : p_(p),
        a_{p.a, p.trans_a ? 1 : p.lda, p.trans_a ? p.lda : 1},
        b_{p.b, p.trans_b ? p.ldb : 1, p.trans_b ? 1 : p.ldb},
        i0_(i0),
        i1_(i1),
        j0_(j0),
        j1_(j1),
        pieces_(std::max<int64_t>(1, CeilDiv(p.k, kMostK))),
        pairs_(CeilDiv(p.k, 2 * pieces_)) {
    rows_ = std::clamp<int64_t>(kBlockPairs / std::max<int64_t>(pairs_, 1), kTileRows,
                                20 * kTileRows);
    rows_ = std::min(rows_ / kTileRows * kTileRows, i1 - i0);
    const int64_t all = std::max<int64_t>(pairs_ * pieces_, 1);
    chunk_ = std::max<int64_t>(kChunkPairs / all, 8 * kTileColumns);
    chunk_ = std::min(chunk_ / kTileColumns * kTileColumns,
                      CeilDiv(j1 - j0, kLanes) * kLanes);
  }

  void Run() {
    const int64_t b_pairs = chunk_ * pairs_ * pieces_;
    const int64_t sums = pieces_ > 1 ? rows_ * chunk_ : 0;
    const Scratch scratch(Scratch::Bytes<uint32_t>(b_pairs + rows_ * pairs_ + sums));
    b_packed_ = scratch.As<uint32_t>();
    a_packed_ = b_packed_ + b_pairs;
    sums_ = reinterpret_cast<float*>(a_packed_ + rows_ * pairs_);
    // Blocks of nearly equal rows, as a tile of few rows is slow.
    const int64_t all = i1_ - i0_, blocks = CeilDiv(all, rows_);
    for (int64_t j = j0_; j < j1_; j += chunk_) {
      const int64_t n = std::min(chunk_, j1_ - j);
      for (int64_t piece = 0; piece < pieces_; ++piece) PackB(piece, j, n);
      for (int64_t block = 0; block < blocks; ++block) {
        const int64_t i = i0_ + all * block / blocks,
                      end = i0_ + all * (block + 1) / blocks;
        for (int64_t piece = 0; piece < pieces_; ++piece) Rows(piece, i, end - i, j, n);
      }
    }
  }

 private:
  // A piece of k: its first place, its length, its pairs.
  int64_t Begin(int64_t piece) const { return std::min(piece * 2 * pairs_, p_.k); }
  int64_t Length(int64_t piece) const { return Begin(piece + 1) - Begin(piece); }
  int64_t Pairs(int64_t piece) const { return CeilDiv(Length(piece), 2); }

  void PackB(int64_t piece, int64_t j, int64_t n) {
    Pack(b_.From(j, Begin(piece)), ColumnPanels(n), Length(piece),
         b_packed_ + piece * chunk_ * pairs_);
  }

  void Rows(int64_t piece, int64_t i, int64_t m, int64_t j, int64_t n) {
    const RowPanels rows(m);
    const ColumnPanels columns(n);
    const int64_t pairs = Pairs(piece);
    Pack(a_.From(i, Begin(piece)), rows, Length(piece), a_packed_);
    const uint32_t* b = b_packed_ + piece * chunk_ * pairs_;
    // Lines of the next panel for each tile.
    const int64_t share = CeilDiv(kTileVecs * pairs, rows.count);
    for (int64_t s = 0; s < columns.count; ++s) {
      const int64_t at = columns.First(s);
      for (int64_t r = 0; r < rows.count; ++r) {
        const int64_t first = rows.First(r);
        FindTile(rows.Rows(r), columns.Width(s) / kLanes)(
            pairs, a_packed_ + first * pairs, b + at * pairs,
            {&p_, i + first, j + at, columns.Rows(s), sums_ + first * chunk_ + at,
             chunk_, piece == 0, piece + 1 == pieces_,
             b + columns.First(s + 1) * pairs + r * share * kLanes});
      }
    }
  }

  const HalfGemmProblem& p_;
  const Operand a_, b_;
  const int64_t i0_, i1_, j0_, j1_, pieces_, pairs_;
  int64_t rows_, chunk_;
  uint32_t* a_packed_ = nullptr;
  uint32_t* b_packed_ = nullptr;
  float* sums_ = nullptr;
};

}  // namespace

bool SuitsHalfGemm(const HalfGemmProblem& p) {
  constexpr int64_t kFewRows = 8, kFewColumns = 8;
  return half::HasProducts() && p.m > kFewRows && p.n > kFewColumns && p.k >= 8 &&
         p.k <= kLongest;
}

void HalfGemm(const HalfGemmProblem& p) {
  const double work =
      static_cast<double>(p.m) * static_cast<double>(p.n) * static_cast<double>(p.k);
  // A thread is worth waking for about two million multiplications.
  const auto most = static_cast<int64_t>(std::min(work / 2e6, 1e6));
  const int64_t threads = std::clamp<int64_t>(most, 1, ComputeThreads());
  const int64_t tiles_m = CeilDiv(p.m, kTileRows), tiles_n = CeilDiv(p.n, kTileColumns);
  // Blocks as square as may be, since both sides are copied.
  int64_t down = 1;
  double least = 0;
  for (int64_t d = 1; d <= std::min(threads, tiles_m); ++d) {
    const int64_t across = std::min(threads / d, tiles_n);
    const auto m = static_cast<double>(CeilDiv(tiles_m, d) * kTileRows);
    const auto n = static_cast<double>(CeilDiv(tiles_n, across) * kTileColumns);
    const double cost = m * n + 32 * (m + n);
    if (d == 1 || cost < least) {
      least = cost;
      down = d;
    }
  }
  const int64_t across = std::min(threads / down, tiles_n);
  ParallelFor(down * across, 1, [&](int64_t first, int64_t last) {
    for (int64_t t = first; t < last; ++t) {
      const int64_t r = t / across, s = t % across;
      Block(p, std::min(p.m, tiles_m * r / down * kTileRows),
            std::min(p.m, tiles_m * (r + 1) / down * kTileRows),
            std::min(p.n, tiles_n * s / across * kTileColumns),
            std::min(p.n, tiles_n * (s + 1) / across * kTileColumns))
          .Run();
    }
  });
}

}  // namespace plait::cpu

#else

namespace plait::cpu {

bool SuitsHalfGemm(const HalfGemmProblem&) {
  return false;
}
void HalfGemm(const HalfGemmProblem&) {}

}  // namespace plait::cpu

#endif
