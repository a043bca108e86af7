// ScatterAdd: slices are sorted by where they go, then each place adds up its own.

#include "ops/index/scatter.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <type_traits>

#include "base/parallel.h"
#include "cpu/simd/kernels.h"
#include "ops/index/radix_sort.h"

namespace plait {
namespace {

template <typename T>
using Wide = std::conditional_t<std::is_same_v<T, float>, double, Accumulate<T>>;

constexpr int64_t kTile = 512;

// y[0, inner) = the sum of slices of x at items [first, last), two or more.
template <typename T, typename Item>
void AddSlices(const Item* items, int64_t first, int64_t last, int64_t inner,
               const T* x, T* y) {
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

// The same of floats by vector code. A sum of two is rounded alike in both types.
template <typename Item>
void AddSlices(const Item* items, int64_t first, int64_t last, int64_t inner,
               const float* x, float* y) {
  constexpr int kF32 = static_cast<int>(Compute::kF32);
  constexpr int kF64 = static_cast<int>(Compute::kF64);
  const cpu::Kernels& k = cpu::GetKernels();
  const auto slice = [&](int64_t j) { return x + items[j].position() * inner; };
  if (last - first == 2) {
    k.step[kF32][static_cast<int>(Fn::kAdd)](slice(first), slice(first + 1), nullptr, y,
                                             inner, 0);
    return;
  }
  const cpu::Loop add = k.accumulate_wide[static_cast<int>(Reduction::kSum)][kF32];
  double total[kTile];
  for (int64_t begin = 0; begin < inner; begin += kTile) {
    const int64_t width = std::min(kTile, inner - begin);
    k.cast[kF32][kF64](slice(first) + begin, nullptr, nullptr, total, width, 0);
    for (int64_t j = first + 1; j < last; ++j) {
      add(nullptr, slice(j) + begin, nullptr, total, width, 0);
    }
    k.cast[kF64][kF32](total, nullptr, nullptr, y + begin, width, 0);
  }
}

// A range of work is cut where it is; who has the first slice of a place adds them all.
// With `fill`, it also clears the places before, and those behind the last one.
template <typename T, typename Item>
void AddSorted(const Item* items, const AxisSplit& s, int64_t m, bool fill, const T* x,
               T* y) {
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
      const T* from = x + o * m * s.inner;
      T* const to = y + o * s.n * s.inner;
      const auto clear = [&](int64_t begin, int64_t stop) {
        if (fill) std::fill(to + begin * s.inner, to + stop * s.inner, T{});
      };
      const auto place = static_cast<int64_t>(items[j].key());
      clear(j > 0 ? static_cast<int64_t>(items[j - 1].key()) + 1 : 0, place);
      if (end == j + 1) {
        std::copy_n(from + items[j].position() * s.inner, s.inner,
                    to + place * s.inner);
      } else {
        AddSlices(items, j, end, s.inner, from, to + place * s.inner);
      }
      if (end == m) clear(place + 1, s.n);
      w += end - j;
    }
  });
}

// Whether places that get nothing are cleared on the way: where they are few and
// scattered, so that nobody has much more to clear than others.
template <typename Item>
bool ClearsOnTheWay(const Item* items, int64_t m, int64_t n) {
  int64_t keys = 0, before = -1, gap = 0;
  for (int64_t j = 0; j < m; ++j) {
    const auto key = static_cast<int64_t>(items[j].key());
    keys += key != before;
    gap = std::max(gap, key - before);
    before = key;
  }
  return keys >= n / 4 && std::max(gap, n - before) <= 1 + n / 16;
}

void Clear(void* y, int64_t bytes) {
  ParallelFor(bytes, 1 << 18, [&](int64_t first, int64_t last) {
    std::memset(static_cast<char*>(y) + first, 0, static_cast<size_t>(last - first));
  });
}

template <typename Item>
void Run(DType dtype, const AxisSplit& s, int64_t m, const int64_t* target,
         int64_t bytes, const void* x, void* y) {
  cpu::Scratch memory(2 * cpu::Scratch::Bytes<Item>(m));
  Item* items = memory.As<Item>();
  for (int64_t j = 0; j < m; ++j) {
    items[j] = Item::Make(static_cast<typename Item::Key>(target[j]), j);
  }
  const int bits = std::bit_width(static_cast<uint64_t>(s.n));
  items = RadixSort(items, items + m, m, bits);
  const bool fill = m >= s.n / 4 && ClearsOnTheWay(items, m, s.n);
  if (!fill) Clear(y, bytes);
  VisitDType(dtype, [&]<typename T>() {
    if constexpr (!std::is_same_v<T, bool>) {
      AddSorted(items, s, m, fill, static_cast<const T*>(x), static_cast<T*>(y));
    }
  });
}

}  // namespace

void ScatterAdd(DType dtype, const AxisSplit& s, int64_t m, const int64_t* target,
                const void* x, void* y) {
  const int64_t bytes = s.outer * s.n * s.inner * static_cast<int64_t>(SizeOf(dtype));
  if (bytes == 0) return;
  if (m == 0) {
    Clear(y, bytes);
  } else if (FitsPacked(s.n) && FitsPacked(m)) {
    Run<PackedItem>(dtype, s, m, target, bytes, x, y);
  } else {
    Run<WideItem>(dtype, s, m, target, bytes, x, y);
  }
}

}  // namespace plait
