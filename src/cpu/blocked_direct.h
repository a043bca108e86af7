// Convolutions of blocked arrays by our own loops: single pixels, windows, and
// depthwise windows.
//
// With windows of 1 x 1 a layer is a product of matrices (pixels, in_channels) and
// (in_channels, out_channels), read in place. A depthwise layer has a window of its own
// for each channel. Both finish a pixel while it is in registers. The last block of y
// is filled up with zeros. Blocks are of FloatLanes() channels. Results have the same
// bits for any number of threads. Thread safety: any thread.

#ifndef PLAIT_CPU_BLOCKED_DIRECT_H_
#define PLAIT_CPU_BLOCKED_DIRECT_H_

#include "cpu/conv.h"

namespace plait::cpu {

// What becomes of a sum before it is stored: min(max(sum + bias + other, low), high).
// NaN stays NaN.
struct ConvFinish {
  const float* bias = nullptr;   // an element a channel, or none
  const float* other = nullptr;  // an array like y, or none; may be y itself
  bool bounded = false;
  float low = 0, high = 0;
};

// 1 x 1 without padding or groups; the pass by data at stride 1 only, as it is the
// forward pass with the filters transposed.
bool HasPixelConv(const ConvProblem& p, ConvPass pass);
int64_t PixelFilterSize(const ConvProblem& p, ConvPass pass);  // floats
void PackPixelFilters(const ConvProblem& p, ConvPass pass, const float* weight,
                      float* packed);
void PixelConv(const ConvProblem& p, ConvPass pass, const float* x, const float* packed,
               const ConvFinish& finish, float* y);

// Windows of any size, stride, padding and dilation without groups; the forward pass.
// x is blocked or, plain_x, an image of up to 4 channels.
bool HasWindowConv(const ConvProblem& p, ConvPass pass, bool plain_x);
int64_t WindowFilterSize(const ConvProblem& p, bool plain_x);
void PackWindowFilters(const ConvProblem& p, bool plain_x, const float* weight,
                       float* packed);
void WindowConv(const ConvProblem& p, bool plain_x, const float* x, const float* packed,
                const ConvFinish& finish, float* y);

// One channel a group, dilation 1; the forward pass.
bool HasDepthwiseConv(const ConvProblem& p, ConvPass pass);
int64_t DepthwiseFilterSize(const ConvProblem& p);
void PackDepthwiseFilters(const ConvProblem& p, const float* weight, float* packed);
void DepthwiseConv(const ConvProblem& p, const float* x, const float* packed,
                   const ConvFinish& finish, float* y);

}  // namespace plait::cpu

#endif  // PLAIT_CPU_BLOCKED_DIRECT_H_
