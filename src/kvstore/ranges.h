// Ranges: which rank owns which part of a key.

#ifndef PLAIT_KVSTORE_RANGES_H_
#define PLAIT_KVSTORE_RANGES_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace plait {

// Parts are cut at multiples of so many elements, so that compressed ones are whole
// bytes.
inline constexpr int64_t kUnit = 256;

// Part r of [0, size) belongs to rank r; parts may be empty and cover everything.
struct Ranges {
  struct Part {
    int64_t first = 0, last = 0;
    int64_t size() const { return last - first; }
  };
  std::vector<Part> parts;
};

// Deals keys out so that all ranks own nearly the same number of bytes. Equal calls in
// equal order give equal answers on all ranks.
class Partition {
 public:
  explicit Partition(int ranks) : owned_(static_cast<size_t>(ranks), 0) {}

  // In equal parts, but for what is left of whole units: it goes to who owns least.
  Ranges Split(int64_t elements, int64_t element_bytes);
  // All to who owns least.
  Ranges Whole(int64_t elements, int64_t element_bytes);
  // Bytes given to each rank so far.
  const std::vector<int64_t>& owned() const { return owned_; }

 private:
  std::vector<int64_t> owned_;
};

// Everything is rank `owner`'s.
Ranges OwnedBy(int owner, int ranks, int64_t elements);

}  // namespace plait

#endif  // PLAIT_KVSTORE_RANGES_H_
