// SpanHeap: free ranges of mapped pages; best fit, split on use, merged when freed.

#ifndef PLAIT_MEMORY_SPAN_HEAP_H_
#define PLAIT_MEMORY_SPAN_HEAP_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <utility>

namespace plait::memory {

// Not thread-safe: the pool's mutex guards it. Invariant: no two free spans touch, and
// both indexes hold the same spans. All sizes are multiples of kPageBytes.
class SpanHeap {
 public:
  // A range of exactly `bytes` from the smallest free span that holds it, or nullptr.
  void* Take(size_t bytes) noexcept;

  // Makes a range free. Returns the bytes that went back to the system instead,
  // because there was no memory to note them: 0, or all.
  size_t Give(void* start, size_t bytes) noexcept;

  // Gives at least `bytes` back to the system if there are so many, beginning with the
  // span that was idle longest. Returns the bytes given back.
  size_t Release(size_t bytes) noexcept;

  size_t free_bytes() const { return free_bytes_; }

 private:
  struct Span {
    size_t bytes;
    uint64_t stamp;  // grows with the time of the last Give
  };
  using ByAddress = std::map<char*, Span>;
  using BySize = std::set<std::pair<size_t, char*>>;

  bool Insert(char* start, Span span) noexcept;
  void Erase(ByAddress::iterator span) noexcept;
  void Resize(ByAddress::iterator span, char* start, size_t bytes) noexcept;

  ByAddress by_address_;
  BySize by_size_;
  size_t free_bytes_ = 0;
  uint64_t clock_ = 0;
};

}  // namespace plait::memory

#endif  // PLAIT_MEMORY_SPAN_HEAP_H_
