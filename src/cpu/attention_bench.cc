// Benchmark of attention: prints `name|GFLOP/s|unit`, the matmul roof first.
//
// usage: attention_bench [THREADS [PART]]    PART: only rows with it in their names.
// With one thread, its CPU time counts, so that other work matters less.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>
#include <vector>

#include "base/parallel.h"
#include "cpu/attention.h"
#include "cpu/gemm.h"

namespace plait::cpu {
namespace {

std::string only;  // the part of names that was asked for

double Now() {
  if (ComputeThreads() == 1) return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
  const std::chrono::duration<double> now =
      std::chrono::steady_clock::now().time_since_epoch();
  return now.count();
}

template <typename F>
void Print(const std::string& name, double flops, F&& f) {
  if (name.find(only) == std::string::npos) return;
  double best = 1e30, total = 0;
  for (int repeat = 0; repeat < 5 || total < 0.2; ++repeat) {
    const double start = Now();
    f();
    const double time = Now() - start;
    best = std::min(best, time);
    total += time;
  }
  std::printf("attention/%s|%.0f|GFLOP/s\n", name.c_str(), flops / best / 1e9);
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
        [&] { AttentionForward(p, rows(3), log_sums.data()); });
  Print(name + " backward", 2.5 * flops, [&] {
    AttentionBackward(p, rows(3), log_sums.data(), rows(4), rows(5), rows(6), rows(7));
  });
}

int Main(int threads) {
  const ScopedComputeThreads scoped(threads);
  constexpr int64_t kN = 1024;
  std::vector<float> a(kN * kN, 1.f), b(kN * kN, 1.f), c(kN * kN);
  Print("matmul", 2.0 * kN * kN * kN, [&] {
    Gemm<float>(false, false, kN, kN, kN, 1, a.data(), kN, b.data(), kN, 0, c.data(),
                kN);
  });
  Case(8, 128, 64, false, 0);
  Case(8, 128, 64, false, 0.1);
  Case(1, 512, 64, false, 0);
  Case(1, 2048, 64, false, 0);
  Case(1, 2048, 64, true, 0);
  Case(1, 2048, 128, false, 0);
  return 0;
}

}  // namespace

int RunBench(int threads, const char* part) {
  only = part;
  return Main(threads);
}

}  // namespace plait::cpu

int main(int argc, char** argv) {
  return plait::cpu::RunBench(argc > 1 ? std::atoi(argv[1]) : plait::AvailableThreads(),
                              argc > 2 ? argv[2] : "");
}
