// Benchmark of attention: prints `name|GFLOP/s|unit`, the matmul roof first.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/parallel.h"
#include "cpu/attention.h"
#include "cpu/gemm.h"

namespace plait::cpu {
namespace {

template <typename F>
double Best(F&& f) {
  double best = 1e30;
  for (int repeat = 0; repeat < 5; ++repeat) {
    const auto start = std::chrono::steady_clock::now();
    f();
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
    best = std::min(best, time.count());
  }
  return best;
}

void Print(const std::string& name, double flops, double seconds) {
  std::printf("attention/%s|%.0f|GFLOP/s\n", name.c_str(), flops / seconds / 1e9);
}

void Case(int64_t batch, int64_t length, int64_t size, bool causal, double dropout) {
  constexpr int64_t kHeads = 12;
  const size_t n = static_cast<size_t>(batch * kHeads * length * size);
  std::vector<float> x[8];
  for (auto& a : x) {
    a.resize(n);
    for (size_t i = 0; i < n; ++i)
      a[i] = static_cast<float>(i * 7919 % 1000) * 1e-3f - 0.5f;
  }
  std::vector<float> log_sums(static_cast<size_t>(batch * kHeads * length));
  const auto rows = [&](int i) {
    return AttentionRows{x[i].data(), kHeads * length * size, length * size, size};
  };
  AttentionProblem p{batch,           kHeads,  length,  length,  size,  size,
                     DType::kFloat32, rows(0), rows(1), rows(2), 0.125, causal};
  p.dropout = dropout;
  const double flops = 4.0 * static_cast<double>(batch * kHeads) *
                       static_cast<double>(length * length * size) / (causal ? 2 : 1);
  const std::string name = "B" + std::to_string(batch) + " T" + std::to_string(length) +
                           " D" + std::to_string(size) + (causal ? " causal" : "") +
                           (dropout > 0 ? " dropout" : "");
  Print(name + " forward", flops,
        Best([&] { AttentionForward(p, rows(3), log_sums.data()); }));
  Print(name + " backward", 2.5 * flops, Best([&] {
          AttentionBackward(p, rows(3), log_sums.data(), rows(4), rows(5), rows(6),
                            rows(7));
        }));
}

int Main(int threads) {
  const ScopedComputeThreads scoped(threads);
  constexpr int64_t kN = 1024;
  std::vector<float> a(kN * kN, 1.f), b(kN * kN, 1.f), c(kN * kN);
  Print("matmul", 2.0 * kN * kN * kN, Best([&] {
          Gemm<float>(false, false, kN, kN, kN, 1, a.data(), kN, b.data(), kN, 0,
                      c.data(), kN);
        }));
  Case(8, 128, 64, false, 0);
  Case(8, 128, 64, false, 0.1);
  Case(1, 512, 64, false, 0);
  Case(1, 2048, 64, false, 0);
  Case(1, 2048, 64, true, 0);
  Case(1, 2048, 128, false, 0);
  return 0;
}

}  // namespace
}  // namespace plait::cpu

int main(int argc, char** argv) {
  return plait::cpu::Main(argc > 1 ? std::atoi(argv[1]) : plait::AvailableThreads());
}
