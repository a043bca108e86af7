// The generators' state: a seed and a count of calls for each device.

#include "run/random.h"

#include <map>
#include <mutex>
#include <utility>

#include "base/options.h"

namespace plait {
namespace {

struct Generators {
  std::mutex mutex;
  uint64_t seed = static_cast<uint64_t>(GetOptionInt(Option::kSeed));
  std::map<std::pair<int, int>, RandomStream> devices;
};

Generators& All() {
  static auto* all = new Generators;
  return *all;
}

std::pair<int, int> KeyOf(Device device) {
  return {device.is_cpu() ? static_cast<int>(DeviceType::kCpu)
                          : static_cast<int>(device.type),
          device.id};
}

thread_local const RandomStream* given_stream = nullptr;

}  // namespace

ScopedStream::ScopedStream(const RandomStream* stream)
    : before_(std::exchange(given_stream, stream)) {}
ScopedStream::~ScopedStream() {
  given_stream = before_;
}

RandomStream NextRandomStream(Device device) {
  if (given_stream != nullptr) return *given_stream;
  Generators& all = All();
  const std::lock_guard lock(all.mutex);
  const auto key = KeyOf(device);
  // Devices of one seed draw different numbers.
  const uint64_t own = all.seed * 127 + static_cast<uint64_t>(device.id);
  RandomStream& stream =
      all.devices.try_emplace(key, RandomStream{own, 0}).first->second;
  const RandomStream now = stream;
  ++stream.offset;
  return now;
}

RandomStream SubStream(RandomStream stream, uint64_t n) {
  // A step of SplitMix64 makes another seed of the pair.
  uint64_t z = stream.seed + (stream.offset + 1) * 0x9E3779B97F4A7C15u;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return {z ^ (z >> 31), n};
}

void SeedRandom(uint64_t seed) {
  Generators& all = All();
  const std::lock_guard lock(all.mutex);
  all.seed = seed;
  all.devices.clear();
}

void SeedRandom(uint64_t seed, Device device) {
  Generators& all = All();
  const std::lock_guard lock(all.mutex);
  all.devices[KeyOf(device)] = {seed, 0};
}

}  // namespace plait
