// Filling ranges with random numbers, in vectors of blocks.

#include "cpu/random.h"

#include <algorithm>
#include <cstring>

#include "cpu/random_values.h"

#undef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/random.cc"
#include "hwy/foreach_target.h"
// Highway itself comes after its loop over targets.
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace plait::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Pairs of words, the first in the lower half; a block has two. Blocks `block` and
// following of the stream, `blocks` of them.
void FillPairs(RandomStream stream, uint64_t block, int64_t blocks, uint64_t* out) {
  int64_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  // A lane holds one block's word in its lower half; the upper half is left dirty, as
  // the multiplication does not look at it.
  const hn::ScalableTag<uint64_t> d;
  const hn::Repartition<uint32_t, decltype(d)> words;
  using V = hn::Vec<decltype(d)>;
  const auto times = [&](V x, uint32_t factor) {
    return hn::MulEven(hn::BitCast(words, x), hn::Set(words, factor));
  };
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const V low_half = hn::Set(d, 0xFFFFFFFF);
  // Iota goes through memory; in the loop that would cost as much as the rounds.
  V number = hn::Iota(d, block);
  const V step = hn::Set(d, static_cast<uint64_t>(lanes));
  for (; i + lanes <= blocks; i += lanes, number = hn::Add(number, step)) {
    V c0 = number;
    V c1 = hn::ShiftRight<32>(c0);
    V c2 = hn::Set(d, stream.offset), c3 = hn::Set(d, stream.offset >> 32);
    Philox::Key k = Philox::KeyOf(stream.seed);
    for (int round = 0; round < Philox::kRounds; ++round) {
      const V p0 = times(c0, Philox::kMultipliers[0]);
      const V p1 = times(c2, Philox::kMultipliers[1]);
      c0 = hn::Xor(hn::Xor(hn::ShiftRight<32>(p1), c1), hn::Set(d, k[0]));
      c1 = p1;
      c2 = hn::Xor(hn::Xor(hn::ShiftRight<32>(p0), c3), hn::Set(d, k[1]));
      c3 = p0;
      k[0] += Philox::kKeySteps[0];
      k[1] += Philox::kKeySteps[1];
    }
    const V first = hn::Or(hn::And(c0, low_half), hn::ShiftLeft<32>(c1));
    const V second = hn::Or(hn::And(c2, low_half), hn::ShiftLeft<32>(c3));
    hn::StoreInterleaved2(first, second, d, out + 2 * i);
  }
#endif
  for (; i < blocks; ++i) {
    const Philox::Counter w = Philox::Block(
        Philox::CounterOf(block + static_cast<uint64_t>(i), stream.offset),
        Philox::KeyOf(stream.seed));
    out[2 * i] = w[0] | uint64_t{w[1]} << 32;
    out[2 * i + 1] = w[2] | uint64_t{w[3]} << 32;
  }
}

// Calls make(bits, out, count) on pieces of the range; `bits` are `count` values of
// Bits each, made of one word or two.
template <typename Bits, typename T, typename Make>
void FillBy(RandomStream stream, int64_t first, T* out, int64_t n, const Make& make) {
  constexpr int64_t kBlock = 16 / sizeof(Bits);  // values of a block
  constexpr int64_t kChunk = 256;                // blocks at a time, in L1
  alignas(64) uint64_t pairs[2 * kChunk];
  while (n > 0) {
    const int64_t skip = first % kBlock;
    const int64_t count = std::min(n, kChunk * kBlock - skip);
    FillPairs(stream, static_cast<uint64_t>(first / kBlock),
              (skip + count + kBlock - 1) / kBlock, pairs);
    // Little-endian: the first word of a pair lies first.
    make(reinterpret_cast<const char*>(pairs) + skip * sizeof(Bits), out, count);
    first += count;
    out += count;
    n -= count;
  }
}

template <typename Bits>
inline Bits Load(const char* bits, int64_t i) {
  Bits value;
  std::memcpy(&value, bits + i * static_cast<int64_t>(sizeof value), sizeof value);
  return value;
}

void Bits32(RandomStream stream, int64_t first, uint32_t* out, int64_t n) {
  FillBy<uint32_t>(stream, first, out, n,
                   [](const char* bits, uint32_t* to, int64_t n) {
                     std::memcpy(to, bits, static_cast<size_t>(n) * sizeof *to);
                   });
}

void Below(RandomStream stream, int64_t first, uint32_t limit, uint8_t* out,
           int64_t n) {
  FillBy<uint32_t>(stream, first, out, n,
                   [limit](const char* bits, uint8_t* to, int64_t n) {
                     for (int64_t i = 0; i < n; ++i)
                       to[i] = Load<uint32_t>(bits, i) < limit ? 1 : 0;
                   });
}

template <typename Bits, typename T>
void Uniform(RandomStream stream, int64_t first, T* out, int64_t n) {
  FillBy<Bits>(stream, first, out, n, [](const char* bits, T* to, int64_t n) {
    for (int64_t i = 0; i < n; ++i) to[i] = UniformOf(Load<Bits>(bits, i));
  });
}
void UniformF32(RandomStream stream, int64_t first, float* out, int64_t n) {
  Uniform<uint32_t>(stream, first, out, n);
}
void UniformF64(RandomStream stream, int64_t first, double* out, int64_t n) {
  Uniform<uint64_t>(stream, first, out, n);
}

void NormalF32(RandomStream stream, int64_t first, float* out, int64_t n) {
  FillBy<uint32_t>(stream, first, out, n, [](const char* bits, float* to, int64_t n) {
    for (int64_t i = 0; i < n; ++i) to[i] = NormalOf(Load<uint32_t>(bits, i));
  });
}
void NormalF64(RandomStream stream, int64_t first, double* out, int64_t n) {
  FillBy<uint64_t>(stream, first, out, n, [](const char* bits, double* to, int64_t n) {
    uint64_t far = 0;
    for (int64_t i = 0; i < n; ++i) {
      const uint64_t b = Load<uint64_t>(bits, i);
      to[i] = NormalOf(b);
      far |= IsFarTail(b);
    }
    if (far == 0) [[likely]]
      return;
    for (int64_t i = 0; i < n; ++i) {
      const uint64_t b = Load<uint64_t>(bits, i);
      if (IsFarTail(b)) to[i] = FarNormalOf(b);
    }
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace plait::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plait::cpu {

HWY_EXPORT(Bits32);
HWY_EXPORT(Below);
HWY_EXPORT(UniformF32);
HWY_EXPORT(UniformF64);
HWY_EXPORT(NormalF32);
HWY_EXPORT(NormalF64);

void FillUniformBits(RandomStream stream, int64_t first, uint32_t* out, int64_t n) {
  HWY_DYNAMIC_DISPATCH(Bits32)(stream, first, out, n);
}
void FillBelow(RandomStream stream, int64_t first, uint32_t limit, uint8_t* out,
               int64_t n) {
  HWY_DYNAMIC_DISPATCH(Below)(stream, first, limit, out, n);
}
void FillUniform(RandomStream stream, int64_t first, float* out, int64_t n) {
  HWY_DYNAMIC_DISPATCH(UniformF32)(stream, first, out, n);
}
void FillUniform(RandomStream stream, int64_t first, double* out, int64_t n) {
  HWY_DYNAMIC_DISPATCH(UniformF64)(stream, first, out, n);
}
void FillNormal(RandomStream stream, int64_t first, float* out, int64_t n) {
  HWY_DYNAMIC_DISPATCH(NormalF32)(stream, first, out, n);
}
void FillNormal(RandomStream stream, int64_t first, double* out, int64_t n) {
  HWY_DYNAMIC_DISPATCH(NormalF64)(stream, first, out, n);
}

}  // namespace plait::cpu
#endif  // HWY_ONCE
