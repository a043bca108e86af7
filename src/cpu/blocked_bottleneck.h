// Two convolutions by single pixels with a depthwise one between them, on blocked
// arrays, as one: what lies between them never leaves a thread's caches.
//
// That is the block of a MobileNet: 1 x 1 to many channels, depthwise, 1 x 1 to few.
// The first may be missing. Filters are packed as cpu/blocked_direct.h packs them, and
// each sum adds up in the same order as there: results have the same bits, for any
// number of threads. Thread safety: any thread.

#ifndef PLAIT_CPU_BLOCKED_BOTTLENECK_H_
#define PLAIT_CPU_BLOCKED_BOTTLENECK_H_

#include "cpu/blocked_direct.h"
#include "cpu/conv.h"

namespace plait::cpu {

struct BottleneckPart {
  ConvProblem conv;
  const float* packed = nullptr;  // filters
  ConvFinish finish;              // `other` only of the last part
};

struct Bottleneck {
  bool expands = true;  // otherwise `expand` is not there
  BottleneckPart expand, depthwise, project;
};

// Whether there is such a kernel and what lies between fits in the caches. Looks at
// the problems only.
bool HasBottleneck(const Bottleneck& b);

void BottleneckConv(const Bottleneck& b, const float* x, float* y);

}  // namespace plait::cpu

#endif  // PLAIT_CPU_BLOCKED_BOTTLENECK_H_
