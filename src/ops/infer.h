// Small steps of shape inference that several operators share.

#ifndef PLAIT_OPS_INFER_H_
#define PLAIT_OPS_INFER_H_

#include "base/shape.h"

namespace plait {

// Makes two sizes equal where one is unknown; false if they differ.
inline bool UnifySize(int64_t& a, int64_t& b) {
  if (a == kUnknownSize) a = b;
  if (b == kUnknownSize) b = a;
  return a == b;
}

// `shape` takes what `fact` knows; false if they contradict each other.
inline bool Assign(Shape& shape, Shape fact) {
  return Unify(shape, fact);
}

// Product of the sizes in [first, last); unknown if one of them is.
inline int64_t ProductOrUnknown(const Shape& shape, int first, int last) {
  int64_t n = 1;
  for (int i = first; i < last; ++i) {
    if (shape[i] == kUnknownSize) return kUnknownSize;
    n *= shape[i];
  }
  return n;
}

}  // namespace plait

#endif  // PLAIT_OPS_INFER_H_
