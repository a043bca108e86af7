// Ways of half types beside float32: `half_conv_bench [batch [threads [float16]]]`.
//
// Prints milliseconds of processor time for each layer and pass: float32 as its rules
// have it, then each way of bfloat16 or float16, that of the rules first. "loses"
// stands where float32, or another way by more than 5 %, is faster.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "base/parallel.h"
#include "cpu/bench.h"
#include "cpu/blocked.h"
#include "cpu/half_conv.h"

namespace plait::cpu {
namespace {

struct Layer {
  int64_t in, out, size, kernel, stride, pad;
};

// Of VGG-16, ResNet-50, GoogLeNet, and of networks of few channels.
constexpr Layer kLayers[] = {
    {1, 16, 28, 3, 1, 1},     {16, 16, 28, 3, 1, 1},    {16, 32, 28, 3, 2, 1},
    {16, 32, 28, 1, 2, 0},    {32, 32, 14, 3, 1, 1},    {32, 64, 14, 3, 2, 1},
    {64, 64, 7, 3, 1, 1},     {3, 64, 224, 3, 1, 1},    {64, 64, 224, 3, 1, 1},
    {128, 128, 112, 3, 1, 1}, {256, 256, 56, 3, 1, 1},  {512, 512, 28, 3, 1, 1},
    {512, 512, 14, 3, 1, 1},  {3, 64, 224, 7, 2, 3},    {64, 64, 56, 1, 1, 0},
    {64, 256, 56, 1, 1, 0},   {256, 64, 56, 1, 1, 0},   {64, 64, 56, 3, 1, 1},
    {256, 512, 56, 1, 2, 0},  {128, 128, 28, 3, 1, 1},  {512, 128, 28, 1, 1, 0},
    {256, 256, 14, 3, 1, 1},  {256, 1024, 14, 1, 1, 0}, {512, 512, 7, 3, 1, 1},
    {2048, 512, 7, 1, 1, 0},  {128, 128, 56, 3, 2, 1},  {512, 512, 14, 3, 2, 1},
    {48, 64, 35, 5, 1, 2},
};

template <typename F>
double Milliseconds(F&& f) {
  return CpuMilliseconds(f, 0.02);
}

template <typename T>
struct Arrays {
  explicit Arrays(const ConvProblem& p) {
    const auto padded = [](int64_t n) { return (n + 15) / 16 * 16; };
    x.assign(p.batch * padded(p.in_channels) * p.InSize(), 0.5f);
    y.assign(p.batch * padded(p.out_channels) * p.OutSize(), 0.5f);
    w.assign(p.out_channels * p.in_channels * p.KernelSize(), 0.1f);
    xh.assign(x.size(), T(0.5f));
    yh.assign(y.size(), T(0.5f));
    wh.assign(w.size(), T(0.1f));
  }
  std::vector<float> x, y, w;
  std::vector<T> xh, yh, wh;
};

template <typename T>
double Float(const ConvProblem& p, ConvPass pass, Arrays<T>& a) {
  const auto how = FindBlockedConv(p, pass);
  if (!how) return 0;
  const Filters w = {a.w.data(), nullptr};
  return Milliseconds([&] {
    if (pass == ConvPass::kForward)
      BlockedConvForward(p, *how, a.x.data(), w, {}, a.y.data());
    if (pass == ConvPass::kBackwardData)
      BlockedConvBackwardData(p, *how, a.y.data(), w, a.x.data());
    if (pass == ConvPass::kBackwardWeight)
      BlockedConvBackwardWeight(p, *how, a.x.data(), a.y.data(), a.w.data());
  });
}

template <typename T>
double Half(const ConvProblem& p, ConvPass pass, const HalfConv& how, Arrays<T>& a) {
  const HalfFilters<T> w = {a.wh.data(), nullptr};
  return Milliseconds([&] {
    if (pass == ConvPass::kForward)
      HalfConvForward<T>(p, how, a.xh.data(), w, {}, a.yh.data());
    if (pass == ConvPass::kBackwardData)
      HalfConvBackwardData(p, how, a.yh.data(), w, a.xh.data());
    if (pass == ConvPass::kBackwardWeight)
      HalfConvBackwardWeight(p, how, a.xh.data(), a.yh.data(), a.wh.data());
  });
}

template <typename T>
void Measure(const Layer& layer, int64_t batch) {
  ConvProblem p;
  p.batch = batch;
  p.in_channels = layer.in;
  p.out_channels = layer.out;
  p.in = {1, layer.size, layer.size};
  p.kernel = {1, layer.kernel, layer.kernel};
  p.stride = {1, layer.stride, layer.stride};
  p.pad_low = p.pad_high = {0, layer.pad, layer.pad};
  Arrays<T> a(p);
  constexpr const char* kPasses[] = {"forward", "data", "weight"};
  for (int i = 0; i < 3; ++i) {
    const auto pass = static_cast<ConvPass>(i);
    if (pass == ConvPass::kBackwardData && layer.in <= 4) continue;
    const double wide = Float(p, pass, a);
    std::printf("%4ld -> %4ld %ldx%ld/%ld on %3ld|%-7s|float32 %.3f |", layer.in,
                layer.out, layer.kernel, layer.kernel, layer.stride, layer.size,
                kPasses[i], wide);
    double least = wide, first = 0;
    for (const HalfConv& how : HalfConvWays(p, pass, kDTypeOf<T>)) {
      const double ms = Half(p, pass, how, a);
      if (first == 0) first = ms;
      least = std::min(least, ms);
      std::printf(" %s %.3f", NameOf(how.kind), ms);
    }
    std::printf(" |%.2f%s\n", wide / first, first > 1.05 * least ? " loses" : "");
    std::fflush(stdout);
  }
}

}  // namespace
}  // namespace plait::cpu

int main(int argc, char** argv) {
  const int64_t batch = argc > 1 ? std::atoi(argv[1]) : 1;
  const plait::ScopedComputeThreads threads(argc > 2 ? std::atoi(argv[2]) : 1);
  for (const auto& layer : plait::cpu::kLayers)
    (argc > 3 ? plait::cpu::Measure<plait::Float16>
              : plait::cpu::Measure<plait::Bfloat16>)(layer, batch);
}
