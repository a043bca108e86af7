// The register tile of every matrix product here, for the Highway target at hand.
//
// Included once for each target, after hwy/foreach_target.h. A tile is some rows by one
// or two vectors of C; its sum runs over k in order, by fused multiply-add where the
// target has it. So an element of C never depends on how C was cut into tiles.

#if defined(PLAIT_CPU_GEMM_TILE_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PLAIT_CPU_GEMM_TILE_H_
#undef PLAIT_CPU_GEMM_TILE_H_
#else
#define PLAIT_CPU_GEMM_TILE_H_
#endif

#include <algorithm>
#include <cstdint>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace plait::cpu::kernel {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// x86 with 32 registers has 24 accumulators, all others 12.
inline constexpr int kTileRows = HWY_TARGET <= HWY_AVX3 ? 12 : 6;
inline constexpr int kTileVecs = 2;
// Masked loads and stores do not touch the lanes that are masked off.
inline constexpr bool kSafeMasks = HWY_TARGET <= HWY_AVX2;

template <typename T>
using TileTag = hn::ScalableTag<T>;
template <typename T>
inline constexpr int kLanes = HWY_LANES(T);
template <typename T>
inline constexpr int kTileColumns = kTileVecs* kLanes<T>;

// What becomes of a finished sum: c = relu(alpha * sum + beta * c + bias of the row, or
// of the column).
template <typename T>
struct TileStore {
  T* c = nullptr;
  int64_t ldc = 0;
  T alpha = 1;
  T beta = 0;               // 0: c is not read
  const T* bias = nullptr;  // one value a row, or none
  bool relu = false;
  const T* column_bias = nullptr;  // one value a column, or none; then no `bias`
  // What a tile asks the second-level cache for meanwhile, a line for each k; or none.
  const T* next = nullptr;
  int64_t next_step = 64 / sizeof(T);
};

// A tile with A packed (the rows' values for one k side by side) and B packed for vecs
// vectors, zero padded. Writes `columns` <= vecs * lanes columns.
template <typename T>
using PackedTileFn = void (*)(int64_t k, const T* a, const T* b, int64_t columns,
                              const TileStore<T>& store);
// A tile that reads A with strides and B in place, row k at b + k * b_row. Without
// safe masks B must be readable to the end of the last vector.
template <typename T>
using DirectTileFn = void (*)(int64_t k, const T* a, int64_t a_row, int64_t a_k,
                              const T* b, int64_t b_row, int64_t columns,
                              const TileStore<T>& store);

// The tile of 1 <= rows <= kTileRows and 1 <= vecs <= kTileVecs. float and double.
template <typename T>
PackedTileFn<T> FindPackedTile(int rows, int vecs);
template <typename T>
DirectTileFn<T> FindDirectTile(int rows, int vecs);

constexpr int64_t CeilDiv(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

// The panel of columns that starts at j: kTileColumns wide, the last one of n columns
// as few vectors as will do.
template <typename T>
struct ColumnPanel {
  ColumnPanel(int64_t n, int64_t j)
      : columns(std::min<int64_t>(kTileColumns<T>, n - j)),
        vecs(static_cast<int>(CeilDiv(columns, kLanes<T>))),
        width(vecs * kLanes<T>) {}
  int64_t columns;
  int vecs;
  int64_t width;
};

// Cuts n rows into equal panels of at most kTileRows: 50 rows are 5 panels of 10.
struct RowPanels {
  explicit RowPanels(int64_t n)
      : count((n + kTileRows - 1) / kTileRows), rows(n), size(n / count) {
    more = n - size * count;
  }
  int64_t First(int64_t i) const { return i * size + (i < more ? i : more); }
  int Rows(int64_t i) const { return static_cast<int>(size + (i < more ? 1 : 0)); }
  int64_t count, rows, size, more;
};

}  // namespace HWY_NAMESPACE
}  // namespace plait::cpu::kernel
HWY_AFTER_NAMESPACE();

#endif  // PLAIT_CPU_GEMM_TILE_H_
