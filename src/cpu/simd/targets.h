// The instruction sets that the vector loops are built for; include before Highway.
//
// Each costs build time, so there are three on x86 (plain loops, AVX2, AVX-512) and one
// on ARM. All vector targets have fused multiply-add, which the words rely on.

#ifndef PLAIT_CPU_SIMD_TARGETS_H_
#define PLAIT_CPU_SIMD_TARGETS_H_

#define HWY_DISABLED_TARGETS                                               \
  (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | \
   HWY_SVE2_128 | HWY_RVV | HWY_PPC8 | HWY_WASM | HWY_WASM_EMU256)

// True in the passes that have vectors; in the others the plain loops stay.
#define PLAIT_HAVE_VECTORS                             \
  (HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3 || \
   (HWY_TARGET == HWY_NEON && HWY_ARCH_ARM_A64))

#endif  // PLAIT_CPU_SIMD_TARGETS_H_
