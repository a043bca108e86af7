// Convolution of blocked arrays (cpu/blocked.h): float32, two spatial axes.
//
// Passes read filters in an order of their own; whoever runs the same filters again
// packs them once and keeps them. 3 x 3 windows at stride 1 run by Winograd's algorithm
// (cpu/winograd.h), windows of one pixel, depthwise ones and some others by our own
// loops (cpu/blocked_direct.h), the rest by oneDNN. Thread safety: any thread.

#ifndef PLAIT_CPU_BLOCKED_CONV_H_
#define PLAIT_CPU_BLOCKED_CONV_H_

#include <optional>
#include <string_view>
#include <vector>

#include "cpu/blocked_direct.h"
#include "cpu/conv.h"

namespace plait::cpu {

// How a pass runs.
struct BlockedConv {
  enum Kind : uint8_t {
    kOneDnn,
    kWinograd,
    kPixels,
    kDepthwise,
    kWindows
  } kind = kOneDnn;
  bool plain_x = false;  // x of very few channels (an image) is not blocked
  int64_t packed = 0;    // floats of the packed filters; 0: they stay as they are
  // With the kind it says how filters of one shape are packed for one pass, whatever
  // the images.
  uint32_t layout = 0;
  // Whether blocks suit it better than plain arrays.
  bool gains = true;
};

// "onednn", "winograd", ...
const char* NameOf(BlockedConv::Kind kind);

// A pass of this kind; nothing where there is no such kernel. The pass by data needs x
// blocked.
std::optional<BlockedConv> MakeBlockedConv(const ConvProblem& p, ConvPass pass,
                                           BlockedConv::Kind kind);
std::optional<BlockedConv> MakeBlockedConv(const ConvProblem& p, ConvPass pass,
                                           std::string_view name);

// All kinds that there are for a pass; the one of the rules is the first.
std::vector<BlockedConv> BlockedConvWays(const ConvProblem& p, ConvPass pass);

// The choice: by rules that follow from the problem alone, or by a measurement where
// PLAIT_CONV asks for it (cpu/conv_memory.h).
std::optional<BlockedConv> FindBlockedConv(const ConvProblem& p, ConvPass pass);

// From (out_channels, in_channels / groups, kernel...). For the passes forward and by
// data. REQUIRES: packed > 0.
void PackFilters(const ConvProblem& p, ConvPass pass, const BlockedConv& how,
                 const float* weight, float* packed);

// Filters as they are or packed for a pass; one of them may be null.
struct Filters {
  const float* plain = nullptr;
  const float* packed = nullptr;
};

void BlockedConvForward(const ConvProblem& p, const BlockedConv& how, const float* x,
                        Filters w, const ConvFinish& finish, float* y);
void BlockedConvBackwardData(const ConvProblem& p, const BlockedConv& how,
                             const float* dy, Filters w, float* dx);
// dweight is plain.
void BlockedConvBackwardWeight(const ConvProblem& p, const BlockedConv& how,
                               const float* x, const float* dy, float* dweight);

}  // namespace plait::cpu

#endif  // PLAIT_CPU_BLOCKED_CONV_H_
