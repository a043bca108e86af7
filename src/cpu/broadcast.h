// Broadcaster: reads inputs that are broadcast to a larger space, stretch by stretch.
//
// The space is collapsed first: sizes of one go, and neighbouring axes are joined where
// every input strides through them alike. Positions are linear in the whole space.

#ifndef PLAIT_CPU_BROADCAST_H_
#define PLAIT_CPU_BROADCAST_H_

#include <cstdint>
#include <span>

#include "base/shape.h"
#include "cpu/pointwise.h"

namespace plait::cpu {

enum class Extent : uint8_t { kFull, kScalar, kBroadcast };

// How an input of this shape fills the space. REQUIRES: it broadcasts to it.
Extent ExtentOf(const Shape& shape, const Shape& space);

class Broadcaster {
 public:
  static constexpr int kMaxInputs = PointwiseProgram::kMaxInputs;

  // Leaves out the inputs whose extent is not kBroadcast.
  void Init(const Shape& space, std::span<const PointwiseInput> inputs,
            const Extent* extents);

  // The size of the last collapsed axis: within it each input is contiguous or
  // constant.
  int64_t inner() const { return dims_[rank_ - 1]; }

  // True if the elements [first, first + n) of the space are contiguous in the input;
  // *offset is then where they start. n > 0.
  bool Contiguous(int input, int64_t first, int64_t n, int64_t* offset) const;

  // Writes the elements [first, first + n) of the space, of `size` bytes each, to dst,
  // which has room for kVectorBytes more.
  void Expand(int input, const void* data, size_t size, int64_t first, int64_t n,
              void* dst) const;

  // A number that two stretches share when the shorter is the start of the longer, as
  // far as that is cheap to tell; -1 for none.
  int64_t Key(int input, int64_t first, int64_t n) const;

  // The distance after which the input's elements repeat, if the input is the same for
  // all of the outer axes and whole in the inner ones: (C,) in (N, C). Else 0.
  int64_t period(int input) const { return period_[input]; }

 private:
  // The input's offset of a position, and how far the last axis is behind it.
  int64_t Locate(int input, int64_t position, int64_t* index) const;

  int rank_ = 0;
  int64_t dims_[kMaxRank];
  int64_t strides_[kMaxInputs][kMaxRank];  // in elements; 0 where broadcast
  int64_t period_[kMaxInputs];
};

}  // namespace plait::cpu

#endif  // PLAIT_CPU_BROADCAST_H_
