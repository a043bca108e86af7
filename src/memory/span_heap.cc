// Free spans in two ordered indexes: by address for merging, by size for best fit.

#include "memory/span_heap.h"

#include <algorithm>
#include <new>

#include "memory/size_class.h"
#include "memory/system.h"

namespace plait::memory {

bool SpanHeap::Insert(char* start, Span span) noexcept {
  try {
    const auto at = by_address_.emplace(start, span).first;
    try {
      by_size_.emplace(span.bytes, start);
    } catch (const std::bad_alloc&) {
      by_address_.erase(at);
      return false;
    }
  } catch (const std::bad_alloc&) {
    return false;
  }
  free_bytes_ += span.bytes;
  return true;
}

void SpanHeap::Erase(ByAddress::iterator span) noexcept {
  free_bytes_ -= span->second.bytes;
  by_size_.erase({span->second.bytes, span->first});
  by_address_.erase(span);
}

// Moves the records of a span, without allocating, to the range it has now. The order
// by address stays, as spans never overlap.
void SpanHeap::Resize(ByAddress::iterator span, char* start, size_t bytes) noexcept {
  auto by_size = by_size_.extract({span->second.bytes, span->first});
  by_size.value() = {bytes, start};
  by_size_.insert(std::move(by_size));
  free_bytes_ += bytes - span->second.bytes;
  span->second.bytes = bytes;
  if (span->first == start) return;
  const auto next = std::next(span);
  auto by_address = by_address_.extract(span);
  by_address.key() = start;
  by_address_.insert(next, std::move(by_address));
}

void* SpanHeap::Take(size_t bytes) noexcept {
  const auto fit = by_size_.lower_bound({bytes, nullptr});
  if (fit == by_size_.end()) return nullptr;
  char* start = fit->second;
  const auto span = by_address_.find(start);
  if (fit->first == bytes) {
    Erase(span);
  } else {
    Resize(span, start + bytes, fit->first - bytes);
  }
  return start;
}

size_t SpanHeap::Give(void* range, size_t bytes) noexcept {
  char* start = static_cast<char*>(range);
  const uint64_t stamp = ++clock_;
  const auto after = by_address_.lower_bound(start);
  const bool joins_after = after != by_address_.end() && after->first == start + bytes;
  if (after != by_address_.begin()) {
    const auto before = std::prev(after);
    if (before->first + before->second.bytes == start) {
      size_t total = before->second.bytes + bytes;
      if (joins_after) {
        total += after->second.bytes;
        Erase(after);
      }
      Resize(before, before->first, total);
      before->second.stamp = stamp;
      return 0;
    }
  }
  if (joins_after) {
    after->second.stamp = stamp;
    Resize(after, start, after->second.bytes + bytes);
    return 0;
  }
  if (Insert(start, {bytes, stamp})) return 0;
  return UnmapPages(start, bytes) ? bytes : 0;
}

size_t SpanHeap::Release(size_t bytes) noexcept {
  size_t released = 0;
  while (released < bytes && !by_address_.empty()) {
    const auto oldest = std::min_element(
        by_address_.begin(), by_address_.end(),
        [](const auto& a, const auto& b) { return a.second.stamp < b.second.stamp; });
    char* start = oldest->first;
    const size_t size = oldest->second.bytes;
    // Of a long span only the end goes, but no part of a huge page.
    size_t part = std::min(size, RoundUp(bytes - released, kPageBytes));
    const size_t keep =
        reinterpret_cast<uintptr_t>(start + size - part) % kHugePageBytes;
    part = keep < size - part ? part + keep : size;
    if (!UnmapPages(start + size - part, part)) break;
    if (part == size) {
      Erase(oldest);
    } else {
      Resize(oldest, start, size - part);
    }
    released += part;
  }
  return released;
}

}  // namespace plait::memory
