// Indices in arrays of any dtype, made ready for use.

#ifndef PLAIT_OPS_INDEX_INDICES_H_
#define PLAIT_OPS_INDEX_INDICES_H_

#include <string>
#include <vector>

#include "cpu/scratch.h"
#include "graph/math.h"

namespace plait {

// What becomes of an index outside of [0, size): clip takes the nearest end, wrap
// counts around, raise throws kIndex. kNumpy also throws, but counts negative ones from
// the end.
enum class IndexMode { kClip, kWrap, kRaise, kNumpy };
inline const std::vector<std::string> kIndexModes = {"clip", "wrap", "raise"};

inline AttrValue Attr(IndexMode mode) {
  return {kIndexModes[static_cast<size_t>(mode)]};
}

// The indices as int64 in [0, size). Fractions are dropped; NaN is an index far
// outside. Throws kIndex, naming `op`, when there is an index and `size` is 0.
class Indices {
 public:
  Indices(const View& indices, int64_t size, IndexMode mode, const char* op);
  const int64_t* data() const { return memory_.As<int64_t>(); }
  int64_t operator[](int64_t i) const { return data()[i]; }

 private:
  cpu::Scratch memory_;
};

// Writes index i as an element of y's dtype.
void StoreIndices(const int64_t* indices, const View& y);

// The sizes before an axis, along it and behind it.
struct AxisSizes {
  int64_t outer, n, inner;
};
inline AxisSizes Around(const Shape& x, int axis) {
  return {x.size(0, axis), x[axis], x.size(axis + 1, x.rank())};
}

}  // namespace plait

#endif  // PLAIT_OPS_INDEX_INDICES_H_
