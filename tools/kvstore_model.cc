// kvstore_model: prints what a rank sends in a step of ResNet-50, for many ranks.
//
// The numbers are the cost model's, which the tests of kvstore compare with what ranks
// really send; the last column is the time of the transfer at 10 Gbit/s and 20 us a
// message, when nothing hides it.

#include <algorithm>
#include <cstdio>

#include "kvstore/cost_model.h"

namespace plait {
namespace {

// Elements of the 161 parameters: weights of convolutions, BatchNorms, the classifier.
std::vector<int64_t> ResNet50() {
  std::vector<int64_t> sizes;
  const auto conv = [&](int64_t in, int64_t out, int64_t window) {
    sizes.insert(sizes.end(), {in * out * window * window, out, out});
  };
  conv(3, 64, 7);
  int64_t in = 64;
  const int blocks[] = {3, 4, 6, 3};
  for (int stage = 0; stage < 4; ++stage) {
    const int64_t width = int64_t{64} << stage, out = 4 * width;
    for (int block = 0; block < blocks[stage]; ++block) {
      conv(in, width, 1);
      conv(width, width, 3);
      conv(width, out, 1);
      if (block == 0) conv(in, out, 1);
      in = out;
    }
  }
  sizes.insert(sizes.end(), {2048 * 1000, 1000});
  return sizes;
}

int Main() {
  const std::vector<int64_t> sizes = ResNet50();
  int64_t elements = 0;
  for (const int64_t n : sizes) elements += n;
  std::printf("%zu keys, %.1f MB\n\n", sizes.size(), elements * 4e-6);
  std::printf(
      "| ranks | MB sent, 2(N-1)/N P | most of a rank | entries | messages, "
      "least to most | s at 10 Gbit/s |\n|---|---|---|---|---|---|\n");
  for (const int ranks : {2, 4, 8, 16, 32, 64, 256, 1024}) {
    const std::vector<Ranges> cut = CutKeys(sizes, 4, ranks);
    StepCost most;
    for (int rank = 0; rank < ranks; ++rank) {
      const StepCost cost = CostOfStep(cut, 4, rank);
      if (cost.payload > most.payload) most = cost;
    }
    const double even = 2.0 * (ranks - 1) / ranks * static_cast<double>(elements) * 4;
    const double bytes = static_cast<double>(most.payload + 40 * most.entries);
    std::printf("| %d | %.1f | %.1f | %lld | %lld to %lld | %.3f |\n", ranks,
                even * 1e-6, static_cast<double>(most.payload) * 1e-6,
                static_cast<long long>(most.entries),
                static_cast<long long>(most.least_messages),
                static_cast<long long>(most.most_messages),
                bytes / 1.25e9 + static_cast<double>(most.least_messages) * 20e-6);
  }
  return 0;
}

}  // namespace
}  // namespace plait

int main() {
  return plait::Main();
}
