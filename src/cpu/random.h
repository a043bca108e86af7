// Random numbers from a counter-based generator, for samplers.
//
// Number i of a call depends on (stream, i) alone: it does not matter which thread
// makes it, how the range is cut, or which vector instructions the machine has. Calls
// with different offsets of one seed never share bits, as long as offsets count calls.
//
// All functions are thread-safe and have no state.

#ifndef PLAIT_CPU_RANDOM_H_
#define PLAIT_CPU_RANDOM_H_

#include <cstdint>

#include "base/random_stream.h"
#include "cpu/philox.h"

namespace plait::cpu {

// out[i] = number first + i of the call, for i < n. REQUIRES: 0 <= first.
// Words of 32 bits; word w is word w % 4 of block w / 4 of Philox.
void FillUniformBits(RandomStream stream, int64_t first, uint32_t* out, int64_t n);
// 1 where that number is below the limit, else 0.
void FillBelow(RandomStream stream, int64_t first, uint32_t limit, uint8_t* out,
               int64_t n);
// In [0, 1): multiples of 2^-24, or of 2^-53. Made of one word, or two.
void FillUniform(RandomStream stream, int64_t first, float* out, int64_t n);
void FillUniform(RandomStream stream, int64_t first, double* out, int64_t n);
// Mean 0, variance 1; the magnitude is at most 6.4, or 8.3.
void FillNormal(RandomStream stream, int64_t first, float* out, int64_t n);
void FillNormal(RandomStream stream, int64_t first, double* out, int64_t n);

// The numbers of one element, for samplers that need an unknown count of them. Elements
// of a stream share no bits with each other, nor with the Fill functions. After 2^18
// words the numbers of an element repeat.
class ElementRandom {
 public:
  // REQUIRES: 0 <= index < 2^47.
  ElementRandom(RandomStream stream, int64_t index);

  uint32_t NextUint32() {
    if (next_ == 4) Refill();
    return words_[next_++];
  }
  uint64_t NextUint64() {
    const uint64_t low = NextUint32();
    return low | uint64_t{NextUint32()} << 32;
  }
  double NextUniform();          // in [0, 1), a multiple of 2^-53
  double NextUniformPositive();  // in (0, 1]
  double NextNormal();           // mean 0, variance 1

 private:
  void Refill();

  Philox::Key key_;
  Philox::Counter counter_;
  Philox::Counter words_ = {};
  uint32_t next_ = 4;
};

// Samplers on an element's numbers. A parameter outside of its range, NaN included,
// gives NaN. They use libm's functions, so the last bits may differ between systems.
double NextExponential(ElementRandom& random, double rate);           // rate > 0
double NextGamma(ElementRandom& random, double shape, double scale);  // both > 0
double NextPoisson(ElementRandom& random, double mean);               // mean >= 0
// Failures before success number k > 0, each with chance 0 < p <= 1 of success.
double NextNegativeBinomial(ElementRandom& random, double k, double p);
// With a mean >= 0 and a dispersion alpha >= 0: variance mean + alpha * mean^2.
double NextGeneralizedNegativeBinomial(ElementRandom& random, double mean,
                                       double alpha);
// Unbiased, in [low, high). REQUIRES: low < high.
int64_t NextInteger(ElementRandom& random, int64_t low, int64_t high);

}  // namespace plait::cpu

#endif  // PLAIT_CPU_RANDOM_H_
