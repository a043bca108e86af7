// The project's own matrix product: packed panels, blocked for the caches.

#include "cpu/gemm_kernel.h"

#include <algorithm>

#include "base/parallel.h"
#include "cpu/scratch.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/gemm_kernel.cc"
#include "cpu/simd/targets.h"
#include "hwy/foreach_target.h"
//
#include "cpu/gemm_pack.h"
#include "cpu/gemm_tile.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace plait::cpu::kernel {
namespace HWY_NAMESPACE {

// A panel of B has all of k, or pieces of up to so much of it, as it comes from the
// second-level cache fast enough; so C is touched seldom. A block of A stays in that
// cache too.
template <typename T>
constexpr int64_t kMaxK = 4096 / sizeof(T);
// Of a block of A, and of B's copies.
constexpr int64_t kBlockBytes = 400 << 10, kChunkBytes = 8 << 20;
// B is read in place for few rows, as copying it would take too long, and where the
// caches hold it as it is.
constexpr int64_t kRowsInPlace = 8 * kTileRows, kBytesInPlace = 256 << 10;
// Up to so short sums C is written row by row, as writing it takes longest.
constexpr int64_t kShortK = 128;

template <typename T>
Operand<T> RowsOfA(const GemmProblem<T>& p) {
  return p.trans_a ? Operand<T>{p.a, 1, p.lda} : Operand<T>{p.a, p.lda, 1};
}
template <typename T>
Operand<T> ColumnsOfB(const GemmProblem<T>& p) {
  return p.trans_b ? Operand<T>{p.b, p.ldb, 1} : Operand<T>{p.b, 1, p.ldb};
}

// `first`, `last`: of the pieces of k.
template <typename T>
TileStore<T> StoreOf(const GemmProblem<T>& p, int64_t i, int64_t j, bool first,
                     bool last) {
  return {p.c + i * p.ldc + j,
          p.ldc,
          p.alpha,
          first ? p.beta : T(1),
          nullptr,
          p.relu && last,
          first && p.bias != nullptr ? p.bias + j : nullptr};
}

// C where B may be read in place; A is read with strides.
template <typename T>
void InPlace(const GemmProblem<T>& p) {
  const Operand<T> a = RowsOfA(p);
  const RowPanels rows(p.m);
  for (int64_t j = 0; j < p.n; j += kTileColumns<T>) {
    const ColumnPanel<T> panel(p.n, j);
    for (int64_t i = 0; i < rows.count; ++i) {
      const int64_t first = rows.First(i);
      FindDirectTile<T>(rows.Rows(i), panel.vecs)(p.k, a.At(first, 0), a.row, a.k,
                                                  p.b + j, p.ldb, panel.columns,
                                                  StoreOf(p, first, j, true, true));
    }
  }
}

// A row times a matrix whose columns lie contiguous: one inner product a column.
template <typename T>
void InnerProducts(const GemmProblem<T>& p) {
  const TileTag<T> d;
  constexpr int64_t kL = kLanes<T>;
  for (int64_t j = 0; j < p.n; ++j) {
    const T* b = p.b + j * p.ldb;
    auto s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0;
    int64_t q = 0;
    for (; q + 4 * kL <= p.k; q += 4 * kL) {
      s0 = hn::MulAdd(hn::LoadU(d, p.a + q), hn::LoadU(d, b + q), s0);
      s1 = hn::MulAdd(hn::LoadU(d, p.a + q + kL), hn::LoadU(d, b + q + kL), s1);
      s2 = hn::MulAdd(hn::LoadU(d, p.a + q + 2 * kL), hn::LoadU(d, b + q + 2 * kL), s2);
      s3 = hn::MulAdd(hn::LoadU(d, p.a + q + 3 * kL), hn::LoadU(d, b + q + 3 * kL), s3);
    }
    for (; q + kL <= p.k; q += kL) {
      s0 = hn::MulAdd(hn::LoadU(d, p.a + q), hn::LoadU(d, b + q), s0);
    }
    T sum = hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(s0, s1), hn::Add(s2, s3))));
    for (; q < p.k; ++q) sum += p.a[q] * b[q];
    T c = p.alpha * sum + (p.beta != 0 ? p.beta * p.c[j] : T(0));
    if (p.bias != nullptr) c += p.bias[j];
    p.c[j] = p.relu && c < 0 ? T(0) : c;
  }
}

// A bias is one of a column, not of a row as would be needed.
template <typename T>
bool IsColumn(const GemmProblem<T>& p) {
  return p.n == 1 && p.m > 1 && p.ldc == 1 && p.bias == nullptr;
}

// One column of C as one row of C's transpose.
template <typename T>
GemmProblem<T> Transposed(const GemmProblem<T>& p) {
  GemmProblem<T> t = p;
  t.trans_a = !p.trans_b;
  t.trans_b = !p.trans_a;
  t.m = p.n;
  t.n = p.m;
  t.a = p.b;
  t.lda = p.ldb;
  t.b = p.a;
  t.ldb = p.lda;
  t.ldc = p.m;
  return t;
}

template <typename T>
bool IsInnerProducts(const GemmProblem<T>& p) {
  return p.m == 1 && p.trans_b && (!p.trans_a || p.lda == 1);
}

// A panel of B at a time, through a buffer on the stack, in pieces of k.
template <typename T>
void SmallPanels(const GemmProblem<T>& p) {
  constexpr int64_t kPiece = 64;
  HWY_ALIGN T packed[kPiece * kTileColumns<T>];
  const Operand<T> a = RowsOfA(p), b = ColumnsOfB(p);
  const RowPanels rows(p.m);
  for (int64_t j = 0; j < p.n; j += kTileColumns<T>) {
    const ColumnPanel<T> panel(p.n, j);
    for (int64_t q = 0; q == 0 || q < p.k; q += kPiece) {
      const int64_t k = std::min(kPiece, p.k - q);
      Pack(b.From(j, q), panel.columns, k, panel.width, packed);
      for (int64_t i = 0; i < rows.count; ++i) {
        const int64_t first = rows.First(i);
        FindDirectTile<T>(rows.Rows(i), panel.vecs)(
            k, a.At(first, q), a.row, a.k, packed, panel.width, panel.columns,
            StoreOf(p, first, j, q == 0, q + kPiece >= p.k));
      }
    }
  }
}

// Calls pack(panel, first place of k, places) for all panels of an operand, in the
// order in which memory has it.
template <typename T, class F>
void PackPanels(const Operand<T>& x, int64_t count, int64_t k, F&& pack) {
  constexpr int64_t kPlaces = 16;
  const int64_t step = x.row == 1 ? kPlaces : std::max<int64_t>(k, 1);
  for (int64_t q = 0; q < k; q += step)
    for (int64_t i = 0; i < count; ++i) pack(i, q, std::min(step, k - q));
}

// The general case, serially.
template <typename T>
class Block {
  static constexpr int64_t kSize = sizeof(T);

 public:
  explicit Block(const GemmProblem<T>& p)
      : p_(p),
        pieces_(std::max<int64_t>(1, CeilDiv(p.k, kMaxK<T>))),
        copies_b_(p.trans_b || !kSafeMasks ||
                  (p.m > kRowsInPlace && p.k * p.n * kSize > kBytesInPlace)),
        rows_first_(p.k <= kShortK) {
    constexpr int64_t kLeast = 8 * kTileColumns<T>;
    const int64_t k = std::max<int64_t>(1, CeilDiv(p.k, pieces_));
    const int64_t row = k * kSize,
                  all = CeilDiv(p.n, kTileColumns<T>) * kTileColumns<T>;
    max_rows_ = std::clamp<int64_t>(kBlockBytes / row / kTileRows, 1, 20) * kTileRows;
    together_ = std::min(all, kLeast) * row <= kChunkBytes / pieces_;
    const int64_t bytes = rows_first_ ? kBlockBytes
                          : together_ ? kChunkBytes / pieces_
                                      : kChunkBytes;
    chunk_ = bytes / row / kTileColumns<T> * kTileColumns<T>;
    chunk_ = std::min(std::max(chunk_, kLeast), all);
    a_size_ = p.trans_a ? std::min(p.m, max_rows_) * k : 0;
    b_size_ = copies_b_ ? chunk_ * (together_ ? p.k : k) : 0;
  }
  void Run() {
    const Scratch scratch(Scratch::Bytes<T>(a_size_ + b_size_));
    b_packed_ = scratch.As<T>();
    a_packed_ = b_packed_ + b_size_;
    // Blocks of nearly equal rows, as a tile of few rows is slow.
    const int64_t blocks = CeilDiv(p_.m, max_rows_);
    const auto first = [&](int64_t block) { return p_.m * block / blocks; };
    for (int64_t j = 0; j < p_.n; j += chunk_) {
      const int64_t n = std::min(chunk_, p_.n - j);
      const auto rows = [&](int64_t piece, int64_t block) {
        Rows(piece, first(block), first(block + 1) - first(block), j, n);
      };
      if (together_) {
        for (int64_t piece = 0; piece < pieces_; ++piece) PackB(piece, j, n);
        for (int64_t block = 0; block < blocks; ++block)
          for (int64_t piece = 0; piece < pieces_; ++piece) rows(piece, block);
      } else {
        for (int64_t piece = 0; piece < pieces_; ++piece) {
          PackB(piece, j, n);
          for (int64_t block = 0; block < blocks; ++block) rows(piece, block);
        }
      }
    }
  }

 private:
  // The first place of a piece of k.
  int64_t Begin(int64_t piece) const { return p_.k * piece / pieces_; }
  int64_t Length(int64_t piece) const { return Begin(piece + 1) - Begin(piece); }
  T* Packed(int64_t piece) {
    return b_packed_ + (together_ ? chunk_ * Begin(piece) : 0);
  }

  void PackB(int64_t piece, int64_t j0, int64_t n) {
    if (!copies_b_) return;
    const Operand<T> b = ColumnsOfB(p_).From(j0, Begin(piece));
    const int64_t k = Length(piece);
    T* to = Packed(piece);
    PackPanels(b, CeilDiv(n, kTileColumns<T>), k,
               [&](int64_t i, int64_t q, int64_t places) {
                 const ColumnPanel<T> panel(n, i * kTileColumns<T>);
                 Pack(b.From(i * kTileColumns<T>, q), panel.columns, places,
                      panel.width, to + i * kTileColumns<T> * k + q * panel.width);
               });
  }

  // Rows [i0, i0 + m) and columns [j0, j0 + n) of C, for a piece of k.
  void Rows(int64_t piece, int64_t i0, int64_t m, int64_t j0, int64_t n) {
    const Operand<T> a = RowsOfA(p_);
    const RowPanels rows(m);
    const int64_t q = Begin(piece), k = Length(piece);
    if (p_.trans_a)
      PackPanels(a, rows.count, k, [&](int64_t i, int64_t at, int64_t places) {
        const int64_t first = rows.First(i), width = rows.Rows(i);
        Pack(a.From(i0 + first, q + at), width, places, width,
             a_packed_ + first * k + at * width);
      });
    const int64_t columns = CeilDiv(n, kTileColumns<T>);
    if (rows_first_) {
      for (int64_t i = 0; i < rows.count; ++i)
        for (int64_t s = 0; s < columns; ++s) Tile(piece, rows, i, i0, n, s, j0);
    } else {
      for (int64_t s = 0; s < columns; ++s)
        for (int64_t i = 0; i < rows.count; ++i) Tile(piece, rows, i, i0, n, s, j0);
    }
  }

  // Panel i of the rows from i0 on, panel s of the n columns from j0 on.
  void Tile(int64_t piece, const RowPanels& rows, int64_t i, int64_t i0, int64_t n,
            int64_t s, int64_t j0) {
    const int64_t q = Begin(piece), k = Length(piece), j = s * kTileColumns<T>;
    const ColumnPanel<T> panel(n, j);
    const int64_t first = rows.First(i);
    TileStore<T> store =
        StoreOf(p_, i0 + first, j0 + j, piece == 0, piece + 1 == pieces_);
    const T* b;
    int64_t b_row = panel.width;
    if (copies_b_) {
      // Each tile asks for its share of the next panel.
      b = Packed(piece) + j * k;
      store.next = b + panel.width * k + i * CeilDiv(panel.width * k, rows.count);
    } else {
      b = p_.b + q * p_.ldb + j0 + j;
      b_row = p_.ldb;
      store.next = b + kTileColumns<T> + i % kTileVecs * kLanes<T>;
      store.next_step = p_.ldb;
    }
    if (p_.trans_a) {
      if (copies_b_) {
        return FindPackedTile<T>(rows.Rows(i), panel.vecs)(k, a_packed_ + first * k, b,
                                                           panel.columns, store);
      }
      const int64_t width = rows.Rows(i);
      return FindDirectTile<T>(rows.Rows(i), panel.vecs)(
          k, a_packed_ + first * k, 1, width, b, b_row, panel.columns, store);
    }
    // Rows of A that lie contiguous are read in place.
    FindDirectTile<T>(rows.Rows(i), panel.vecs)(
        k, p_.a + (i0 + first) * p_.lda + q, p_.lda, 1, b, b_row, panel.columns, store);
  }

  const GemmProblem<T>& p_;
  const int64_t pieces_;
  const bool copies_b_, rows_first_;
  bool together_;  // copies of all pieces of k are there at once
  int64_t max_rows_, chunk_, a_size_, b_size_;
  T* a_packed_ = nullptr;
  T* b_packed_ = nullptr;
};

// How a product is computed. The ways cut k into pieces of their own, so it is said of
// the whole, not of a thread's share.
enum class Way { kInnerProducts, kInPlace, kSmallPanels, kBlocks };

template <typename T>
Way WayOf(const GemmProblem<T>& p, double work) {
  if (IsInnerProducts(p)) return Way::kInnerProducts;
  const bool in_place = !p.trans_b && (kSafeMasks || p.n % kLanes<T> == 0);
  // Up to so many multiplications, copies of A or B cost more than they bring.
  constexpr double kLittle = 1 << 15, kLittleInPlace = 1 << 21;
  constexpr int64_t kFirstCaches = (128 << 10) / sizeof(T);
  const bool little = work <= kLittle || p.m <= kTileRows ||
                      (in_place && work <= kLittleInPlace && p.k * p.n <= kFirstCaches);
  if (!little) return Way::kBlocks;
  return in_place ? Way::kInPlace : Way::kSmallPanels;
}

template <typename T>
void Serial(const GemmProblem<T>& p, Way way) {
  switch (way) {
    case Way::kInnerProducts:
      return InnerProducts(p);
    case Way::kInPlace:
      return InPlace(p);
    case Way::kSmallPanels:
      return SmallPanels(p);
    case Way::kBlocks:
      return Block<T>(p).Run();
  }
}

// How many threads cut the rows and the columns of C, each into nearly equal parts of
// whole tiles, so that the least is copied.
struct Grid {
  // row_cost, column_cost: of bringing a row of A and a column of B into place, against
  // an element of C.
  Grid(int64_t threads, int64_t units_m, int64_t units_n, int64_t tile_columns,
       double row_cost, double column_cost) {
    double least = 0;
    for (int64_t tm = 1; tm <= std::min(threads, units_m); ++tm) {
      const int64_t tn = std::min(threads / tm, units_n);
      const double m = static_cast<double>(CeilDiv(units_m, tm) * kTileRows);
      const double n = static_cast<double>(CeilDiv(units_n, tn) * tile_columns);
      const double cost = m * n + row_cost * m + column_cost * n;
      if (tm == 1 || cost < least) {
        least = cost;
        rows = tm;
        columns = tn;
      }
    }
  }
  int64_t rows = 1, columns = 1;
};

template <typename T>
void Own(const GemmProblem<T>& p) {
  if (IsColumn(p)) return Own(Transposed(p));
  const double work = static_cast<double>(p.m) * p.n * p.k;
  const Way way = WayOf(p, work);
  // A thread is worth waking for about a million multiplications.
  if (ComputeThreads() <= 1 || work < 2e6) return Serial(p, way);
  const int64_t threads =
      std::min<int64_t>(ComputeThreads(), static_cast<int64_t>(work / 1e6));
  constexpr int64_t kN = kTileColumns<T>;
  const int64_t units_m = CeilDiv(p.m, kTileRows), units_n = CeilDiv(p.n, kN);
  const Grid grid(threads, units_m, units_n, kN, p.trans_a ? 16 : 4, 16);
  const Operand<T> a = RowsOfA(p), b = ColumnsOfB(p);
  ParallelFor(grid.rows * grid.columns, 1, [&](int64_t first, int64_t last) {
    for (int64_t t = first; t < last; ++t) {
      const int64_t r = t / grid.columns, s = t % grid.columns;
      const int64_t i = units_m * r / grid.rows * kTileRows;
      const int64_t j = units_n * s / grid.columns * kN;
      GemmProblem<T> part = p;
      part.m = std::min(p.m, units_m * (r + 1) / grid.rows * kTileRows) - i;
      part.n = std::min(p.n, units_n * (s + 1) / grid.columns * kN) - j;
      part.a = a.At(i, 0);
      part.b = b.At(j, 0);
      part.c = p.c + i * p.ldc + j;
      if (p.bias != nullptr) part.bias = p.bias + j;
      Serial(part, way);
    }
  });
}

void OwnF32(const GemmProblem<float>& p) {
  Own(p);
}
void OwnF64(const GemmProblem<double>& p) {
  Own(p);
}

}  // namespace HWY_NAMESPACE
}  // namespace plait::cpu::kernel
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plait::cpu {
namespace kernel {

HWY_EXPORT(OwnF32);
HWY_EXPORT(OwnF64);
void Run(const GemmProblem<float>& p) {
  HWY_DYNAMIC_DISPATCH(OwnF32)(p);
}
void Run(const GemmProblem<double>& p) {
  HWY_DYNAMIC_DISPATCH(OwnF64)(p);
}

}  // namespace kernel

void OwnGemm(const GemmProblem<float>& p) {
  kernel::Run(p);
}
void OwnGemm(const GemmProblem<double>& p) {
  kernel::Run(p);
}

}  // namespace plait::cpu
#endif  // HWY_ONCE
