// The shape that a parameter asks for.

#ifndef PLAIT_OPS_CREATE_GIVEN_SHAPE_H_
#define PLAIT_OPS_CREATE_GIVEN_SHAPE_H_

#include <limits>

#include "graph/op.h"

namespace plait {

// Throws for negative sizes, and for more elements than 64 bits count.
inline void CheckSizes(const Shape& shape, const char* op) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max() / 16;
  bool empty = false;
  for (int64_t size : shape) {
    Check(size >= 0, op, ": shape ", shape,
          " has a negative or unknown size; sizes of at least 0 were expected");
    empty |= size == 0;
  }
  int64_t n = 1;
  for (int64_t size : shape) {
    if (empty) return;
    Check(size <= kMost / n, ErrorKind::kMemory, op, ": shape ", shape,
          " has more elements than fit into memory");
    n *= size;
  }
}

// Makes the output have the given shape; without one it keeps what is known of it. In a
// graph, sizes of -1 may follow from the operators that read the output.
inline bool InferGiven(const Shape& shape, Spec& out, const char* op) {
  if (!shape.rank_known()) return true;
  Shape given = shape;
  for (int64_t& size : given) {
    if (size == kUnknownSize) size = 0;
  }
  CheckSizes(given, op);
  given = shape;
  return Unify(given, out.shape);
}

}  // namespace plait

#endif  // PLAIT_OPS_CREATE_GIVEN_SHAPE_H_
