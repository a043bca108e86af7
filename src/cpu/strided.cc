// CopyStrided: axes are sorted and merged, then rows, columns or blocks are moved.

#include "cpu/strided.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/parallel.h"
#include "base/small_vector.h"

namespace plait::cpu {
namespace {

constexpr int64_t kBlock = 32;            // edge of a transposed block, in elements
constexpr int64_t kGrainBytes = 1 << 16;  // the least work for a thread

struct Axis {
  int64_t size, dst, src;
};
using Axes = SmallVector<Axis, 8>;

// Sorted so that the destination is written in order, without axes of size 1, and with
// neighbours merged where both arrays step through them in one go.
Axes Simplify(const Shape& sizes, const Strides& dst, const Strides& src) {
  Axes axes;
  for (int i = 0; i < sizes.rank(); ++i) {
    if (sizes[i] != 1) axes.push_back({sizes[i], dst[i], src[i]});
  }
  std::stable_sort(axes.begin(), axes.end(), [](const Axis& a, const Axis& b) {
    return std::abs(a.dst) > std::abs(b.dst);
  });
  Axes merged;
  for (const Axis& a : axes) {
    if (!merged.empty()) {
      Axis& last = merged.back();
      if (last.dst == a.dst * a.size && last.src == a.src * a.size) {
        last = {last.size * a.size, a.dst, a.src};
        continue;
      }
    }
    merged.push_back(a);
  }
  return merged;
}

// Calls f(dst offset, src offset, index along the last axis) for every index of the
// axes, on several threads.
template <typename F>
void ForEachIndex(const Axes& axes, int64_t bytes_each, F&& f) {
  int64_t n = 1;
  for (const Axis& a : axes) n *= a.size;
  const int64_t grain =
      std::max<int64_t>(1, kGrainBytes / std::max<int64_t>(1, bytes_each));
  ParallelFor(n, grain, [&](int64_t first, int64_t last) {
    SmallVector<int64_t, 8> index(axes.size());
    int64_t rest = first, dst = 0, src = 0;
    for (size_t k = axes.size(); k-- > 0;) {
      index[k] = rest % axes[k].size;
      rest /= axes[k].size;
      dst += index[k] * axes[k].dst;
      src += index[k] * axes[k].src;
    }
    for (int64_t i = first; i < last; ++i) {
      f(dst, src, axes.empty() ? 0 : index.back());
      for (size_t k = axes.size(); k-- > 0;) {
        dst += axes[k].dst;
        src += axes[k].src;
        if (++index[k] < axes[k].size) break;
        index[k] = 0;
        dst -= axes[k].size * axes[k].dst;
        src -= axes[k].size * axes[k].src;
      }
    }
  });
}

template <typename T>
void CopyRow(T* dst, int64_t dst_step, const T* src, int64_t src_step, int64_t n) {
  if (dst_step == 1 && src_step == 1) {
    std::memcpy(dst, src, n * sizeof(T));
  } else if (dst_step == 1 && src_step == 0) {
    std::fill_n(dst, n, *src);
  } else {
    for (int64_t i = 0; i < n; ++i) dst[i * dst_step] = src[i * src_step];
  }
}

// The last axis by rows; a single long row is cut for the threads.
template <typename T>
void CopyRows(Axes axes, T* dst, const T* src) {
  Axis row = axes.back();
  axes.pop_back();
  constexpr int64_t kMost = kGrainBytes / sizeof(T);
  if (row.size >= 2 * kMost) {
    const int64_t pieces = (row.size + kMost - 1) / kMost;
    axes.push_back({pieces, row.dst * kMost, row.src * kMost});
    ForEachIndex(axes, kMost * sizeof(T), [&](int64_t to, int64_t from, int64_t piece) {
      CopyRow(dst + to, row.dst, src + from, row.src,
              std::min(kMost, row.size - piece * kMost));
    });
    return;
  }
  ForEachIndex(axes, row.size * sizeof(T), [&](int64_t to, int64_t from, int64_t) {
    CopyRow(dst + to, row.dst, src + from, row.src, row.size);
  });
}

// 16 bytes of elements; compilers turn the shuffles into single instructions.
template <typename T>
struct Vector {
  typedef T type __attribute__((vector_size(16)));
};
template <typename T>
constexpr int kLanes = 16 / sizeof(T);

// The elements of the lower or upper halves of a and b in turn.
template <bool kUpper, typename T, int... I>
typename Vector<T>::type Interleave(typename Vector<T>::type a,
                                    typename Vector<T>::type b,
                                    std::integer_sequence<int, I...>) {
  constexpr int n = kLanes<T>, first = kUpper ? n / 2 : 0;
  return __builtin_shufflevector(a, b, (I % 2 * n + first + I / 2)...);
}

// A square of as many rows as a vector has elements. Each round interleaves rows that
// are half of all apart; after log2(rows) rounds the square is transposed.
template <typename T>
void TransposeSquare(T* dst, int64_t dst_row, const T* src, int64_t src_row) {
  constexpr int n = kLanes<T>;
  constexpr auto lanes = std::make_integer_sequence<int, n>();
  typename Vector<T>::type rows[n], next[n];
  for (int i = 0; i < n; ++i) std::memcpy(&rows[i], src + i * src_row, 16);
  for (int round = 1; round < n; round *= 2) {
    for (int i = 0; i < n / 2; ++i) {
      next[2 * i] = Interleave<false, T>(rows[i], rows[i + n / 2], lanes);
      next[2 * i + 1] = Interleave<true, T>(rows[i], rows[i + n / 2], lanes);
    }
    for (int i = 0; i < n; ++i) rows[i] = next[i];
  }
  for (int i = 0; i < n; ++i) std::memcpy(dst + i * dst_row, &rows[i], 16);
}

// dst[j * dst_row + i] = src[i * src_row + j] for i < rows, j < columns.
template <typename T>
void TransposeBlock(T* dst, int64_t dst_row, const T* src, int64_t src_row,
                    int64_t rows, int64_t columns) {
  constexpr int64_t n = kLanes<T>;
  int64_t j = 0;
  for (; j + n <= columns; j += n) {
    int64_t i = 0;
    for (; i + n <= rows; i += n)
      TransposeSquare(dst + j * dst_row + i, dst_row, src + i * src_row + j, src_row);
    for (; i < rows; ++i)
      for (int64_t b = j; b < j + n; ++b) dst[b * dst_row + i] = src[i * src_row + b];
  }
  for (; j < columns; ++j)
    for (int64_t i = 0; i < rows; ++i) dst[j * dst_row + i] = src[i * src_row + j];
}

// The last axis is contiguous in dst, axis k in src; both are cut into blocks.
template <typename T>
void CopyTransposed(const Axes& axes, size_t k, T* dst, const T* src) {
  const Axis inner = axes[axes.size() - 1], other = axes[k];
  Axes outer;
  for (size_t i = 0; i + 1 < axes.size(); ++i)
    if (i != k) outer.push_back(axes[i]);
  const int64_t blocks = (other.size + kBlock - 1) / kBlock;
  outer.push_back({blocks, other.dst * kBlock, other.src * kBlock});
  ForEachIndex(outer, kBlock * inner.size * sizeof(T),
               [&](int64_t to, int64_t from, int64_t block) {
                 const int64_t columns = std::min(kBlock, other.size - block * kBlock);
                 for (int64_t i = 0; i < inner.size; i += kBlock) {
                   TransposeBlock(dst + to + i, other.dst, src + from + i * inner.src,
                                  inner.src, std::min(kBlock, inner.size - i), columns);
                 }
               });
}

template <typename T>
void Copy(const Axes& axes, T* dst, const T* src) {
  if (axes.empty()) {
    *dst = *src;
    return;
  }
  const Axis& inner = axes[axes.size() - 1];
  if (inner.dst == 1 && inner.src != 1 && inner.src != 0) {
    for (size_t k = 0; k + 1 < axes.size(); ++k) {
      if (axes[k].src == 1 && axes[k].dst > 0) return CopyTransposed(axes, k, dst, src);
    }
  }
  CopyRows(axes, dst, src);
}

}  // namespace

Strides RowMajor(const Shape& shape) {
  Strides strides = shape;
  int64_t step = 1;
  for (int i = shape.rank() - 1; i >= 0; --i) {
    strides[i] = step;
    step *= shape[i];
  }
  return strides;
}

void CopyStrided(const Shape& sizes, void* dst, const Strides& dst_strides,
                 const void* src, const Strides& src_strides, size_t element_size) {
  if (sizes.size() == 0) return;
  const Axes axes = Simplify(sizes, dst_strides, src_strides);
  const auto copy = [&]<typename T>(T) {
    Copy(axes, static_cast<T*>(dst), static_cast<const T*>(src));
  };
  switch (element_size) {
    case 1:
      return copy(uint8_t{});
    case 2:
      return copy(uint16_t{});
    case 4:
      return copy(uint32_t{});
    default:
      return copy(uint64_t{});
  }
}

void FillZero(void* dst, int64_t bytes) {
  ParallelFor(bytes, kGrainBytes, [&](int64_t first, int64_t last) {
    std::memset(static_cast<char*>(dst) + first, 0, last - first);
  });
}

}  // namespace plait::cpu
