// ScatterAdd: slices are sorted by where they go, then each place adds up its own.

#include "ops/index/scatter.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <type_traits>

#include "base/parallel.h"
#include "ops/index/radix_sort.h"

namespace plait {
namespace {

template <typename T>
using Wide = std::conditional_t<std::is_same_v<T, float>, double, Accumulate<T>>;

// y[0, inner) = the sum of slices of x at items [first, last).
template <typename T, typename Item>
void AddSlices(const Item* items, int64_t first, int64_t last, int64_t inner,
               const T* x, T* y) {
  if (last - first == 1) {
    std::copy_n(x + items[first].position() * inner, inner, y);
    return;
  }
  constexpr int64_t kTile = 256;
  Wide<T> total[kTile];
  for (int64_t begin = 0; begin < inner; begin += kTile) {
    const int64_t width = std::min(kTile, inner - begin);
    std::fill_n(total, width, Wide<T>{});
    for (int64_t j = first; j < last; ++j) {
      const T* slice = x + items[j].position() * inner + begin;
      for (int64_t i = 0; i < width; ++i) total[i] += static_cast<Wide<T>>(slice[i]);
    }
    for (int64_t i = 0; i < width; ++i) y[begin + i] = static_cast<T>(total[i]);
  }
}

// A range of work is cut where it is; who has the first slice of a place adds them all.
template <typename T, typename Item>
void AddSorted(const Item* items, const AxisSplit& s, int64_t m, const T* x, T* y) {
  const int64_t grain = 1 + (1 << 13) / (1 + s.inner);
  ParallelFor(s.outer * m, grain, [&](int64_t first, int64_t last) {
    for (int64_t w = first; w < last;) {
      const int64_t o = w / m, j = w % m;
      if (j > 0 && items[j].key() == items[j - 1].key()) {
        ++w;
        continue;
      }
      int64_t end = j + 1;
      while (end < m && items[end].key() == items[j].key()) ++end;
      AddSlices(items, j, end, s.inner, x + o * m * s.inner,
                y + (o * s.n + static_cast<int64_t>(items[j].key())) * s.inner);
      w += end - j;
    }
  });
}

template <typename Item>
void Run(DType dtype, const AxisSplit& s, int64_t m, const int64_t* target,
         const void* x, void* y) {
  cpu::Scratch memory(2 * cpu::Scratch::Bytes<Item>(m));
  Item* items = memory.As<Item>();
  for (int64_t j = 0; j < m; ++j) {
    items[j] = Item::Make(static_cast<typename Item::Key>(target[j]), j);
  }
  const int bits = std::bit_width(static_cast<uint64_t>(s.n));
  items = RadixSort(items, items + m, m, bits);
  VisitDType(dtype, [&]<typename T>() {
    if constexpr (!std::is_same_v<T, bool>) {
      AddSorted(items, s, m, static_cast<const T*>(x), static_cast<T*>(y));
    }
  });
}

}  // namespace

void ScatterAdd(DType dtype, const AxisSplit& s, int64_t m, const int64_t* target,
                const void* x, void* y) {
  const int64_t bytes = s.outer * s.n * s.inner * static_cast<int64_t>(SizeOf(dtype));
  ParallelFor(bytes, 1 << 18, [&](int64_t first, int64_t last) {
    std::memset(static_cast<char*>(y) + first, 0, static_cast<size_t>(last - first));
  });
  if (m == 0 || bytes == 0) return;
  if (FitsPacked(s.n) && FitsPacked(m)) {
    Run<PackedItem>(dtype, s, m, target, x, y);
  } else {
    Run<WideItem>(dtype, s, m, target, x, y);
  }
}

}  // namespace plait
