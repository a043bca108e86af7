// Philox4x32-10: random bits as a function of a counter and a key (Salmon, Moraes, Dror
// and Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011).

#ifndef PLAIT_CPU_PHILOX_H_
#define PLAIT_CPU_PHILOX_H_

#include <array>
#include <cstdint>

namespace plait::cpu {

struct Philox {
  using Counter = std::array<uint32_t, 4>;
  using Key = std::array<uint32_t, 2>;

  static constexpr int kRounds = 10;
  static constexpr uint32_t kMultipliers[2] = {0xD2511F53, 0xCD9E8D57};
  static constexpr uint32_t kKeySteps[2] = {0x9E3779B9, 0xBB67AE85};

  static constexpr Key KeyOf(uint64_t seed) {
    return {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)};
  }
  static constexpr Counter CounterOf(uint64_t low, uint64_t high) {
    return {static_cast<uint32_t>(low), static_cast<uint32_t>(low >> 32),
            static_cast<uint32_t>(high), static_cast<uint32_t>(high >> 32)};
  }

  static constexpr Counter Block(Counter c, Key k) {
    for (int round = 0; round < kRounds; ++round) {
      const uint64_t p0 = uint64_t{kMultipliers[0]} * c[0];
      const uint64_t p1 = uint64_t{kMultipliers[1]} * c[2];
      c = {static_cast<uint32_t>(p1 >> 32) ^ c[1] ^ k[0], static_cast<uint32_t>(p1),
           static_cast<uint32_t>(p0 >> 32) ^ c[3] ^ k[1], static_cast<uint32_t>(p0)};
      k[0] += kKeySteps[0];
      k[1] += kKeySteps[1];
    }
    return c;
  }
};

}  // namespace plait::cpu

#endif  // PLAIT_CPU_PHILOX_H_
