// The generators of random numbers: one for each device, counted calls of one seed.

#ifndef PLAIT_RUN_RANDOM_H_
#define PLAIT_RUN_RANDOM_H_

#include "base/device.h"
#include "base/random_stream.h"

namespace plait {

// The stream of the next call that draws numbers. The order of calls decides, so it is
// taken when a call is made, not when it runs.
RandomStream NextRandomStream(Device device);

// While it lives, calls of this thread draw from `stream`; null: from their device's
// generator, as always.
class ScopedStream {
 public:
  explicit ScopedStream(const RandomStream* stream);
  ~ScopedStream();
  ScopedStream(const ScopedStream&) = delete;
  ScopedStream& operator=(const ScopedStream&) = delete;

 private:
  const RandomStream* before_;
};

// Stream `n` of those that a call may draw further calls' numbers from.
RandomStream SubStream(RandomStream stream, uint64_t n);

// Starts the generators of all devices, or of one, afresh.
void SeedRandom(uint64_t seed);
void SeedRandom(uint64_t seed, Device device);

}  // namespace plait

#endif  // PLAIT_RUN_RANDOM_H_
