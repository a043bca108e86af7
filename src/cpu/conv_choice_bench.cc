// Whether the rules that choose convolutions are right: `conv_choice_bench [batch
// [threads]]` times every way of the layers of well-known networks.
//
// Prints a line for each layer, layout and pass: GFLOP/s of each way, that of the rules
// first (operations as if computed directly), and "loses" where another one is faster
// by more than 5 %. The last line counts. Weights are packed before.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/parallel.h"
#include "cpu/blocked.h"
#include "cpu/blocked_conv.h"
#include "cpu/conv.h"

namespace plait::cpu {
namespace {

struct Layer {
  int64_t in, out, size, kernel, stride, pad, groups = 1;
};

// LeNet, AlexNet, VGG-16, GoogLeNet, Inception-v3, ResNets, MobileNet-v2, and odd ones.
constexpr Layer kLayers[] = {
    {1, 20, 28, 5, 1, 0},         {20, 50, 12, 5, 1, 0},
    {3, 64, 224, 11, 4, 2},       {64, 192, 27, 5, 1, 2},
    {192, 384, 13, 3, 1, 1},      {256, 256, 13, 3, 1, 1},
    {3, 64, 224, 3, 1, 1},        {64, 64, 224, 3, 1, 1},
    {128, 128, 112, 3, 1, 1},     {256, 256, 56, 3, 1, 1},
    {512, 512, 28, 3, 1, 1},      {512, 512, 14, 3, 1, 1},
    {64, 192, 56, 3, 1, 1},       {96, 128, 28, 3, 1, 1},
    {16, 32, 28, 3, 1, 1},        {160, 320, 14, 3, 1, 1},
    {24, 64, 14, 3, 1, 1},        {192, 384, 7, 3, 1, 1},
    {48, 128, 7, 3, 1, 1},        {480, 192, 14, 1, 1, 0},
    {832, 384, 7, 1, 1, 0},       {32, 32, 149, 3, 1, 0},
    {288, 384, 35, 3, 2, 0},      {48, 64, 35, 5, 1, 2},
    {3, 64, 224, 7, 2, 3},        {64, 64, 56, 1, 1, 0},
    {64, 256, 56, 1, 1, 0},       {64, 64, 56, 3, 1, 1},
    {256, 128, 56, 1, 2, 0},      {128, 128, 28, 3, 1, 1},
    {128, 512, 28, 1, 1, 0},      {256, 256, 14, 3, 1, 1},
    {256, 1024, 14, 1, 1, 0},     {512, 512, 7, 3, 1, 1},
    {512, 2048, 7, 1, 1, 0},      {128, 128, 56, 3, 2, 1},
    {256, 256, 28, 3, 2, 1},      {512, 512, 14, 3, 2, 1},
    {3, 32, 224, 3, 2, 1},        {96, 96, 112, 3, 2, 1, 96},
    {144, 144, 56, 3, 1, 1, 144}, {384, 384, 14, 3, 1, 1, 384},
    {960, 960, 7, 3, 1, 1, 960},  {3, 16, 32, 3, 1, 1},
    {16, 16, 32, 3, 1, 1},        {64, 64, 8, 3, 1, 1},
    {40, 72, 30, 3, 1, 1},        {128, 128, 28, 3, 1, 1, 32},
    {64, 64, 28, 5, 2, 2},        {100, 100, 17, 7, 1, 3},
};

// The shortest time of a call in seconds.
template <typename F>
double Seconds(F&& f) {
  using Clock = std::chrono::steady_clock;
  f();
  double best = 1e9, total = 0;
  for (int i = 0; i < 20 && (i < 4 || total < 0.03); ++i) {
    const auto start = Clock::now();
    f();
    const double s = std::chrono::duration<double>(Clock::now() - start).count();
    best = std::min(best, s);
    total += s;
  }
  return best;
}

struct Count {
  int lines = 0, lost = 0;
};

void Print(const ConvProblem& p, const char* pass, const char* layout,
           const std::vector<const char*>& names, const std::vector<double>& seconds,
           Count& count) {
  if (names.size() < 2) return;
  std::printf("%ld x %4ld -> %4ld /%3ld %ldx%ld/%ld on %3ld|%-7s|%-7s|", p.batch,
              p.in_channels, p.out_channels, p.groups, p.kernel[1], p.kernel[2],
              p.stride[2], p.in[2], pass, layout);
  for (size_t i = 0; i < names.size(); ++i)
    std::printf("%s %.0f ", names[i], 2e-9 * p.Work() / seconds[i]);
  const bool loses =
      *std::min_element(seconds.begin(), seconds.end()) < 0.95 * seconds[0];
  std::printf("|%s\n", loses ? "loses" : "");
  std::fflush(stdout);
  ++count.lines;
  count.lost += loses;
}

constexpr const char* kPasses[] = {"forward", "data", "weight"};
constexpr const char* kPlainNames[] = {"auto", "direct", "winograd", "gemm"};

void Measure(const Layer& layer, int64_t batch, Count& count) {
  ConvProblem p;
  p.batch = batch;
  p.in_channels = layer.in;
  p.out_channels = layer.out;
  p.groups = layer.groups;
  p.in = {1, layer.size, layer.size};
  p.kernel = {1, layer.kernel, layer.kernel};
  p.stride = {1, layer.stride, layer.stride};
  p.pad_low = p.pad_high = {0, layer.pad, layer.pad};
  const int64_t block = std::max<int64_t>(1, ChannelBlock());
  const auto padded = [&](int64_t n) { return (n + block - 1) / block * block; };
  std::vector<float> x(batch * padded(layer.in) * p.InSize(), 0.5f),
      y(batch * padded(layer.out) * p.OutSize(), 0.5f),
      w(layer.out * layer.in / layer.groups * p.KernelSize(), 0.1f);
  for (int i = 0; i < 3; ++i) {
    const auto pass = static_cast<ConvPass>(i);
    if (pass == ConvPass::kBackwardData && layer.in <= 4) continue;
    std::vector<const char*> names;
    std::vector<double> seconds;
    for (const BlockedConv& how : BlockedConvWays(p, pass)) {
      std::vector<float> packed(how.packed);
      if (how.packed > 0) PackFilters(p, pass, how, w.data(), packed.data());
      const Filters filters = {w.data(), how.packed > 0 ? packed.data() : nullptr};
      names.push_back(NameOf(how.kind));
      seconds.push_back(Seconds([&] {
        if (i == 0) BlockedConvForward(p, how, x.data(), filters, {}, y.data());
        if (i == 1) BlockedConvBackwardData(p, how, y.data(), filters, x.data());
        if (i == 2) BlockedConvBackwardWeight(p, how, x.data(), y.data(), w.data());
      }));
    }
    Print(p, kPasses[i], "blocked", names, seconds, count);
    names.clear();
    seconds.clear();
    for (ConvAlgorithm way : ConvWays(p, pass)) {
      names.push_back(kPlainNames[static_cast<int>(way)]);
      seconds.push_back(Seconds([&] {
        if (i == 0) ConvForward(p, x.data(), w.data(), {}, false, y.data(), way);
        if (i == 1) ConvBackwardData(p, y.data(), w.data(), x.data(), way);
        if (i == 2)
          ConvBackwardWeight(p, x.data(), y.data(), w.data(), (float*)nullptr, way);
      }));
    }
    Print(p, kPasses[i], "plain", names, seconds, count);
  }
}

}  // namespace
}  // namespace plait::cpu

int main(int argc, char** argv) {
  const int64_t batch = argc > 1 ? std::atoi(argv[1]) : 1;
  const plait::ScopedComputeThreads threads(argc > 2 ? std::atoi(argv[2])
                                                     : plait::AvailableThreads());
  plait::cpu::Count count;
  for (const auto& layer : plait::cpu::kLayers)
    plait::cpu::Measure(layer, batch, count);
  std::printf("%d of %d lines: another way is more than 5 %% faster\n", count.lost,
              count.lines);
}
