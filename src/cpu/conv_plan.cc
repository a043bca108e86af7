// ConvPlan: where the elements that a convolution multiplies lie in an image.

#include "cpu/conv_plan.h"

#include <algorithm>

namespace plait::cpu {
namespace {

// One long row of pixels where the filter only looks at the pixel itself.
ConvProblem Normalised(const ConvProblem& p) {
  ConvProblem q = p;
  bool pointwise = true;
  for (int i = 0; i < 3; ++i) {
    pointwise = pointwise && p.kernel[i] == 1 && p.stride[i] == 1 &&
                p.pad_low[i] == 0 && p.pad_high[i] == 0;
  }
  if (pointwise) q.in = {1, 1, p.InSize()};
  return q;
}

}  // namespace

ConvPlan::ConvPlan(const ConvProblem& problem, int64_t panel, int64_t most)
    : p(Normalised(problem)),
      in_channels(p.in_channels / p.groups),
      out_channels(p.out_channels / p.groups),
      kernel(p.KernelSize()),
      taps(in_channels * kernel),
      pixels(p.OutSize()),
      in_size(p.InSize()),
      step(p.stride[2]) {
  for (int i = 0; i < 3; ++i) padded |= p.pad_low[i] != 0 || p.pad_high[i] != 0;
  row = p.in[2] + p.pad_low[2] + p.pad_high[2];
  plane = row * (p.in[1] + p.pad_low[1] + p.pad_high[1]);
  channel = plane * (p.in[0] + p.pad_low[0] + p.pad_high[0]);

  tap.reserve(taps + kSpareTaps);
  for (int64_t c = 0; c < in_channels; ++c) {
    for (int64_t z = 0; z < p.kernel[0]; ++z) {
      for (int64_t y = 0; y < p.kernel[1]; ++y) {
        for (int64_t x = 0; x < p.kernel[2]; ++x) {
          tap.push_back(c * channel + z * p.dilation[0] * plane +
                        y * p.dilation[1] * row + x * p.dilation[2]);
        }
      }
    }
  }
  tap.resize(taps + kSpareTaps, tap.back());

  const int64_t height = p.Out(1), width = p.Out(2);
  for (int64_t i = 0; i < pixels;) {
    if (i % panel == 0) first.push_back(static_cast<int64_t>(runs.size()));
    const int64_t z = i / width / height, y = i / width % height, x = i % width;
    const int64_t length = std::min({width - x, panel - i % panel, most, pixels - i});
    runs.push_back({z * p.stride[0] * plane + y * p.stride[1] * row + x * step,
                    static_cast<int32_t>(i % panel), static_cast<int32_t>(length)});
    i += length;
  }
  first.push_back(static_cast<int64_t>(runs.size()));
}

}  // namespace plait::cpu
