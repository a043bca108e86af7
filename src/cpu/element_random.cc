// Samplers that draw a varying count of numbers for an element.

#include <cmath>
#include <cstdint>
#include <limits>

#include "cpu/random.h"
#include "cpu/random_values.h"

namespace plait::cpu {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// log(k!) for k >= 0. Not lgamma: it writes to a global variable.
double LogFactorial(double k) {
  static constexpr double kFirst[] = {0,
                                      0,
                                      0.69314718055994531,
                                      1.7917594692280550,
                                      3.1780538303479458,
                                      4.7874917427820460,
                                      6.5792512120101010,
                                      8.5251613610654143,
                                      10.604602902745251,
                                      12.801827480081469};
  if (k < 10) return kFirst[static_cast<int>(k)];
  // Stirling's series.
  const double x = k + 1, i = 1 / (x * x);
  return (x - 0.5) * std::log(x) - x + 0.91893853320467274 +
         (1. / 12 - i * (1. / 360 - i * (1. / 1260 - i / 1680))) / x;
}

// Few events: count exponential gaps, by multiplying uniform numbers.
double PoissonByGaps(ElementRandom& random, double mean) {
  const double end = std::exp(-mean);
  double product = random.NextUniformPositive(), count = 0;
  for (; product > end; ++count) product *= random.NextUniformPositive();
  return count;
}

// Many events: transformed rejection, PTRS (Hormann, Insurance: Mathematics and
// Economics 12, 1993).
double PoissonByRejection(ElementRandom& random, double mean) {
  const double root = std::sqrt(mean), log_mean = std::log(mean);
  const double b = 0.931 + 2.53 * root, a = -0.059 + 0.02483 * b;
  const double inverse_alpha = 1.1239 + 1.1328 / (b - 3.4);
  const double squeeze = 0.9277 - 3.6224 / (b - 2);
  for (;;) {
    const double u = random.NextUniform() - 0.5, v = random.NextUniformPositive();
    const double us = 0.5 - std::abs(u);
    const double k = std::floor((2 * a / us + b) * u + mean + 0.43);
    if (us >= 0.07 && v <= squeeze) return k;
    if (k < 0 || (us < 0.013 && v > us)) continue;
    if (std::log(v * inverse_alpha / (a / (us * us) + b)) <=
        k * log_mean - mean - LogFactorial(k)) {
      return k;
    }
  }
}

}  // namespace

// The counter of an element: 32 bits of the index, then 16 bits that count blocks, 15
// more bits of the index and a 1, which no counter of the Fill functions has there.
ElementRandom::ElementRandom(RandomStream stream, int64_t index)
    : key_(Philox::KeyOf(stream.seed)), counter_(Philox::CounterOf(0, stream.offset)) {
  const uint64_t i = static_cast<uint64_t>(index);
  counter_[0] = static_cast<uint32_t>(i);
  counter_[1] = 0x80000000 | static_cast<uint32_t>(i >> 32) << 16;
}

void ElementRandom::Refill() {
  words_ = Philox::Block(counter_, key_);
  counter_[1] = (counter_[1] & 0xFFFF0000) | ((counter_[1] + 1) & 0xFFFF);
  next_ = 0;
}

double ElementRandom::NextUniform() {
  return UniformOf(NextUint64());
}

double ElementRandom::NextUniformPositive() {
  return 1 - NextUniform();
}

double ElementRandom::NextNormal() {
  const uint64_t bits = NextUint64();
  return IsFarTail(bits) ? FarNormalOf(bits) : NormalOf(bits);
}

double NextExponential(ElementRandom& random, double rate) {
  if (!(rate > 0)) return kNaN;
  return -std::log(random.NextUniformPositive()) / rate;
}

// Marsaglia and Tsang, ACM Transactions on Mathematical Software 26, 2000.
double NextGamma(ElementRandom& random, double shape, double scale) {
  if (!(shape > 0 && scale > 0) || std::isinf(shape)) return kNaN;
  // Below 1: a larger shape's number times u^(1 / shape).
  double boost = scale;
  if (shape < 1) {
    boost *= std::pow(random.NextUniformPositive(), 1 / shape);
    shape += 1;
  }
  const double d = shape - 1. / 3, c = 1 / std::sqrt(9 * d);
  for (;;) {
    const double x = random.NextNormal(), root = 1 + c * x;
    if (root <= 0) continue;
    const double v = root * root * root, u = random.NextUniformPositive();
    const double x2 = x * x;
    if (u < 1 - 0.0331 * x2 * x2 ||
        std::log(u) < 0.5 * x2 + d * (1 - v + std::log(v))) {
      return d * v * boost;
    }
  }
}

double NextPoisson(ElementRandom& random, double mean) {
  if (!(mean >= 0) || std::isinf(mean)) return kNaN;
  return mean < 10 ? PoissonByGaps(random, mean) : PoissonByRejection(random, mean);
}

double NextNegativeBinomial(ElementRandom& random, double k, double p) {
  if (!(k > 0 && p > 0 && p <= 1)) return kNaN;
  if (p == 1) return 0;
  return NextPoisson(random, NextGamma(random, k, (1 - p) / p));
}

double NextGeneralizedNegativeBinomial(ElementRandom& random, double mean,
                                       double alpha) {
  if (!(mean >= 0 && alpha >= 0) || std::isinf(alpha)) return kNaN;
  if (mean == 0 || alpha == 0) return NextPoisson(random, mean);
  return NextPoisson(random, NextGamma(random, 1 / alpha, alpha * mean));
}

// Lemire, ACM Transactions on Modeling and Computer Simulation 29, 2019: the upper half
// of a product is uniform, once the few lower halves that would favour some are
// refused.
int64_t NextInteger(ElementRandom& random, int64_t low, int64_t high) {
  const uint64_t width = static_cast<uint64_t>(high) - static_cast<uint64_t>(low);
  if (width >> 32 == 0) {
    const uint32_t n = static_cast<uint32_t>(width);
    uint64_t product = uint64_t{random.NextUint32()} * n;
    if (static_cast<uint32_t>(product) < n) {
      const uint32_t refuse = -n % n;
      while (static_cast<uint32_t>(product) < refuse) {
        product = uint64_t{random.NextUint32()} * n;
      }
    }
    return static_cast<int64_t>(static_cast<uint64_t>(low) + (product >> 32));
  }
  __extension__ using Wide = unsigned __int128;
  Wide product = Wide{random.NextUint64()} * width;
  if (static_cast<uint64_t>(product) < width) {
    const uint64_t refuse = -width % width;
    while (static_cast<uint64_t>(product) < refuse) {
      product = Wide{random.NextUint64()} * width;
    }
  }
  return static_cast<int64_t>(static_cast<uint64_t>(low) +
                              static_cast<uint64_t>(product >> 64));
}

}  // namespace plait::cpu
