// A few rows times the transpose of a large matrix: inner products, several at a time.

#include "cpu/gemm_few_rows.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "base/parallel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/gemm_few_rows.cc"
#include "cpu/simd/targets.h"
#include "hwy/foreach_target.h"
//
#include "cpu/gemm_tile.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace plait::cpu::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

// Rows of A and of B in a tile, by the number of registers.
constexpr int kRows = 4;
constexpr int kColumns = HWY_LANES(float) >= 16 ? 6 : 2;
// Pieces of k: those of a tile's rows of B stay in L1, those of all rows of A in L2.
constexpr int64_t kPiece = 1024;

// Adds the inner products of kM rows of A and kN rows of B over k elements to `sums`,
// which has `width` a row.
template <int kM, int kN>
void Tile(const float* HWY_RESTRICT a, int64_t lda, const float* HWY_RESTRICT b,
          int64_t ldb, int64_t k, float* sums, int64_t width) {
  const D d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  V acc[kM][kN];
#pragma GCC unroll 8
  for (int i = 0; i < kM; ++i) {
#pragma GCC unroll 8
    for (int j = 0; j < kN; ++j) acc[i][j] = hn::Zero(d);
  }
  int64_t q = 0;
  for (; q + lanes <= k; q += lanes) {
    V x[kM];
#pragma GCC unroll 8
    for (int i = 0; i < kM; ++i) x[i] = hn::LoadU(d, a + i * lda + q);
#pragma GCC unroll 8
    for (int j = 0; j < kN; ++j) {
      const V w = hn::LoadU(d, b + j * ldb + q);
#pragma GCC unroll 8
      for (int i = 0; i < kM; ++i) acc[i][j] = hn::MulAdd(x[i], w, acc[i][j]);
    }
  }
  if (kernel::HWY_NAMESPACE::kSafeMasks && q < k) {
    const auto mask = hn::FirstN(d, static_cast<size_t>(k - q));
    V x[kM];
#pragma GCC unroll 8
    for (int i = 0; i < kM; ++i) x[i] = hn::MaskedLoad(mask, d, a + i * lda + q);
#pragma GCC unroll 8
    for (int j = 0; j < kN; ++j) {
      const V w = hn::MaskedLoad(mask, d, b + j * ldb + q);
#pragma GCC unroll 8
      for (int i = 0; i < kM; ++i) acc[i][j] = hn::MulAdd(x[i], w, acc[i][j]);
    }
    q = k;
  }
  for (int i = 0; i < kM; ++i) {
    for (int j = 0; j < kN; ++j) {
      float sum = hn::GetLane(hn::SumOfLanes(d, acc[i][j]));
      for (int64_t r = q; r < k; ++r) sum += a[i * lda + r] * b[j * ldb + r];
      sums[i * width + j] += sum;
    }
  }
}

using TileFn = void (*)(const float*, int64_t, const float*, int64_t, int64_t, float*,
                        int64_t);
template <int kM>
TileFn FindTile(int64_t columns) {
  static constexpr auto kTable = []<size_t... J>(std::index_sequence<J...>) {
    return std::array<TileFn, sizeof...(J)>{Tile<kM, J + 1>...};
  }
  (std::make_index_sequence<kColumns>());
  return kTable[columns - 1];
}
TileFn FindTile(int64_t rows, int64_t columns) {
  switch (rows) {
    case 1:
      return FindTile<1>(columns);
    case 2:
      return FindTile<2>(columns);
    case 3:
      return FindTile<3>(columns);
    default:
      return FindTile<kRows>(columns);
  }
}

// Columns [first, last) of C. sums: m * (last - first) zeros.
void Columns(const GemmProblem<float>& p, int64_t first, int64_t last, float* sums) {
  const int64_t width = last - first;
  for (int64_t q = 0; q < p.k; q += kPiece) {
    const int64_t k = std::min(kPiece, p.k - q);
    for (int64_t j = first; j < last; j += kColumns) {
      const int64_t columns = std::min<int64_t>(kColumns, last - j);
      for (int64_t i = 0; i < p.m; i += kRows) {
        const int64_t rows = std::min<int64_t>(kRows, p.m - i);
        FindTile(rows, columns)(p.a + i * p.lda + q, p.lda, p.b + j * p.ldb + q, p.ldb,
                                k, sums + i * width + j - first, width);
      }
    }
  }
  for (int64_t i = 0; i < p.m; ++i) {
    for (int64_t j = first; j < last; ++j) {
      float& c = p.c[i * p.ldc + j];
      float v = p.alpha * sums[i * width + j - first];
      if (p.beta != 0) v += p.beta * c;
      if (p.bias != nullptr) v += p.bias[j];
      c = p.relu && v < 0 ? 0 : v;
    }
  }
}

}  // namespace
}  // namespace plait::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plait::cpu {
namespace {
HWY_EXPORT(Columns);
// Columns of C at a time. A multiple of the tiles', so that they do not depend on
// threads.
constexpr int64_t kWidth = 96;
}  // namespace

bool SuitsFewRows(const GemmProblem<float>& p) {
  // A matrix that the caches hold is read again faster than it comes from memory.
  constexpr int64_t kLarge = 1 << 20;
  const int64_t few = p.k >= 768 ? 32 : 16;
  return p.trans_b && !p.trans_a && p.m <= few && p.k >= 512 && p.n * p.k >= kLarge;
}

void GemmFewRows(const GemmProblem<float>& p) {
  const auto run = HWY_DYNAMIC_DISPATCH(Columns);
  const int64_t groups = (p.n + kWidth - 1) / kWidth;
  ParallelFor(groups, 1, [&](int64_t begin, int64_t end) {
    std::vector<float> sums(static_cast<size_t>(p.m * kWidth));
    for (int64_t g = begin; g < end; ++g) {
      std::fill(sums.begin(), sums.end(), 0.0f);
      run(p, g * kWidth, std::min(p.n, (g + 1) * kWidth), sums.data());
    }
  });
}

}  // namespace plait::cpu
#endif  // HWY_ONCE
