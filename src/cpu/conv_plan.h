// ConvPlan: where the elements that a convolution multiplies lie in an image.

#ifndef PLAIT_CPU_CONV_PLAN_H_
#define PLAIT_CPU_CONV_PLAN_H_

#include <cstdint>
#include <vector>

#include "cpu/conv.h"

namespace plait::cpu {

// A convolution is a product of the filters (out_channels, taps) and a matrix (taps,
// pixels) that is never written out: its element (t, p) lies at tap[t] + pixel(p) in
// the padded image of a group, and pixels that follow each other in a row of y lie
// `step` apart. A tap is a channel and a place in the kernel.
//
// Invariant: a filter of size 1 that moves by 1 without padding has one row of pixels,
// so that its runs are long.
struct ConvPlan {
  // Pixels side by side: columns [column, column + length) of a panel of pixels.
  struct Run {
    int64_t offset;
    int32_t column, length;
  };

  static constexpr int64_t kSpareTaps = 64;

  // Runs are cut at `panel` columns, and hold at most `most` pixels.
  ConvPlan(const ConvProblem& problem, int64_t panel, int64_t most);

  ConvProblem p;             // normalised
  int64_t in_channels = 0;   // of a group
  int64_t out_channels = 0;  // of a group
  int64_t kernel = 0;        // taps of a channel
  int64_t taps = 0;          // of a group
  int64_t pixels = 0;        // of an image of y
  int64_t in_size = 0;       // elements of a channel of x
  int64_t step = 1;
  bool padded = false;
  int64_t row = 0, plane = 0, channel = 0;  // strides of the padded image

  std::vector<int64_t> tap;    // and kSpareTaps times the last one
  std::vector<Run> runs;       // of all pixels, in order
  std::vector<int64_t> first;  // panel i has runs [first[i], first[i + 1])
};

}  // namespace plait::cpu

#endif  // PLAIT_CPU_CONV_PLAN_H_
