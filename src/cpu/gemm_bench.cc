// Products of float32 matrices: `gemm_bench [threads]`.
//
// Prints GFLOP/s of the own kernel and of the one that Gemm chooses, the best of
// several calls in turn, for the products of a transformer's layers (forward, and the
// gradients of data and weights), of layers over small batches, and for square ones.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "base/parallel.h"
#include "cpu/gemm.h"
#include "cpu/gemm_kernel.h"

namespace plait::cpu {
namespace {

template <typename F>
double Seconds(F&& f) {
  const auto start = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
      .count();
}

void Measure(bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k) {
  const std::vector<float> a(m * k, 0.5f), b(n * k, 0.25f);
  std::vector<float> c(m * n);
  const GemmProblem<float> p{
      trans_a,  trans_b,         m, n,        k, 1,       a.data(), trans_a ? m : k,
      b.data(), trans_b ? k : n, 0, c.data(), n, nullptr, false};
  double own = 1e9, chosen = 1e9;
  const double flops = 2e-9 * static_cast<double>(m) * n * k;
  const int calls = static_cast<int>(std::clamp(30 / flops, 5.0, 50.0));
  for (int i = 0; i < calls; ++i) {
    own = std::min(own, Seconds([&] { OwnGemm(p); }));
    chosen = std::min(chosen, Seconds([&] {
                        Gemm<float>(trans_a, trans_b, m, n, k, 1, p.a, p.lda, p.b,
                                    p.ldb, 0, p.c, n);
                      }));
  }
  std::printf("%s%s %5ld x %5ld x %5ld  own %6.1f  chosen %6.1f\n", trans_a ? "T" : "N",
              trans_b ? "T" : "N", static_cast<long>(m), static_cast<long>(n),
              static_cast<long>(k), flops / own, flops / chosen);
  std::fflush(stdout);
}

}  // namespace
}  // namespace plait::cpu

int main(int argc, char** argv) {
  using namespace plait;  // NOLINT
  const ScopedComputeThreads scope(argc > 1 ? std::atoi(argv[1]) : AvailableThreads());
  constexpr int64_t kWidths[][2] = {{768, 2304}, {768, 768}, {768, 3072}, {3072, 768}};
  for (const auto& [in, out] : kWidths) {
    cpu::Measure(false, true, 1024, out, in);   // y
    cpu::Measure(false, false, 1024, in, out);  // dx
    cpu::Measure(true, false, out, in, 1024);   // dw
  }
  // Layers over small batches: (rows, inputs, outputs).
  constexpr int64_t kSmall[][3] = {
      {20, 650, 2600},  {700, 650, 2600}, {700, 650, 10000}, {32, 9216, 4096},
      {16, 2048, 1000}, {64, 784, 128},   {48, 1024, 1024},  {100, 512, 512}};
  for (const auto& [rows, in, out] : kSmall) {
    cpu::Measure(false, true, rows, out, in);
    cpu::Measure(false, false, rows, in, out);
    cpu::Measure(true, false, out, in, rows);
  }
  for (int64_t n : {64, 128, 256, 512, 1024, 2048}) {
    cpu::Measure(false, false, n, n, n);
    cpu::Measure(false, true, n, n, n);
  }
}
