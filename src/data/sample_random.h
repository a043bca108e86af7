// SampleRandom: the random numbers of one sample, whoever draws them and when.

#ifndef PLAIT_DATA_SAMPLE_RANDOM_H_
#define PLAIT_DATA_SAMPLE_RANDOM_H_

#include <cmath>
#include <cstdint>

namespace plait::data {

// Number i is a function of (seed, pass, sample, i) alone: threads and their order have
// no part in it. The function is that of splitmix64 (Steele, Lea, Flood, 2014).
class SampleRandom {
 public:
  SampleRandom(uint64_t seed, uint64_t pass, uint64_t sample)
      : counter_(Mix(Mix(Mix(seed) + pass) + sample)) {}

  uint64_t Bits() { return Mix(counter_ += kStep); }
  // In [0, 1).
  double Unit() { return static_cast<double>(Bits() >> 11) * 0x1p-53; }
  // In [low, high).
  double Uniform(double low, double high) { return low + (high - low) * Unit(); }
  // In [low, high], whole numbers.
  int64_t Whole(int64_t low, int64_t high) {
    const uint64_t range = static_cast<uint64_t>(high - low) + 1;
    return low +
           static_cast<int64_t>(static_cast<unsigned __int128>(Bits()) * range >> 64);
  }
  // Of mean zero and deviation one.
  double Normal() {
    constexpr double kTurn = 6.283185307179586;
    const double r = std::sqrt(-2 * std::log(1 - Unit()));
    return r * std::cos(kTurn * Unit());
  }

 private:
  static constexpr uint64_t kStep = 0x9E3779B97F4A7C15;
  static uint64_t Mix(uint64_t x) {
    x += kStep;
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9;
    x = (x ^ x >> 27) * 0x94D049BB133111EB;
    return x ^ x >> 31;
  }

  uint64_t counter_;
};

}  // namespace plait::data

#endif  // PLAIT_DATA_SAMPLE_RANDOM_H_
