// RandomStream: which numbers a call draws from a counter-based generator.

#ifndef PLAIT_BASE_RANDOM_STREAM_H_
#define PLAIT_BASE_RANDOM_STREAM_H_

#include <cstdint>

namespace plait {

// Number i of the call depends on (seed, offset, i) alone, never on threads.
struct RandomStream {
  uint64_t seed = 0;
  uint64_t offset = 0;  // counts calls of the generator
};

}  // namespace plait

#endif  // PLAIT_BASE_RANDOM_STREAM_H_
