// Collapsing of axes, and copies of broadcast stretches.

#include "cpu/broadcast.h"

#include <algorithm>
#include <cstring>

#include "cpu/simd/kernels.h"

namespace plait::cpu {
namespace {

// Writes n copies of the element; may write up to kVectorBytes more.
template <typename T>
void FillRun(T* dst, T value, int64_t n) {
  constexpr int kStep = kVectorBytes / sizeof(T);
  for (int64_t i = 0; i < n; i += kStep) {
    for (int j = 0; j < kStep; ++j) dst[i + j] = value;
  }
}

template <typename T>
void CopyRun(T* dst, const T* src, int64_t n) {
  if (n >= kVectorBytes / static_cast<int64_t>(sizeof(T))) {
    std::memcpy(dst, src, n * sizeof(T));
  } else {
    for (int64_t i = 0; i < n; ++i) dst[i] = src[i];
  }
}

}  // namespace

Extent ExtentOf(const Shape& shape, const Shape& space) {
  const int rank = shape.rank(), gap = space.rank() - rank;
  const int64_t* sizes = shape.data();
  const int64_t* full = space.data();
  bool whole = true, scalar = true;
  for (int i = 0; i < gap; ++i) whole &= full[i] == 1;
  for (int i = 0; i < rank; ++i) {
    whole &= sizes[i] == full[gap + i];
    scalar &= sizes[i] == 1;
  }
  return whole ? Extent::kFull : scalar ? Extent::kScalar : Extent::kBroadcast;
}

void Broadcaster::Init(const Shape& space, std::span<const PointwiseInput> inputs,
                       const Extent* extents) {
  int used[kMaxInputs], count = 0;
  for (int i = 0; i < static_cast<int>(inputs.size()); ++i) {
    if (extents[i] == Extent::kBroadcast) used[count++] = i;
  }
  // Bit k of the pattern: input used[k] has this axis. From the last axis outwards.
  rank_ = 0;
  uint32_t last = 0;
  int64_t sizes[kMaxInputs];  // elements of the input inside the axes seen so far
  std::fill_n(sizes, count, int64_t{1});
  for (int axis = space.rank() - 1; axis >= 0; --axis) {
    const int64_t size = space[axis];
    if (size == 1) continue;
    uint32_t pattern = 0;
    for (int k = 0; k < count; ++k) {
      const Shape& shape = *inputs[used[k]].shape;
      const int at = axis - (space.rank() - shape.rank());
      if (at >= 0 && shape[at] != 1) pattern |= 1u << k;
    }
    if (rank_ > 0 && pattern == last) {
      dims_[rank_ - 1] *= size;
    } else {
      dims_[rank_] = size;
      for (int k = 0; k < count; ++k) {
        strides_[used[k]][rank_] = pattern >> k & 1 ? sizes[k] : 0;
      }
      ++rank_;
      last = pattern;
    }
    for (int k = 0; k < count; ++k) {
      if (pattern >> k & 1) sizes[k] *= size;
    }
  }
  std::reverse(dims_, dims_ + rank_);
  for (int k = 0; k < count; ++k) {
    int64_t* strides = strides_[used[k]];
    std::reverse(strides, strides + rank_);
    int outer = 0;
    while (outer < rank_ && strides[outer] == 0) ++outer;
    bool whole = true;
    int64_t period = 1;
    for (int i = outer; i < rank_; ++i) {
      whole &= strides[i] != 0;
      period *= dims_[i];
    }
    period_[used[k]] = whole ? period : 0;
  }
}

int64_t Broadcaster::Locate(int input, int64_t position, int64_t* index) const {
  int64_t offset = 0;
  for (int i = rank_ - 1; i >= 0; --i) {
    const int64_t outer = position / dims_[i];
    index[i] = position - outer * dims_[i];
    offset += index[i] * strides_[input][i];
    position = outer;
  }
  return offset;
}

bool Broadcaster::Contiguous(int input, int64_t first, int64_t n,
                             int64_t* offset) const {
  const int64_t run = period_[input] > 0                ? period_[input]
                      : strides_[input][rank_ - 1] == 0 ? 0
                                                        : dims_[rank_ - 1];
  if (run == 0 || first % run + n > run) return false;
  if (period_[input] > 0) {
    *offset = first % run;
    return true;
  }
  int64_t index[kMaxRank];
  *offset = Locate(input, first, index);
  return true;
}

int64_t Broadcaster::Key(int input, int64_t first, int64_t n) const {
  if (period_[input] > 0) return first % period_[input];
  const int64_t inner = dims_[rank_ - 1];
  if (strides_[input][rank_ - 1] != 0 || first % inner + n > inner) return -1;
  int64_t index[kMaxRank];
  return Locate(input, first, index);  // one element, repeated
}

namespace {

template <typename T>
void ExpandRuns(const T* src, int64_t offset, int64_t* index, const int64_t* dims,
                const int64_t* strides, int rank, int64_t n, T* dst) {
  const int inner = rank - 1;
  for (;;) {
    const int64_t run = std::min(n, dims[inner] - index[inner]);
    if (strides[inner] != 0) {
      CopyRun(dst, src + offset, run);
    } else {
      FillRun(dst, src[offset], run);
    }
    dst += run;
    n -= run;
    if (n == 0) return;
    offset -= index[inner] * strides[inner];
    index[inner] = 0;
    for (int i = inner - 1; i >= 0; --i) {
      offset += strides[i];
      if (++index[i] < dims[i]) break;
      offset -= dims[i] * strides[i];
      index[i] = 0;
    }
  }
}

}  // namespace

void Broadcaster::Expand(int input, const void* data, size_t size, int64_t first,
                         int64_t n, void* dst) const {
  int64_t index[kMaxRank];
  if (const int64_t period = period_[input]; period > 0 && period < n) {
    // One period, then copies of what is there already, each twice as long.
    char* to = static_cast<char*>(dst);
    const int64_t start = first % period;
    const char* from = static_cast<const char*>(data);
    std::memcpy(to, from + start * size, (period - start) * size);
    std::memcpy(to + (period - start) * size, from, start * size);
    for (int64_t done = period; done < n; done *= 2) {
      std::memcpy(to + done * size, to, std::min(done, n - done) * size);
    }
    return;
  }
  const int64_t offset = Locate(input, first, index);
  const auto run = [&]<typename T>(T) {
    ExpandRuns(static_cast<const T*>(data), offset, index, dims_, strides_[input],
               rank_, n, static_cast<T*>(dst));
  };
  switch (size) {
    case 1:
      return run(uint8_t{});
    case 2:
      return run(uint16_t{});
    case 4:
      return run(uint32_t{});
    default:
      return run(uint64_t{});
  }
}

}  // namespace plait::cpu
