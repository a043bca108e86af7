// Stable sorting of keys with their positions, by digits of the keys.

#ifndef PLAIT_OPS_INDEX_RADIX_SORT_H_
#define PLAIT_OPS_INDEX_RADIX_SORT_H_

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace plait {

// A key of 32 bits and a position of 32 bits in one word: their order is that of the
// word, so that of equal keys the lower position comes first.
struct PackedItem {
  using Key = uint32_t;
  static constexpr int kKeyBits = 32;

  uint64_t bits;

  static PackedItem Make(Key key, int64_t position) {
    return {uint64_t{key} << 32 | static_cast<uint64_t>(position)};
  }
  Key key() const { return static_cast<Key>(bits >> 32); }
  int64_t position() const { return static_cast<int64_t>(bits & 0xffffffffu); }
  bool operator<(const PackedItem& other) const { return bits < other.bits; }
};

// The same for keys of 64 bits, and for positions that need more than 32.
struct WideItem {
  using Key = uint64_t;
  static constexpr int kKeyBits = 64;

  uint64_t bits;
  int64_t at;

  static WideItem Make(Key key, int64_t position) { return {key, position}; }
  Key key() const { return bits; }
  int64_t position() const { return at; }
  bool operator<(const WideItem& other) const {
    return bits != other.bits ? bits < other.bits : at < other.at;
  }
};

// Whether positions below n fit into a PackedItem.
constexpr bool FitsPacked(int64_t n) {
  return n <= int64_t{1} << 32;
}

// Sorts n items by their lowest `key_bits` bits, which are all that are set. `spare`
// has room for n. Returns where the result is: items or spare. REQUIRES: positions
// ascend.
template <typename Item>
Item* RadixSort(Item* items, Item* spare, int64_t n, int key_bits = Item::kKeyBits) {
  constexpr int kDigit = 11, kBuckets = 1 << kDigit;
  constexpr int kDigits = (Item::kKeyBits + kDigit - 1) / kDigit;
  if (n < 1024) {
    std::sort(items, items + n);
    return items;
  }
  int64_t counts[kDigits][kBuckets] = {};
  const int digits = (key_bits + kDigit - 1) / kDigit;
  for (int64_t i = 0; i < n; ++i) {
    auto key = items[i].key();
    for (int d = 0; d < digits; ++d) {
      ++counts[d][key & (kBuckets - 1)];
      key >>= kDigit;
    }
  }
  for (int d = 0; d < digits; ++d) {
    int64_t* count = counts[d];
    const int shift = d * kDigit;
    if (count[items[0].key() >> shift & (kBuckets - 1)] == n) continue;  // all alike
    int64_t total = 0;
    for (int b = 0; b < kBuckets; ++b) {
      const int64_t here = count[b];
      count[b] = total;
      total += here;
    }
    for (int64_t i = 0; i < n; ++i) {
      spare[count[items[i].key() >> shift & (kBuckets - 1)]++] = items[i];
    }
    std::swap(items, spare);
  }
  return items;
}

}  // namespace plait

#endif  // PLAIT_OPS_INDEX_RADIX_SORT_H_
