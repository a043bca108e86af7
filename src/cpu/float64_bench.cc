// Float64 beside float32: `float64_bench [threads]`.
//
// Prints milliseconds of processor time of convolutions (forward, data, filters; plain
// arrays, ways as the rules have them) and of products of matrices in both types, and
// the ratio, which should be below 3.

#include <cstdio>
#include <cstdlib>
#include <vector>

#include "base/parallel.h"
#include "cpu/bench.h"
#include "cpu/conv.h"
#include "cpu/gemm.h"

namespace plait::cpu {
namespace {

template <typename F>
double Milliseconds(F&& f) {
  return CpuMilliseconds(f, 0.05);
}

void Print(const char* what, double single, double both) {
  std::printf("%-44s %9.3f %9.3f %6.2f\n", what, single, both, both / single);
  std::fflush(stdout);
}

struct Layer {
  int64_t batch, in, out, size, kernel, stride, pad;
};
constexpr Layer kLayers[] = {
    {16, 16, 16, 28, 3, 1, 1},  {4, 64, 64, 56, 3, 1, 1},   {4, 128, 128, 28, 3, 1, 1},
    {4, 256, 256, 14, 3, 1, 1}, {4, 512, 512, 14, 3, 1, 1}, {1, 512, 512, 28, 3, 1, 1},
    {4, 64, 256, 56, 1, 1, 0},  {4, 512, 128, 28, 1, 1, 0}, {4, 128, 128, 56, 3, 2, 1},
    {4, 48, 64, 35, 5, 1, 2},   {4, 3, 64, 112, 7, 2, 3},
};

template <typename T>
double Conv(const ConvProblem& p, ConvPass pass) {
  std::vector<T> x(p.batch * p.in_channels * p.InSize(), T(0.5)),
      y(p.batch * p.out_channels * p.OutSize(), T(0.5)),
      w(p.out_channels * p.in_channels * p.KernelSize(), T(0.1));
  return Milliseconds([&] {
    if (pass == ConvPass::kForward)
      ConvForward<T>(p, x.data(), w.data(), nullptr, false, y.data());
    if (pass == ConvPass::kBackwardData)
      ConvBackwardData<T>(p, y.data(), w.data(), x.data());
    if (pass == ConvPass::kBackwardWeight)
      ConvBackwardWeight<T>(p, x.data(), y.data(), w.data(), nullptr);
  });
}

void Measure(const Layer& l) {
  const int64_t shape[] = {l.batch, l.in, l.size, l.size};
  const int64_t kernel[] = {l.kernel, l.kernel}, stride[] = {l.stride, l.stride},
                dilation[] = {1, 1}, pad[] = {l.pad, l.pad};
  const ConvProblem p = MakeConvProblem(shape, l.out, 1, kernel, stride, dilation, pad);
  constexpr const char* kPasses[] = {"forward", "data", "filters"};
  for (int i = 0; i < 3; ++i) {
    const auto pass = static_cast<ConvPass>(i);
    if (pass == ConvPass::kBackwardData && l.in <= 4) continue;
    char what[64];
    std::snprintf(what, sizeof(what), "%ld x %ld -> %ld, %ldx%ld/%ld on %ld, %s",
                  l.batch, l.in, l.out, l.kernel, l.kernel, l.stride, l.size,
                  kPasses[i]);
    Print(what, Conv<float>(p, pass), Conv<double>(p, pass));
  }
}

template <typename T>
double Product(int64_t n) {
  std::vector<T> a(n * n, T(0.5)), b(n * n, T(0.5)), c(n * n);
  return Milliseconds([&] {
    Gemm<T>(false, false, n, n, n, 1, a.data(), n, b.data(), n, 0, c.data(), n);
  });
}

}  // namespace
}  // namespace plait::cpu

int main(int argc, char** argv) {
  const plait::ScopedComputeThreads threads(argc > 1 ? std::atoi(argv[1]) : 1);
  std::printf("%-44s %9s %9s %6s\n", "", "float32", "float64", "ratio");
  for (const auto& layer : plait::cpu::kLayers) plait::cpu::Measure(layer);
  for (const int64_t n : {256, 1024})
    plait::cpu::Print(n == 256 ? "product of 256 x 256" : "product of 1024 x 1024",
                      plait::cpu::Product<float>(n), plait::cpu::Product<double>(n));
}
