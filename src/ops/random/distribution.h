// Distribution: what the samplers of one distribution share.

#ifndef PLAIT_OPS_RANDOM_DISTRIBUTION_H_
#define PLAIT_OPS_RANDOM_DISTRIBUTION_H_

#include <span>

#include "cpu/random.h"
#include "graph/op.h"

namespace plait {

// One draw from the distribution with parameters a and b (b unused where it has one).
using Draw = double (*)(cpu::ElementRandom& random, double a, double b);

struct Distribution {
  const char* name;  // "normal"
  int num_params;
  const char* params[2];  // names in _random_<name>
  const char* arrays[2];  // names in _sample_<name>
  double defaults[2];
  const char* doc;
  // A reason why a and b are not acceptable ("scale >= 0 was expected"), or null.
  const char* (*rejects)(double a, double b);
  Draw draw;  // null: an affine function of `base`
  enum Base : uint8_t { kNone, kUniform, kNormal } base = kNone;
};

std::span<const Distribution> Distributions();

// Throws kValue from a kernel when a or b is not acceptable.
void CheckParams(const Distribution& d, double a, double b);

// Fills `count` elements from `first` on, all with the parameters a and b.
void FillSamples(const Distribution& d, RandomStream stream, double a, double b,
                 int64_t first, int64_t count, const View& y);

}  // namespace plait

#endif  // PLAIT_OPS_RANDOM_DISTRIBUTION_H_
