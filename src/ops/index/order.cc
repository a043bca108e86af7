// Sorting by integer keys: every dtype has a map to unsigned numbers of the same order.

#include "ops/index/order.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <type_traits>

#include "base/parallel.h"
#include "ops/index/radix_sort.h"

namespace plait {
namespace {

// Flips the bits of negative floats, and the sign of others, so that unsigned order is
// that of the numbers. NaN is above infinity; -0 is 0.
template <typename U>
U FloatKey(U bits, bool is_nan) {
  constexpr U kSign = U{1} << (sizeof(U) * 8 - 1);
  if (is_nan) return static_cast<U>(~U{0});
  if (bits == kSign) bits = 0;
  return static_cast<U>(bits & kSign ? ~bits : bits | kSign);
}

template <typename T>
auto KeyOf(T value) {
  if constexpr (std::is_same_v<T, double>) {
    return FloatKey(std::bit_cast<uint64_t>(value), value != value);
  } else if constexpr (std::is_same_v<T, float>) {
    return FloatKey(std::bit_cast<uint32_t>(value), value != value);
  } else if constexpr (!std::is_integral_v<T>) {
    const float v = value;
    return uint32_t{FloatKey(value.bits, v != v)};
  } else {
    using U = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;
    constexpr U kSign = std::is_signed_v<T> ? U{1} << (sizeof(U) * 8 - 1) : 0;
    return static_cast<U>(static_cast<U>(value) ^ kSign);
  }
}

template <typename Item, typename T>
Item ItemOf(T value, int64_t j, bool ascending) {
  const typename Item::Key key = KeyOf(value);
  return Item::Make(ascending ? key : static_cast<typename Item::Key>(~key), j);
}

// The first k items, sorted, by a heap of the best ones so far: one pass over the
// slice.
template <typename Item, typename T>
void FirstByHeap(const T* x, int64_t n, int64_t stride, int64_t k, bool ascending,
                 Item* heap) {
  for (int64_t j = 0; j < k; ++j) heap[j] = ItemOf<Item>(x[j * stride], j, ascending);
  std::make_heap(heap, heap + k);
  for (int64_t j = k; j < n; ++j) {
    const Item item = ItemOf<Item>(x[j * stride], j, ascending);
    if (!(item < heap[0])) [[likely]]
      continue;
    std::pop_heap(heap, heap + k);
    heap[k - 1] = item;
    std::push_heap(heap, heap + k);
  }
  std::sort_heap(heap, heap + k);
}

// Whether k is small enough for a heap.
bool UsesHeap(int64_t n, int64_t k) {
  return k > 0 && k <= 512 && k * 8 <= n;
}

// The first k items, sorted; `items` has room for 2 n, or k with a heap.
template <typename Item, typename T>
const Item* First(const T* x, int64_t n, int64_t stride, int64_t k, bool ascending,
                  Item* items) {
  if (UsesHeap(n, k)) {
    FirstByHeap(x, n, stride, k, ascending, items);
    return items;
  }
  for (int64_t j = 0; j < n; ++j) {
    items[j] = ItemOf<Item>(x[j * stride], j, ascending);
  }
  if (k < n) {
    std::nth_element(items, items + k, items + n);
    std::sort(items, items + k);
    return items;
  }
  return RadixSort(items, items + n, n);
}

template <typename Item, typename T>
void Slices(const View& x, const AxisSplit& s, int64_t k, bool ascending,
            const UseOrder& use) {
  const int64_t room = UsesHeap(s.n, k) ? k : 2 * s.n;
  const int64_t grain = 1 + (1 << 12) / (1 + s.n);
  ParallelFor(s.outer * s.inner, grain, [&](int64_t first, int64_t last) {
    cpu::Scratch memory(cpu::Scratch::Bytes<Item>(room)), place(k * sizeof(int64_t));
    int64_t* order = place.As<int64_t>();
    for (int64_t w = first; w < last; ++w) {
      const int64_t o = w / s.inner, i = w % s.inner;
      const Item* items = First(x.data<const T>() + o * s.n * s.inner + i, s.n, s.inner,
                                k, ascending, memory.As<Item>());
      for (int64_t j = 0; j < k; ++j) order[j] = items[j].position();
      use(o, i, order);
    }
  });
}

}  // namespace

void ForEachOrder(const View& x, const AxisSplit& s, int64_t k, bool ascending,
                  const UseOrder& use) {
  VisitDType(x.dtype, [&]<typename T>() {
    if constexpr (sizeof(T) < 8) {
      if (FitsPacked(s.n)) return Slices<PackedItem, T>(x, s, k, ascending, use);
    }
    Slices<WideItem, T>(x, s, k, ascending, use);
  });
}

}  // namespace plait
