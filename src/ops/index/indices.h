// Indices as operators get them: numbers of any dtype, resolved against an axis.

#ifndef PLAIT_OPS_INDEX_INDICES_H_
#define PLAIT_OPS_INDEX_INDICES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "cpu/scratch.h"
#include "graph/op.h"

namespace plait {

// What an index means that is not in [0, size).
enum class IndexMode : uint8_t {
  kClip,     // the nearest one that is
  kRaise,    // an error (kIndex)
  kWrap,     // the one that is equal modulo size
  kFromEnd,  // in [-size, 0): counts from the end, as in NumPy; an error elsewhere
};
// Names of the first three, for parameters.
inline std::vector<std::string> IndexModeNames() {
  return {"clip", "raise", "wrap"};
}

// Where an index stands, for messages.
struct IndexPlace {
  const char* op;
  int axis = 0;
};

// out[i] = index number first + i, in [0, size); fractions are cut off, NaN is the
// lowest number. Throws kIndex as `mode` says, and for any index when size is 0.
void ResolveIndices(const View& index, int64_t first, int64_t n, int64_t size,
                    IndexMode mode, const IndexPlace& place, int64_t* out);

// The same without a range: the numbers as they are.
void ReadIndices(const View& index, int64_t first, int64_t n, int64_t* out);

// All indices of an array, resolved.
class ResolvedIndices {
 public:
  ResolvedIndices(const View& index, int64_t size, IndexMode mode,
                  const IndexPlace& place);
  const int64_t* data() const { return memory_.As<const int64_t>(); }

 private:
  cpu::Scratch memory_;
};

// OpDef::cost of an operator that reads no more than `part` of an array `whole`.
// Callers add the time of all bytes of all arrays (run/push.cc), about that of three
// operations each: those that are not read are taken off.
inline double CostOfPart(const Spec& whole, const Spec& part) {
  const auto bytes = [](const Spec& s) {
    return static_cast<double>(s.shape.size()) * static_cast<double>(SizeOf(s.dtype));
  };
  const double not_read = bytes(whole) - bytes(part);
  return 2.0 * static_cast<double>(part.shape.size()) -
         (not_read > 0 ? 3 * not_read : 0);
}

// A shape as (outer, n, inner) around one axis.
struct AxisSplit {
  int64_t outer = 1, n = 1, inner = 1;
};
inline AxisSplit SplitAt(const Shape& shape, int axis) {
  return {shape.size(0, axis), shape[axis], shape.size(axis + 1, shape.rank())};
}

}  // namespace plait

#endif  // PLAIT_OPS_INDEX_INDICES_H_
