// Steps of inference that several operators share.

#ifndef PLAIT_OPS_INFER_H_
#define PLAIT_OPS_INFER_H_

#include "graph/op.h"

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

// All inputs and outputs have one shape.
template <typename P>
bool SameShape(const P&, Specs& in, Specs& out) {
  if (in.empty() || out.empty()) return true;
  // Twice: what the last one knows reaches the first.
  for (int round = 0; round < 2; ++round) {
    for (Spec& s : in)
      if (!Unify(s.shape, out[0].shape)) return false;
    for (Spec& s : out)
      if (!Unify(s.shape, out[0].shape)) return false;
  }
  return true;
}

// Takes over a dtype where one of the two is unknown.
inline void UnifyDType(DType& a, DType& b) {
  if (a == DType::kUnknown) a = b;
  if (b == DType::kUnknown) b = a;
}

// The result has the promoted dtype of all inputs (NumPy's rules); what is unknown
// takes the dtype of what is known.
template <typename P>
void PromotedTypes(const P&, Specs& in, Specs& out) {
  DType all = DType::kUnknown;
  for (const Spec& s : in) {
    if (s.dtype == DType::kUnknown) continue;
    all = all == DType::kUnknown ? s.dtype : Promote(all, s.dtype);
  }
  if (all == DType::kUnknown) all = out[0].dtype;
  for (Spec& s : in)
    if (s.dtype == DType::kUnknown) s.dtype = all;
  for (Spec& s : out)
    if (s.dtype == DType::kUnknown) s.dtype = all;
}

// Input 0 and output 0 share a dtype; the other inputs keep theirs, float32 if unknown.
template <typename P>
void TypeOfFirst(const P&, Specs& in, Specs& out) {
  UnifyDType(in[0].dtype, out[0].dtype);
}

}  // namespace plait

#endif  // PLAIT_OPS_INFER_H_
