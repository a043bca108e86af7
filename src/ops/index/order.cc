// Orders rows by unsigned keys that rise as the elements do.

#include "ops/index/order.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "base/parallel.h"

namespace plait {
namespace {

template <typename T>
constexpr bool kWideKey = sizeof(T) == 8;

// Bits of a float as an unsigned number of the same order; both zeros are one.
template <typename F, typename U>
U FloatKey(F value) {
  constexpr U kSign = U{1} << (sizeof(U) * 8 - 1);
  if (std::isnan(value)) return std::numeric_limits<U>::max();
  const U bits = value == 0 ? 0 : std::bit_cast<U>(value);
  return bits & kSign ? ~bits : bits | kSign;
}

template <typename T>
auto KeyOf(T value) {
  if constexpr (std::is_same_v<T, double>) {
    return FloatKey<double, uint64_t>(value);
  } else if constexpr (std::is_integral_v<T>) {
    using U = std::conditional_t<kWideKey<T>, uint64_t, uint32_t>;
    constexpr U kSign = U{1} << (sizeof(U) * 8 - 1);
    return std::is_signed_v<T>
               ? static_cast<U>(static_cast<std::make_signed_t<U>>(value)) ^ kSign
               : static_cast<U>(value);
  } else {
    return FloatKey<float, uint32_t>(static_cast<float>(value));
  }
}

struct WideItem {
  uint64_t key;
  uint64_t index;
  bool operator<(const WideItem& other) const {
    return key != other.key ? key < other.key : index < other.index;
  }
};

// Key and index in one number: comparing it breaks ties by the index.
using Item = uint64_t;

// Stable, byte by byte of the key; the items come in order of their index.
void RadixSort(std::vector<Item>& items, std::vector<Item>& spare) {
  spare.resize(items.size());
  for (int shift = 32; shift < 64; shift += 8) {
    size_t counts[256] = {};
    for (Item x : items) ++counts[x >> shift & 255];
    if (counts[items[0] >> shift & 255] == items.size()) continue;
    size_t place = 0;
    for (size_t& count : counts) place += std::exchange(count, place);
    for (Item x : items) spare[counts[x >> shift & 255]++] = x;
    items.swap(spare);
  }
}

constexpr size_t kRadixFrom = 1024;

template <typename I>
void FirstInOrder(std::vector<I>& items, std::vector<I>& spare, int64_t k) {
  const int64_t n = static_cast<int64_t>(items.size());
  if constexpr (std::is_same_v<I, Item>) {
    if (k > n / 8 && items.size() >= kRadixFrom) return RadixSort(items, spare);
  }
  if (k == n) {
    std::sort(items.begin(), items.end());
  } else if (k <= 16) {
    std::partial_sort(items.begin(), items.begin() + k, items.end());
  } else {
    std::nth_element(items.begin(), items.begin() + k, items.end());
    std::sort(items.begin(), items.begin() + k);
  }
}

template <typename T>
void OrderOne(const T* x, int64_t step, int64_t n, int64_t k, bool descending,
              std::vector<Item>& items, std::vector<Item>& spare, int64_t* order) {
  items.resize(n);
  for (int64_t i = 0; i < n; ++i) {
    const uint32_t key = KeyOf(x[i * step]);
    items[i] = Item{descending ? ~key : key} << 32 | static_cast<uint32_t>(i);
  }
  FirstInOrder(items, spare, k);
  for (int64_t i = 0; i < k; ++i)
    order[i * step] = static_cast<int64_t>(items[i] & 0xffffffff);
}

template <typename T>
void OrderOne(const T* x, int64_t step, int64_t n, int64_t k, bool descending,
              std::vector<WideItem>& items, std::vector<WideItem>& spare,
              int64_t* order) {
  items.resize(n);
  for (int64_t i = 0; i < n; ++i) {
    const uint64_t key = KeyOf(x[i * step]);
    items[i] = {descending ? ~key : key, static_cast<uint64_t>(i)};
  }
  FirstInOrder(items, spare, k);
  for (int64_t i = 0; i < k; ++i)
    order[i * step] = static_cast<int64_t>(items[i].index);
}

template <typename I, typename T>
void OrderAll(const T* x, const AxisSizes& a, int64_t k, bool descending,
              int64_t* order) {
  ParallelFor(a.outer * a.inner, 1 + (1 << 12) / a.n, [&](int64_t first, int64_t last) {
    std::vector<I> items, spare;
    for (int64_t r = first; r < last; ++r) {
      const int64_t o = r / a.inner, j = r - o * a.inner;
      OrderOne(x + o * a.n * a.inner + j, a.inner, a.n, k, descending, items, spare,
               order + o * k * a.inner + j);
    }
  });
}

}  // namespace

void OrderRows(const View& x, const AxisSizes& a, int64_t k, bool descending,
               int64_t* order) {
  if (a.outer * a.n * a.inner == 0 || k == 0) return;
  VisitDType(x.dtype, [&]<typename T>() {
    if constexpr (!kWideKey<T>) {
      if (a.n <= std::numeric_limits<uint32_t>::max()) {
        return OrderAll<Item>(x.data<T>(), a, k, descending, order);
      }
    }
    OrderAll<WideItem>(x.data<T>(), a, k, descending, order);
  });
}

void GatherOrdered(const View& x, const AxisSizes& a, const int64_t* order, int64_t k,
                   const View& y) {
  VisitSize(x.dtype, [&]<typename T>() {
    const T* from = x.data<T>();
    T* to = y.data<T>();
    ParallelFor(a.outer * k * a.inner, 1 << 14, [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) {
        const int64_t o = i / (k * a.inner), j = i % a.inner;
        to[i] = from[(o * a.n + order[i]) * a.inner + j];
      }
    });
  });
}

}  // namespace plait
