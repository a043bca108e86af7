// The register tiles: the inner loop of every matrix product here.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/gemm_tile.cc"
#include "cpu/simd/targets.h"
#include "hwy/foreach_target.h"
//
#include "cpu/gemm_tile.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace plait::cpu::kernel {
namespace HWY_NAMESPACE {

// Applies `s` to a tile of `rows` rows, `width` values apart, of `columns` <= width.
template <typename T>
HWY_NOINLINE void FinishTile(const T* HWY_RESTRICT sums, int rows, int64_t width,
                             int64_t columns, const TileStore<T>& s) {
  const TileTag<T> d;
  const auto zero = hn::Zero(d);
  const auto alpha = hn::Set(d, s.alpha), beta = hn::Set(d, s.beta);
  for (int i = 0; i < rows; ++i, sums += width) {
    const auto bias = hn::Set(d, s.bias != nullptr ? s.bias[i] : T(0));
    const auto finish = [&](auto sum, auto old, auto column) HWY_ATTR {
      auto v = hn::Mul(sum, alpha);
      if (s.beta != 0) v = hn::MulAdd(beta, old, v);
      if (s.bias != nullptr) v = hn::Add(v, bias);
      if (s.column_bias != nullptr) v = hn::Add(v, column);
      // Max would lose a NaN; the select keeps it.
      return s.relu ? hn::IfThenElse(hn::Lt(v, zero), zero, v) : v;
    };
    T* c = s.c + i * s.ldc;
    int64_t j = 0;
    for (; j + kLanes<T> <= columns; j += kLanes<T>) {
      const auto old = s.beta != 0 ? hn::LoadU(d, c + j) : zero;
      const auto column =
          s.column_bias != nullptr ? hn::LoadU(d, s.column_bias + j) : zero;
      hn::StoreU(finish(hn::Load(d, sums + j), old, column), d, c + j);
    }
    if (j == columns) continue;
    if constexpr (kSafeMasks) {
      const auto mask = hn::FirstN(d, static_cast<size_t>(columns - j));
      const auto old = s.beta != 0 ? hn::MaskedLoad(mask, d, c + j) : zero;
      const auto column =
          s.column_bias != nullptr ? hn::MaskedLoad(mask, d, s.column_bias + j) : zero;
      hn::BlendedStore(finish(hn::Load(d, sums + j), old, column), mask, d, c + j);
    } else {
      HWY_ALIGN T part[kLanes<T>] = {}, biases[kLanes<T>] = {};
      if (s.beta != 0) std::copy(c + j, c + columns, part);
      if (s.column_bias != nullptr)
        std::copy(s.column_bias + j, s.column_bias + columns, biases);
      hn::Store(finish(hn::Load(d, sums + j), hn::Load(d, part), hn::Load(d, biases)),
                d, part);
      std::copy(part, part + (columns - j), c + j);
    }
  }
}

// Writes `columns` <= kVecs * lanes columns of the tile.
template <int kRows, int kVecs, typename T, class V>
HWY_INLINE void StoreTile(const V (&acc)[kRows][kVecs], int64_t columns,
                          const TileStore<T>& s) {
  const TileTag<T> d;
  constexpr int64_t kWidth = kVecs * kLanes<T>;
  const bool whole = columns == kWidth && s.alpha == 1 && s.bias == nullptr &&
                     s.column_bias == nullptr && !s.relu;
  if (whole && (s.beta == 0 || s.beta == 1)) {
    const bool add = s.beta != 0;
#pragma GCC unroll 12
    for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 2
      for (int j = 0; j < kVecs; ++j) {
        T* c = s.c + i * s.ldc + j * kLanes<T>;
        hn::StoreU(add ? hn::Add(acc[i][j], hn::LoadU(d, c)) : acc[i][j], d, c);
      }
    }
    return;
  }
  HWY_ALIGN T sums[kRows * kWidth];
#pragma GCC unroll 12
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 2
    for (int j = 0; j < kVecs; ++j) {
      hn::Store(acc[i][j], d, sums + i * kWidth + j * kLanes<T>);
    }
  }
  FinishTile<T>(sums, kRows, kWidth, columns, s);
}

// Rows of A: packed (the rows' values for one k side by side) or with any strides.
template <int kRows, typename T>
struct PackedRows {
  const T* a;
  HWY_INLINE T At(int i) const { return a[i]; }
  HWY_INLINE void Next() { a += kRows; }
};
// Three rows share a pointer (a, a + row, a + 2 * row), to spare address registers.
template <int kRows, typename T>
struct StridedRows {
  StridedRows(const T* a, int64_t row_stride, int64_t k_stride)
      : row(row_stride), step(k_stride) {
    for (int i = 0; i < kRows; i += 3) base[i / 3] = a + i * row_stride;
  }
  const T* base[(kRows + 2) / 3];
  int64_t row, step;
  HWY_INLINE T At(int i) const { return base[i / 3][i % 3 * row]; }
  HWY_INLINE void Next() {
#pragma GCC unroll 4
    for (int i = 0; i < (kRows + 2) / 3; ++i) base[i] += step;
  }
};

// acc[i][j] = sum over k of A(i, k) * B(k, vector j); row k of B is at b + k * b_row.
// kTail: only `last` lanes of the last vector of B may be read. store: what to ask for.
template <int kRows, int kVecs, bool kTail, typename T, class Rows>
HWY_INLINE void Tile(int64_t k, Rows rows, const T* HWY_RESTRICT b, int64_t b_row,
                     int64_t last, const TileStore<T>& store,
                     hn::Vec<TileTag<T>> (&acc)[kRows][kVecs]) {
  const TileTag<T> d;
  using V = hn::Vec<TileTag<T>>;
#pragma GCC unroll 12
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 2
    for (int j = 0; j < kVecs; ++j) acc[i][j] = hn::Zero(d);
  }
  const auto mask = hn::FirstN(d, static_cast<size_t>(kTail ? last : 0));
  const T* next = store.next != nullptr ? store.next : b;
  const int64_t step = store.next != nullptr ? store.next_step : 0;
  for (; k > 0; --k, next += step) {
    __builtin_prefetch(next, 0, 2);
    V v[kVecs];
#pragma GCC unroll 2
    for (int j = 0; j < kVecs; ++j) {
      const T* from = b + j * kLanes<T>;
      if (kTail && j + 1 == kVecs) {
        v[j] = hn::MaskedLoad(mask, d, from);
      } else {
        v[j] = hn::LoadU(d, from);
      }
    }
#pragma GCC unroll 12
    for (int i = 0; i < kRows; ++i) {
      const V x = hn::Set(d, rows.At(i));
#pragma GCC unroll 2
      for (int j = 0; j < kVecs; ++j) acc[i][j] = hn::MulAdd(x, v[j], acc[i][j]);
    }
    rows.Next();
    b += b_row;
  }
}

template <int kRows, int kVecs, typename T>
HWY_NOINLINE void PackedTile(int64_t k, const T* a, const T* b, int64_t columns,
                             const TileStore<T>& store) {
  hn::Vec<TileTag<T>> acc[kRows][kVecs];
  Tile<kRows, kVecs, false, T>(k, PackedRows<kRows, T>{a}, b, kVecs * kLanes<T>, 0,
                               store, acc);
  StoreTile<kRows, kVecs, T>(acc, columns, store);
}

template <int kRows, int kVecs, typename T>
HWY_NOINLINE void DirectTile(int64_t k, const T* a, int64_t a_row, int64_t a_k,
                             const T* b, int64_t b_row, int64_t columns,
                             const TileStore<T>& store) {
  hn::Vec<TileTag<T>> acc[kRows][kVecs];
  const StridedRows<kRows, T> rows(a, a_row, a_k);
  const int64_t last = columns - (kVecs - 1) * kLanes<T>;
  if (kSafeMasks && last != kLanes<T>) {
    Tile<kRows, kVecs, true, T>(k, rows, b, b_row, last, store, acc);
  } else {
    Tile<kRows, kVecs, false, T>(k, rows, b, b_row, 0, store, acc);
  }
  StoreTile<kRows, kVecs, T>(acc, columns, store);
}

// Tables of the tiles by [rows - 1][vectors - 1].
template <typename T>
PackedTileFn<T> FindPackedTile(int rows, int vecs) {
  static constexpr auto kTable = []<size_t... I>(std::index_sequence<I...>) {
    return std::array<std::array<PackedTileFn<T>, kTileVecs>, sizeof...(I)>{
        {{PackedTile<I + 1, 1, T>, PackedTile<I + 1, 2, T>}...}};
  }
  (std::make_index_sequence<kTileRows>());
  return kTable[rows - 1][vecs - 1];
}
template <typename T>
DirectTileFn<T> FindDirectTile(int rows, int vecs) {
  static constexpr auto kTable = []<size_t... I>(std::index_sequence<I...>) {
    return std::array<std::array<DirectTileFn<T>, kTileVecs>, sizeof...(I)>{
        {{DirectTile<I + 1, 1, T>, DirectTile<I + 1, 2, T>}...}};
  }
  (std::make_index_sequence<kTileRows>());
  return kTable[rows - 1][vecs - 1];
}

template PackedTileFn<float> FindPackedTile<float>(int, int);
template PackedTileFn<double> FindPackedTile<double>(int, int);
template DirectTileFn<float> FindDirectTile<float>(int, int);
template DirectTileFn<double> FindDirectTile<double>(int, int);

}  // namespace HWY_NAMESPACE
}  // namespace plait::cpu::kernel
HWY_AFTER_NAMESPACE();
