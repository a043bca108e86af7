// Convolution of blocked arrays (cpu/blocked.h) of half types: two spatial axes.
//
// T is Bfloat16 or Float16. Sums are in float32; each element of a result is rounded
// once. 3 x 3 windows run by Winograd's algorithm in float32. Where the processor has
// products of bfloat16, single pixels and gradients of filters in that type run by our
// own loops over them, others by oneDNN. What is left is widened: some pixels at a time
// for windows of one pixel, some images at a time else.
// Results have the same bits for any number of threads. Thread safety: any thread.

#ifndef PLAIT_CPU_HALF_CONV_H_
#define PLAIT_CPU_HALF_CONV_H_

#include <optional>
#include <vector>

#include "base/dtype.h"
#include "cpu/blocked_conv.h"

namespace plait::cpu {

// How a pass runs; it follows from the problem alone.
struct HalfConv {
  enum Kind : uint8_t { kOneDnn, kWinograd, kPixels, kWide, kSums } kind = kOneDnn;
  bool plain_x = false;  // as of BlockedConv
  int64_t packed = 0;    // elements of T that the packed filters take; 0: none
  uint32_t layout = 0;   // as of BlockedConv
  bool gains = true;
  BlockedConv wide = {};  // kWide: the pass in float32
};

// Nothing where there is no such kernel. The pass by data needs x blocked.
std::optional<HalfConv> FindHalfConv(const ConvProblem& p, ConvPass pass, DType dtype);
// All ways that there are; that of FindHalfConv is the first.
std::vector<HalfConv> HalfConvWays(const ConvProblem& p, ConvPass pass, DType dtype);
const char* NameOf(HalfConv::Kind kind);

// As PackFilters. What is packed may be floats in the memory of T.
template <typename T>
void PackHalfFilters(const ConvProblem& p, ConvPass pass, const HalfConv& how,
                     const T* weight, T* packed);

template <typename T>
struct HalfFilters {
  const T* plain = nullptr;
  const T* packed = nullptr;
};

// As ConvFinish.
template <typename T>
struct HalfFinish {
  const T* bias = nullptr;
  const T* other = nullptr;
  bool bounded = false;
  float low = 0, high = 0;
};

template <typename T>
void HalfConvForward(const ConvProblem& p, const HalfConv& how, const T* x,
                     HalfFilters<T> w, const HalfFinish<T>& finish, T* y);
template <typename T>
void HalfConvBackwardData(const ConvProblem& p, const HalfConv& how, const T* dy,
                          HalfFilters<T> w, T* dx);
// dweight is plain.
template <typename T>
void HalfConvBackwardWeight(const ConvProblem& p, const HalfConv& how, const T* x,
                            const T* dy, T* dweight);

// The loops behind kPixels; compare cpu/blocked_direct.h. bias: floats.
bool HasHalfPixelConv(const ConvProblem& p, ConvPass pass);
int64_t HalfPixelFilterSize(const ConvProblem& p, ConvPass pass);
void PackHalfPixelFilters(const ConvProblem& p, ConvPass pass, const Bfloat16* weight,
                          Bfloat16* packed);
void HalfPixelConv(const ConvProblem& p, ConvPass pass, const Bfloat16* x,
                   const Bfloat16* packed, const HalfFinish<Bfloat16>& finish,
                   const float* bias, Bfloat16* y);

// The loops behind kSums: one group. plain_x: x is not blocked.
bool HasHalfWeightConv(const ConvProblem& p);
void HalfWeightConv(const ConvProblem& p, bool plain_x, const Bfloat16* x,
                    const Bfloat16* dy, Bfloat16* dweight);

}  // namespace plait::cpu

#endif  // PLAIT_CPU_HALF_CONV_H_
