// Convolutions on blocked arrays, ours against oneDNN's: `blocked_conv_bench
// [threads]`.
//
// Prints name|GFLOP/s of ours|GFLOP/s of oneDNN (in its own layouts, without reorders).

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "base/parallel.h"
#include "cpu/blocked.h"
#include "cpu/blocked_conv.h"
#include "cpu/onednn/conv.h"

namespace plait::cpu {
namespace {

// The shortest time of a call in seconds, over at least 5 calls and 100 ms.
template <typename F>
double Seconds(F&& f) {
  using Clock = std::chrono::steady_clock;
  f();
  double best = 1e9, total = 0;
  for (int i = 0; i < 5 || total < 0.1; ++i) {
    const auto start = Clock::now();
    f();
    const double s = std::chrono::duration<double>(Clock::now() - start).count();
    best = std::min(best, s);
    total += s;
  }
  return best;
}

void Measure(int64_t batch, int64_t in, int64_t out, int64_t size, int64_t kernel,
             int64_t stride, int64_t groups) {
  ConvProblem p;
  p.batch = batch;
  p.in_channels = in;
  p.out_channels = out;
  p.groups = groups;
  p.in = {1, size, size};
  p.kernel = {1, kernel, kernel};
  p.stride = {1, stride, stride};
  p.pad_low = p.pad_high = {0, kernel / 2, kernel / 2};
  const auto how = FindBlockedConv(p, ConvPass::kForward);
  if (!how) return;
  const int64_t block = ChannelBlock();
  const auto blocked = [&](int64_t n) { return (n + block - 1) / block * block; };
  std::vector<float> x(batch * blocked(in) * p.InSize(), 0.5f),
      y(batch * blocked(out) * p.OutSize()),
      w(out * in / groups * p.KernelSize(), 0.1f), packed(how->packed), bias(out, 1.0f);
  PackFilters(p, ConvPass::kForward, *how, w.data(), packed.data());
  const double ours = Seconds([&] {
    BlockedConvForward(p, *how, x.data(), {nullptr, packed.data()},
                       {.bias = bias.data()}, y.data());
  });
  constexpr DType kType = DType::kFloat32;
  constexpr auto kDirect = ConvAlgorithm::kDirect;
  double theirs = 0;
  if (onednn::HasConv(p, kType, ConvPass::kForward, kDirect)) {
    const auto layouts =
        onednn::PreferredLayouts(p, kType, ConvPass::kForward, kDirect);
    const onednn::ConvDims dims(p);
    std::vector<float> reordered(
        onednn::LayoutBytes(layouts.weight, dims.Weight(), kType) / sizeof(float));
    onednn::Reorder(dims.Weight(), {}, kType, w.data(), layouts.weight, kType,
                    reordered.data());
    theirs = Seconds([&] {
      onednn::ConvForward(p, kType, kDirect, layouts, x.data(), reordered.data(),
                          bias.data(), false, y.data());
    });
  }
  const double flop = 2e-9 * p.Work();
  std::printf("%ld x %4ld -> %4ld %ldx%ld/%ld on %3ld%s|%7.1f us|%6.1f|%6.1f\n", batch,
              in, out, kernel, kernel, stride, size, groups > 1 ? " depthwise" : "",
              ours * 1e6, flop / ours, theirs > 0 ? flop / theirs : 0.0);
}

}  // namespace
}  // namespace plait::cpu

int main(int argc, char** argv) {
  using plait::cpu::Measure;
  const plait::ScopedComputeThreads threads(argc > 1 ? std::atoi(argv[1])
                                                     : plait::AvailableThreads());
  for (const int64_t n : {1, 16}) {
    Measure(n, 64, 256, 56, 1, 1, 1);
    Measure(n, 256, 64, 56, 1, 1, 1);
    Measure(n, 512, 128, 28, 1, 1, 1);
    Measure(n, 512, 1024, 28, 1, 2, 1);
    Measure(n, 1024, 256, 14, 1, 1, 1);
    Measure(n, 512, 2048, 7, 1, 1, 1);
    Measure(n, 24, 144, 56, 1, 1, 1);
    Measure(n, 144, 24, 56, 1, 1, 1);
    Measure(n, 96, 96, 112, 3, 2, 96);
    Measure(n, 144, 144, 56, 3, 1, 144);
    Measure(n, 384, 384, 14, 3, 1, 384);
    Measure(n, 960, 960, 7, 3, 1, 960);
    Measure(n, 3, 64, 224, 7, 2, 1);
  }
}
