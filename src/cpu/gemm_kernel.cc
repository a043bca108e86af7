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

// A panel of B (kMaxK x columns) stays in L1, a block of A (kMaxRows x kMaxK) in L2.
constexpr int64_t kMaxK = 256;
constexpr int64_t kMaxRows = 120;
template <typename T>
constexpr int64_t kMaxColumns = 4096 / sizeof(T);

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

template <typename T>
void Small(const GemmProblem<T>& p) {
  if (IsColumn(p)) return Small(Transposed(p));
  if (IsInnerProducts(p)) return InnerProducts(p);
  if (!p.trans_b && (kSafeMasks || p.n % kLanes<T> == 0)) return InPlace(p);
  // A panel of B at a time, through a buffer on the stack, in pieces of k.
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

// The general case, serially.
template <typename T>
class Block {
 public:
  explicit Block(const GemmProblem<T>& p) : p_(p) {
    const int64_t k = std::min(p.k, kMaxK);
    a_size_ = std::min(p.m, kMaxRows) * k;
    b_size_ = (std::min(p.n, kMaxColumns<T>) + kTileColumns<T>)*k;
  }
  void Run() {
    const Scratch scratch(Scratch::Bytes<T>(a_size_ + b_size_));
    b_packed_ = scratch.As<T>();
    a_packed_ = b_packed_ + b_size_;
    const int64_t pieces = std::max<int64_t>(1, CeilDiv(p_.k, kMaxK));
    for (int64_t piece = 0; piece < pieces; ++piece) {
      const int64_t q0 = p_.k * piece / pieces, q1 = p_.k * (piece + 1) / pieces;
      for (int64_t j = 0; j < p_.n; j += kMaxColumns<T>) {
        const int64_t n = std::min(kMaxColumns<T>, p_.n - j);
        PackB(q0, q1, j, n);
        for (int64_t i = 0; i < p_.m; i += kMaxRows) {
          Rows(q0, q1, i, std::min(kMaxRows, p_.m - i), j, n);
        }
      }
    }
  }

 private:
  // Rows of A that lie contiguous are read in place, unless they fall on the same lines
  // of L1 or the work on them is large enough to pay for a copy.
  bool PacksA() const {
    return p_.trans_a || (p_.lda * sizeof(T) % 1024 == 0 && p_.n > 64);
  }
  void PackB(int64_t q0, int64_t q1, int64_t j0, int64_t n) {
    const Operand<T> b = ColumnsOfB(p_);
    T* to = b_packed_;
    for (int64_t j = 0; j < n; j += kTileColumns<T>) {
      const ColumnPanel<T> panel(n, j);
      Pack(b.From(j0 + j, q0), panel.columns, q1 - q0, panel.width, to);
      to += panel.width * (q1 - q0);
    }
  }
  void Rows(int64_t q0, int64_t q1, int64_t i0, int64_t m, int64_t j0, int64_t n) {
    const Operand<T> a = RowsOfA(p_);
    const RowPanels rows(m);
    const int64_t k = q1 - q0;
    const bool pack = PacksA();
    for (int64_t i = 0; pack && i < rows.count; ++i) {
      Pack(a.From(i0 + rows.First(i), q0), rows.Rows(i), k, rows.Rows(i),
           a_packed_ + rows.First(i) * k);
    }
    const T* b = b_packed_;
    for (int64_t j = 0; j < n; j += kTileColumns<T>) {
      const ColumnPanel<T> panel(n, j);
      for (int64_t i = 0; i < rows.count; ++i) {
        const int64_t first = i0 + rows.First(i);
        const TileStore<T> store = StoreOf(p_, first, j0 + j, q0 == 0, q1 == p_.k);
        if (pack) {
          FindPackedTile<T>(rows.Rows(i), panel.vecs)(k, a_packed_ + rows.First(i) * k,
                                                      b, panel.columns, store);
        } else {
          FindDirectTile<T>(rows.Rows(i), panel.vecs)(
              k, a.At(first, q0), a.row, a.k, b, panel.width, panel.columns, store);
        }
      }
      b += panel.width * k;
    }
  }

  const GemmProblem<T>& p_;
  int64_t a_size_ = 0, b_size_ = 0;
  T* a_packed_ = nullptr;
  T* b_packed_ = nullptr;
};

// One thread's share of the work.
template <typename T>
void Serial(const GemmProblem<T>& p) {
  const double work = static_cast<double>(p.m) * p.n * p.k;
  // A matrix B that is used once, or that the caches hold as it is, is not packed.
  const bool in_place =
      !p.trans_b && kSafeMasks && p.k * p.n * int64_t{sizeof(T)} <= (128 << 10);
  if (in_place || work <= 1 << 15 || p.m <= kTileRows || IsInnerProducts(p)) {
    Small(p);
  } else {
    Block<T>(p).Run();
  }
}

// How many threads cut the rows and the columns of C, each into nearly equal parts of
// whole tiles. The least traffic: blocks as square as may be.
struct Grid {
  Grid(int64_t threads, int64_t units_m, int64_t units_n, int64_t tile_columns) {
    double least = 0;
    for (int64_t tm = 1; tm <= std::min(threads, units_m); ++tm) {
      const int64_t tn = std::min(threads / tm, units_n);
      const double m = static_cast<double>(CeilDiv(units_m, tm) * kTileRows);
      const double n = static_cast<double>(CeilDiv(units_n, tn) * tile_columns);
      const double cost = m * n + 16 * (m + n);
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
  // A thread is worth waking for about a million multiplications.
  const double work = static_cast<double>(p.m) * p.n * p.k;
  if (ComputeThreads() <= 1 || work < 2e6) return Serial(p);
  const int64_t threads =
      std::min<int64_t>(ComputeThreads(), static_cast<int64_t>(work / 1e6));
  constexpr int64_t kN = kTileColumns<T>;
  const int64_t units_m = CeilDiv(p.m, kTileRows), units_n = CeilDiv(p.n, kN);
  const Grid grid(threads, units_m, units_n, kN);
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
      Serial(part);
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
