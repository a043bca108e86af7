// Gemm: the choice among the small kernel, oneDNN, the blocked kernel and plain loops.

#include "cpu/gemm.h"

#include <algorithm>
#include <type_traits>

#include "base/parallel.h"
#include "cpu/gemm_few_rows.h"
#include "cpu/gemm_kernel.h"
#include "cpu/half_gemm.h"
#include "cpu/pointwise.h"
#include "cpu/scratch.h"
#ifdef PLAIT_USE_ONEDNN
#include "cpu/onednn/matmul.h"
#endif

namespace plait::cpu {
namespace {

double Work(int64_t m, int64_t n, int64_t k) {
  return static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
}

// Whether oneDNN's generated code is faster (measured with gemm_bench). With B as it is
// stored: by 2 to 4 % for large products; by 10 to 40 % where a large B meets few rows
// of A or sums are short, so that most time goes into reading B and writing C, and
// where A is transposed and sums are so long that most time goes into copying it. Its
// overhead shows below 256 x 256 x 256. With B transposed it is never faster.
template <typename T>
bool UsesOneDnn([[maybe_unused]] const GemmProblem<T>& p) {
#ifdef PLAIT_USE_ONEDNN
  constexpr double kLarge = 1 << 24, kLean = 1 << 22;
  constexpr int64_t kFew = 64;
  if (!std::is_same_v<T, float> || p.trans_b) return false;
  const bool lean =
      p.m <= kFew || p.k <= kFew || (p.trans_a && p.k >= 8 * std::max(p.m, p.n));
  return Work(p.m, p.n, p.k) >= (lean ? kLean : kLarge);
#else
  return false;
#endif
}

bool UsesOwn(const GemmProblem<float>& p) {
  return !UsesOneDnn(p) && !SuitsFewRows(p);
}
bool UsesOwn(const GemmProblem<double>&) {
  return true;
}

void Product(const GemmProblem<float>& p) {
  if (SuitsFewRows(p)) return GemmFewRows(p);
#ifdef PLAIT_USE_ONEDNN
  if (UsesOneDnn(p)) return onednn::Sgemm(p);
#endif
  OwnGemm(p);
}
void Product(const GemmProblem<double>& p) {
  OwnGemm(p);
}

template <typename T>
void Relu(T* x, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    using A = Accumulate<T>;
    const A v = static_cast<A>(x[i]);
    x[i] = v < A(0) ? T(A(0)) : x[i];
  }
}

// Integers: unsigned arithmetic, so that overflow wraps.
template <typename T>
void PlainRows(const GemmProblem<T>& p, int64_t first, int64_t last) {
  using U = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;
  for (int64_t i = first; i < last; ++i) {
    T* c = p.c + i * p.ldc;
    for (int64_t j = 0; j < p.n; ++j) {
      c[j] = p.beta == T(0) ? T(0) : static_cast<T>(U(p.beta) * U(c[j]));
    }
    for (int64_t q = 0; q < p.k; ++q) {
      const U x = U(p.alpha) * U(p.trans_a ? p.a[q * p.lda + i] : p.a[i * p.lda + q]);
      const T* b = p.trans_b ? p.b + q : p.b + q * p.ldb;
      const int64_t step = p.trans_b ? p.ldb : 1;
      for (int64_t j = 0; j < p.n; ++j) {
        c[j] = static_cast<T>(U(c[j]) + x * U(b[j * step]));
      }
    }
  }
}
template <typename T>
requires std::is_integral_v<T>
void Product(const GemmProblem<T>& p) {
  const int64_t grain = 1 + static_cast<int64_t>(1e5 / (1 + Work(1, p.n, p.k)));
  ParallelFor(p.m, grain,
              [&](int64_t first, int64_t last) { PlainRows(p, first, last); });
}

// Halves: tiles of A and B are converted, a tile of C adds up in float.
constexpr int64_t kHalfRows = 256, kHalfColumns = 512, kHalfK = 512;

// Short rows are converted one by one, as a call of Convert costs more.
constexpr int64_t kShortRow = 32;

// to (rows, columns) = from, stored with `stride` elements a row.
template <typename T>
void Widen(const T* from, int64_t stride, int64_t rows, int64_t columns, float* to) {
  for (int64_t i = 0; i < rows; ++i, from += stride, to += columns) {
    if (columns >= kShortRow) {
      Convert(from, kDTypeOf<T>, to, DType::kFloat32, columns);
      continue;
    }
    for (int64_t j = 0; j < columns; ++j) to[j] = static_cast<float>(from[j]);
  }
}

template <typename T, typename C>
struct HalfProblem {
  bool trans_a, trans_b;
  int64_t m, n, k;
  float alpha;
  const T* a;
  int64_t lda;
  const T* b;
  int64_t ldb;
  float beta;
  C* c;
  int64_t ldc;
};

// The tile of C of m rows and n columns at (i, j).
template <typename T, typename C>
void HalfTile(const HalfProblem<T, C>& p, int64_t i, int64_t m, int64_t j, int64_t n,
              float* scratch) {
  GemmProblem<float> part;
  part.trans_a = p.trans_a;
  part.trans_b = p.trans_b;
  part.m = m;
  part.n = n;
  part.alpha = p.alpha;
  part.c = scratch;
  part.ldc = n;
  float* a = scratch + m * n;
  for (int64_t q = 0; q == 0 || q < p.k; q += kHalfK) {
    const int64_t k = std::min(kHalfK, p.k - q);
    float* b = a + m * k;
    if (p.trans_a) {
      Widen(p.a + q * p.lda + i, p.lda, k, m, a);
    } else {
      Widen(p.a + i * p.lda + q, p.lda, m, k, a);
    }
    if (p.trans_b) {
      Widen(p.b + j * p.ldb + q, p.ldb, n, k, b);
    } else {
      Widen(p.b + q * p.ldb + j, p.ldb, k, n, b);
    }
    part.k = k;
    part.a = a;
    part.lda = p.trans_a ? m : k;
    part.b = b;
    part.ldb = p.trans_b ? k : n;
    part.beta = q == 0 ? 0.0f : 1.0f;
    Product(part);
  }
  for (int64_t r = 0; r < m; ++r) {
    C* c = p.c + (i + r) * p.ldc + j;
    float* sum = scratch + r * n;
    for (int64_t s = 0; p.beta != 0 && s < n; ++s) {
      sum[s] += p.beta * static_cast<float>(c[s]);
    }
    if (n >= kShortRow) {
      Convert(sum, DType::kFloat32, c, kDTypeOf<C>, n);
      continue;
    }
    for (int64_t s = 0; s < n; ++s) c[s] = static_cast<C>(sum[s]);
  }
}

#ifdef PLAIT_USE_ONEDNN
// Measured with AVX-512's products of bfloat16: 2 to 6 times as fast as by float. The
// smallest products are not worth a primitive each.
template <typename C>
bool OneDnnProduct(const HalfProblem<Bfloat16, C>& p) {
  if (p.alpha != 1 || (p.beta != 0 && p.beta != 1) || Work(p.m, p.n, p.k) < 1 << 13) {
    return false;
  }
  return onednn::Bfloat16Gemm({p.trans_a, p.trans_b, p.m, p.n, p.k, p.a, p.lda, p.b,
                               p.ldb, p.beta == 1, kDTypeOf<C>, p.c, p.ldc});
}
#endif

// By AVX-512's products of pairs; as fast as oneDNN's, but where sums are very long.
template <typename C>
bool PairsProduct(const HalfProblem<Bfloat16, C>& p, const Bfloat16* bias = nullptr,
                  bool relu = false) {
  const HalfGemmProblem pairs{
      p.trans_a, p.trans_b, p.m,   p.n,    p.k, p.alpha, p.a,
      p.lda,     p.b,       p.ldb, p.beta, p.c, p.ldc,   std::is_same_v<C, float>,
      bias,      relu};
  if (!SuitsHalfGemm(pairs)) return false;
  HalfGemm(pairs);
  return true;
}

template <typename T, typename C>
void HalfProduct(const HalfProblem<T, C>& p) {
  if constexpr (std::is_same_v<T, Bfloat16>) {
    if (PairsProduct(p)) return;
  }
#ifdef PLAIT_USE_ONEDNN
  if constexpr (std::is_same_v<T, Bfloat16>) {
    if (OneDnnProduct(p)) return;
  }
#endif
  // Smaller tiles where else some threads would have none.
  int64_t rows = std::min(p.m, kHalfRows), columns = std::min(p.n, kHalfColumns);
  const int64_t threads = std::min<int64_t>(
      ComputeThreads(), 1 + static_cast<int64_t>(Work(p.m, p.n, p.k) / 1e6));
  const auto tiles = [](int64_t n, int64_t size) { return (n + size - 1) / size; };
  while (tiles(p.m, rows) * tiles(p.n, columns) < threads && rows + columns > 64) {
    (rows >= columns ? rows : columns) = (std::max(rows, columns) + 1) / 2;
  }
  const int64_t across = tiles(p.n, columns);
  ParallelFor(tiles(p.m, rows) * across, threads > 1 ? 1 : INT64_MAX,
              [&](int64_t first, int64_t last) {
                const int64_t k = std::min(p.k, kHalfK);
                const Scratch scratch(
                    Scratch::Bytes<float>(rows * columns + (rows + columns) * k));
                for (int64_t t = first; t < last; ++t) {
                  const int64_t i = t / across * rows, j = t % across * columns;
                  HalfTile(p, i, std::min(rows, p.m - i), j, std::min(columns, p.n - j),
                           scratch.As<float>());
                }
              });
}

}  // namespace

template <typename T>
void Gemm(bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k, double alpha,
          const T* a, int64_t lda, const T* b, int64_t ldb, double beta, T* c,
          int64_t ldc) {
  if (m <= 0 || n <= 0) return;
  if constexpr (std::is_arithmetic_v<T>) {
    Product(GemmProblem<T>{trans_a, trans_b, m, n, k, static_cast<T>(alpha), a, lda, b,
                           ldb, static_cast<T>(beta), c, ldc});
  } else {
    HalfProduct(HalfProblem<T, T>{trans_a, trans_b, m, n, k, static_cast<float>(alpha),
                                  a, lda, b, ldb, static_cast<float>(beta), c, ldc});
  }
}

template <typename T>
void GemmBias(bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k, const T* a,
              int64_t lda, const T* b, int64_t ldb, const T* bias, bool relu, T* c,
              int64_t ldc) {
  if (m <= 0 || n <= 0) return;
  if constexpr (std::is_floating_point_v<T>) {
    const GemmProblem<T> p{trans_a, trans_b, m, n, k,   1,    a,   lda,
                           b,       ldb,     0, c, ldc, bias, relu};
    if (UsesOwn(p)) return OwnGemm(p);
  }
  if constexpr (std::is_same_v<T, Bfloat16>) {
    if (PairsProduct(
            HalfProblem<T, T>{trans_a, trans_b, m, n, k, 1, a, lda, b, ldb, 0, c, ldc},
            bias, relu))
      return;
  }
  // Every row of C starts as the bias.
  if (bias != nullptr)
    ParallelFor(m, 1 + (1 << 15) / n, [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) std::copy_n(bias, n, c + i * ldc);
    });
  Gemm(trans_a, trans_b, m, n, k, 1, a, lda, b, ldb, bias != nullptr ? 1 : 0, c, ldc);
  if (!relu) return;
  ParallelFor(m, 1 + (1 << 15) / n, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) Relu(c + i * ldc, n);
  });
}

template <typename T>
void GemmToFloat(bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k,
                 double alpha, const T* a, int64_t lda, const T* b, int64_t ldb,
                 double beta, float* c, int64_t ldc) {
  if (m <= 0 || n <= 0) return;
  HalfProduct(HalfProblem<T, float>{trans_a, trans_b, m, n, k,
                                    static_cast<float>(alpha), a, lda, b, ldb,
                                    static_cast<float>(beta), c, ldc});
}

template <typename T>
void GemmBatch(int64_t batch, bool trans_a, bool trans_b, int64_t m, int64_t n,
               int64_t k, double alpha, const T* a, int64_t lda, int64_t stride_a,
               const T* b, int64_t ldb, int64_t stride_b, double beta, T* c,
               int64_t ldc, int64_t stride_c) {
  const auto run = [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      Gemm(trans_a, trans_b, m, n, k, alpha, a + i * stride_a, lda, b + i * stride_b,
           ldb, beta, c + i * stride_c, ldc);
    }
  };
  const double work = Work(m, n, k);
  if (batch < ComputeThreads() && work > 4e6) return run(0, batch);
  // A thread is worth waking for about half a million multiplications.
  ParallelFor(batch, 1 + static_cast<int64_t>(5e5 / (1 + work)), run);
}

#define PLAIT_GEMM(T)                                                                 \
  template void Gemm<T>(bool, bool, int64_t, int64_t, int64_t, double, const T*,      \
                        int64_t, const T*, int64_t, double, T*, int64_t);             \
  template void GemmBatch<T>(int64_t, bool, bool, int64_t, int64_t, int64_t, double,  \
                             const T*, int64_t, int64_t, const T*, int64_t, int64_t,  \
                             double, T*, int64_t, int64_t);                           \
  template void GemmBias<T>(bool, bool, int64_t, int64_t, int64_t, const T*, int64_t, \
                            const T*, int64_t, const T*, bool, T*, int64_t);
PLAIT_GEMM(float)
PLAIT_GEMM(double)
PLAIT_GEMM(Float16)
PLAIT_GEMM(Bfloat16)
PLAIT_GEMM(int8_t)
PLAIT_GEMM(int16_t)
PLAIT_GEMM(int32_t)
PLAIT_GEMM(int64_t)
PLAIT_GEMM(uint8_t)
PLAIT_GEMM(uint16_t)
PLAIT_GEMM(uint32_t)
PLAIT_GEMM(uint64_t)
#undef PLAIT_GEMM
template void GemmToFloat<Float16>(bool, bool, int64_t, int64_t, int64_t, double,
                                   const Float16*, int64_t, const Float16*, int64_t,
                                   double, float*, int64_t);
template void GemmToFloat<Bfloat16>(bool, bool, int64_t, int64_t, int64_t, double,
                                    const Bfloat16*, int64_t, const Bfloat16*, int64_t,
                                    double, float*, int64_t);

}  // namespace plait::cpu
