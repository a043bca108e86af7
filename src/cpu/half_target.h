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

// a[i] = lane i, 32 bits, of each of a[0] to a[15].
PLAIT_BF16_TARGET inline void Transpose(__m512i (&a)[16]) {
  __m512i b[16];
#pragma GCC unroll 8
  for (int i = 0; i < 16; i += 2) {
    b[i] = _mm512_unpacklo_epi32(a[i], a[i + 1]);
    b[i + 1] = _mm512_unpackhi_epi32(a[i], a[i + 1]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 16; i += 4) {
#pragma GCC unroll 2
    for (int j = 0; j < 2; ++j) {
      a[i + 2 * j] = _mm512_unpacklo_epi64(b[i + j], b[i + j + 2]);
      a[i + 2 * j + 1] = _mm512_unpackhi_epi64(b[i + j], b[i + j + 2]);
    }
  }
  // Lane l of a[4 q + c] is rows 4 q to 4 q + 3 of column 4 l + c.
#pragma GCC unroll 4
  for (int c = 0; c < 4; ++c) {
    const __m512i low = _mm512_shuffle_i32x4(a[c], a[4 + c], 0x44),
                  high = _mm512_shuffle_i32x4(a[c], a[4 + c], 0xee),
                  low2 = _mm512_shuffle_i32x4(a[8 + c], a[12 + c], 0x44),
                  high2 = _mm512_shuffle_i32x4(a[8 + c], a[12 + c], 0xee);
    b[c] = _mm512_shuffle_i32x4(low, low2, 0x88);
    b[4 + c] = _mm512_shuffle_i32x4(low, low2, 0xdd);
    b[8 + c] = _mm512_shuffle_i32x4(high, high2, 0x88);
    b[12 + c] = _mm512_shuffle_i32x4(high, high2, 0xdd);
  }
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) a[i] = b[i];
}

PLAIT_BF16_TARGET inline __m512 Widen(const Bfloat16* p) {
  const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16));
}

}  // namespace plait::cpu::half

#endif

#endif  // PLAIT_CPU_HALF_TARGET_H_
