// Kernels: the table of inner loops that this processor runs, chosen once.
//
// Every loop handles n elements of one type. Results do not depend on n, on the
// position of an element, or on alignment: tails run the same vector code on padded
// vectors.

#ifndef PLAIT_CPU_SIMD_KERNELS_H_
#define PLAIT_CPU_SIMD_KERNELS_H_

#include <cstdint>
#include <vector>

#include "graph/pointwise.h"

namespace plait::cpu {

inline constexpr int kNumFns = static_cast<int>(Fn::kCount);
inline constexpr int kNumComputes = static_cast<int>(Compute::kCount);
inline constexpr int kNumReductions = static_cast<int>(Reduction::kCount);

// Bytes that every target's longest vector fits in.
inline constexpr int kVectorBytes = 64;

// out[i] = f(x[i], y[i], z[i]) for i < n. Bit k of `splat` says that argument k is only
// kVectorBytes of equal elements. Arguments that a function does not have are ignored.
// `out` may be the same as an argument of the same element size.
using Loop = void (*)(const void* x, const void* y, const void* z, void* out, int64_t n,
                      unsigned splat);

// acc[r] = acc[r] (op) x[r * length] (op) ... for r < rows. Accumulators are doubles
// for floats, else the compute type.
using RowsLoop = void (*)(const void* x, int64_t rows, int64_t length, void* acc);

// Where the first of the best elements of a row of n > 0 is; NaN beats every number.
using ArgLoop = int64_t (*)(const void* x, int64_t n);

// Functions that are often one after the other: see Kernels::pair.
enum class PairFirst : uint8_t { kAdd, kSub, kMul, kCount };
enum class PairSecond : uint8_t {
  kAdd,      // t + z
  kMul,      // t * z
  kSub,      // t - z
  kSubFrom,  // z - t
  kCount
};
inline constexpr int kNumPairFirst = static_cast<int>(PairFirst::kCount);
inline constexpr int kNumPairSecond = static_cast<int>(PairSecond::kCount);

// What cpu/row.h calls.
template <typename T>
struct RowLoops {
  T (*max)(const T* x, int64_t n);
  T (*min)(const T* x, int64_t n);
  T (*sum)(const T* x, int64_t n);
  T (*dot)(const T* x, const T* y, int64_t n);
  T (*exp_minus)(const T* x, T minus, T* y, int64_t n);
  T (*sum_exp_minus)(const T* x, T minus, int64_t n);
  void (*affine)(const T* x, T scale, T shift, T* y, int64_t n);
};

struct Kernels {
  Loop step[kNumComputes][kNumFns];
  // (x first y) second z in one loop, of float32 and float64, rounded twice as two
  // loops would; null where there is none.
  Loop pair[2][kNumPairFirst][kNumPairSecond];
  Loop cast[kNumComputes][kNumComputes];  // [from][to]
  Loop cast_to_half;                      // float64 to float32, to be rounded once more
  Loop not_zero[kNumComputes];            // to int32 0 or 1
  Loop load[kNumDTypes];                  // from memory to the compute type; never null
  Loop store[kNumDTypes];   // from the compute type to memory, rounding or wrapping
  Loop narrow[kNumDTypes];  // rounds or wraps in the compute type; null where exact
  // Reductions of rows; and accumulation of a row into a row, acc[i] = acc[i] (op)
  // x[i], into the compute type (x and z are ignored) and into the accumulator's type.
  RowsLoop rows[kNumReductions][kNumComputes];
  Loop accumulate_wide[kNumReductions][kNumComputes];
  RowLoops<float> row_float;
  RowLoops<double> row_double;
  ArgLoop arg_max[kNumDTypes], arg_min[kNumDTypes];  // of the dtype in memory
};

// Thread-safe; built at the first call.
const Kernels& GetKernels();

// Writes kVectorBytes of equal elements.
template <typename T>
inline void FillSplat(void* slot, T value) {
  T* p = static_cast<T*>(slot);
  for (int i = 0; i < kVectorBytes / static_cast<int>(sizeof(T)); ++i) p[i] = value;
}

namespace internal {

// Each fills its part of the table for the chosen target; what is not filled stays
// with the plain loops.
void FillPlain(Kernels& k);
void FillArithmetic(Kernels& k);
void FillPairs(Kernels& k);
void FillIntegers(Kernels& k);
void FillConversions(Kernels& k);
void FillReductions(Kernels& k);
void FillExponentials(Kernels& k);
void FillLogarithms(Kernels& k);
void FillTrigonometry(Kernels& k);
void FillSpecial(Kernels& k);
void FillPlainRows(Kernels& k);
void FillRows(Kernels& k);
void FillArgs(Kernels& k);

// For tests: makes GetKernels() return the table of one of Highway's targets, or the
// plain loops for 0, or again this processor's for -1. Not thread-safe.
void UseTargetForTest(int64_t target);
std::vector<int64_t> TargetsForTest();  // what this machine has, and 0

}  // namespace internal
}  // namespace plait::cpu

#endif  // PLAIT_CPU_SIMD_KERNELS_H_
