// Code for AVX-512's products of bfloat16: what its files have in common.
//
// Highway has no word for the processor's products of pairs of bfloat16 with sums in
// float, so these loops are written for AVX-512 itself.

#ifndef PLAIT_CPU_HALF_TARGET_H_
#define PLAIT_CPU_HALF_TARGET_H_

#include <cstdint>

#include "base/dtype.h"
#include "cpu/blocked.h"

#if defined(__x86_64__)
// What GCC 12 says of its own header.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wuninitialized"
#include <immintrin.h>
#pragma GCC diagnostic pop

#define PLAIT_BF16_TARGET \
  __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")))

namespace plait::cpu::half {

// Channels of a block.
inline constexpr int64_t kBlock = 16;

// Whether this processor has them, and blocks are of 16 channels.
inline bool HasProducts() {
  static const bool kThere =
      __builtin_cpu_supports("avx512bf16") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  return kThere && ChannelBlock() == kBlock;
}

PLAIT_BF16_TARGET inline __m512 Widen(const Bfloat16* p) {
  const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16));
}

}  // namespace plait::cpu::half

#endif

#endif  // PLAIT_CPU_HALF_TARGET_H_
