// Convolution of blocked arrays (cpu/blocked.h) of bfloat16: two spatial axes.
//
// Sums are in float32; each element of a result is rounded once. Windows of one pixel
// run by our own loops over the processor's products of bfloat16, 3 x 3 windows by
// Winograd's algorithm in float32, others by oneDNN; what it has no code for is widened
// some images at a time. Only on processors with AVX-512's products of bfloat16.
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
  int64_t packed = 0;    // elements of bfloat16 that the packed filters take; 0: none
  uint32_t layout = 0;   // as of BlockedConv
  bool gains = true;
  BlockedConv wide = {};  // kWide: the pass in float32
};

// Nothing where there is no such kernel. The pass by data needs x blocked.
std::optional<HalfConv> FindHalfConv(const ConvProblem& p, ConvPass pass);
// All ways that there are; that of FindHalfConv is the first.
std::vector<HalfConv> HalfConvWays(const ConvProblem& p, ConvPass pass);
const char* NameOf(HalfConv::Kind kind);

// As PackFilters. What is packed may be floats in the memory of bfloat16.
void PackHalfFilters(const ConvProblem& p, ConvPass pass, const HalfConv& how,
                     const Bfloat16* weight, Bfloat16* packed);

struct HalfFilters {
  const Bfloat16* plain = nullptr;
  const Bfloat16* packed = nullptr;
};

// As ConvFinish.
struct HalfFinish {
  const Bfloat16* bias = nullptr;
  const Bfloat16* other = nullptr;
  bool bounded = false;
  float low = 0, high = 0;
};

void HalfConvForward(const ConvProblem& p, const HalfConv& how, const Bfloat16* x,
                     HalfFilters w, const HalfFinish& finish, Bfloat16* y);
void HalfConvBackwardData(const ConvProblem& p, const HalfConv& how, const Bfloat16* dy,
                          HalfFilters w, Bfloat16* dx);
// dweight is plain.
void HalfConvBackwardWeight(const ConvProblem& p, const HalfConv& how,
                            const Bfloat16* x, const Bfloat16* dy, Bfloat16* dweight);

// The loops behind kPixels; compare cpu/blocked_direct.h. bias: floats.
bool HasHalfPixelConv(const ConvProblem& p, ConvPass pass);
int64_t HalfPixelFilterSize(const ConvProblem& p, ConvPass pass);
void PackHalfPixelFilters(const ConvProblem& p, ConvPass pass, const Bfloat16* weight,
                          Bfloat16* packed);
void HalfPixelConv(const ConvProblem& p, ConvPass pass, const Bfloat16* x,
                   const Bfloat16* packed, const HalfFinish& finish, const float* bias,
                   Bfloat16* y);

// The loops behind kSums: one group. plain_x: x is not blocked.
bool HasHalfWeightConv(const ConvProblem& p);
void HalfWeightConv(const ConvProblem& p, bool plain_x, const Bfloat16* x,
                    const Bfloat16* dy, Bfloat16* dweight);

}  // namespace plait::cpu

#endif  // PLAIT_CPU_HALF_CONV_H_
