// EachStrip: images cut in strips of pixels or rows, shared out evenly among threads.

#ifndef PLAIT_CPU_STRIPS_H_
#define PLAIT_CPU_STRIPS_H_

#include <algorithm>
#include <cstdint>
#include <numeric>

#include "base/parallel.h"

namespace plait::cpu {

// Calls f(image, first, last, first_pair, last_pair) for every strip [first, last) of
// [0, extent), about `strip` long, and part of the pairs of blocks of channels;
// together they take `work` operations. How it is cut depends on the number of threads,
// but each element of the result comes from one call.
template <typename F>
void EachStrip(int64_t batch, int64_t extent, int64_t strip, int64_t pairs, double work,
               F f) {
  const int64_t threads = ComputeThreads();
  int64_t strips = (extent + strip - 1) / strip;
  // Few strips, but more than one: as many for each thread.
  if (strips > 1 && batch * strips < 16 * threads) {
    while (batch * strips % threads != 0 && strips < extent) ++strips;
  }
  const auto excess = [threads](int64_t n) {  // of the busiest thread's share
    return static_cast<double>((n + threads - 1) / threads * threads) /
           static_cast<double>(n);
  };
  if (batch * strips == 1 && excess(pairs) > excess(extent) + 0.05) strips = threads;
  const int64_t items = batch * strips;
  // Few strips: threads share out the pairs of blocks, too. It changes no sum.
  const int64_t parts =
      items >= 4 * threads ? 1 : std::min(pairs, threads / std::gcd(items, threads));
  // A thread must have some microseconds of work.
  const double least = 5e5 * static_cast<double>(items * parts) / work;
  ParallelFor(items * parts, std::max<int64_t>(1, static_cast<int64_t>(least)),
              [&](int64_t begin, int64_t end) {
                for (int64_t i = begin; i < end; ++i) {
                  const int64_t part = i / items, item = i % items;
                  const int64_t n = item / strips, s = item % strips;
                  f(n, extent * s / strips, extent * (s + 1) / strips,
                    pairs * part / parts, pairs * (part + 1) / parts);
                }
              });
}

}  // namespace plait::cpu

#endif  // PLAIT_CPU_STRIPS_H_
