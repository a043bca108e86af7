// Benchmark of the random numbers: prints `name|value|unit`.

#include <chrono>
#include <cstdio>
#include <vector>

#include "cpu/random.h"

namespace plait::cpu {
namespace {

// f() makes `count` numbers.
template <typename F>
void Print(const char* name, int64_t count, F&& f) {
  double best = 1e30;
  for (int repeat = 0; repeat < 9; ++repeat) {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < 50; ++i) f();
    const std::chrono::duration<double, std::micro> time =
        std::chrono::steady_clock::now() - start;
    best = std::min(best, time.count() / 50);
  }
  std::printf("random/%s|%.0f|M/s\n", name, static_cast<double>(count) / best);
}

int Main() {
  constexpr int64_t kCount = 50'000;
  std::vector<uint32_t> bits(kCount);
  std::vector<float> floats(kCount);
  std::vector<double> doubles(kCount);
  const RandomStream stream{1, 2};
  Print("bits", kCount, [&] { FillUniformBits(stream, 0, bits.data(), kCount); });
  Print("uniform_f32", kCount, [&] { FillUniform(stream, 0, floats.data(), kCount); });
  Print("uniform_f64", kCount, [&] { FillUniform(stream, 0, doubles.data(), kCount); });
  Print("normal_f32", kCount, [&] { FillNormal(stream, 0, floats.data(), kCount); });
  Print("normal_f64", kCount, [&] { FillNormal(stream, 0, doubles.data(), kCount); });
  const auto each = [&](const char* name, const auto& sample) {
    Print(name, kCount / 10, [&] {
      for (int64_t i = 0; i < kCount / 10; ++i) {
        ElementRandom random(stream, i);
        doubles[i] = static_cast<double>(sample(random));
      }
    });
  };
  each("integer", [](ElementRandom& r) { return NextInteger(r, 0, 1000); });
  each("exponential", [](ElementRandom& r) { return NextExponential(r, 1); });
  each("gamma", [](ElementRandom& r) { return NextGamma(r, 2, 1); });
  each("poisson_4", [](ElementRandom& r) { return NextPoisson(r, 4); });
  each("poisson_100", [](ElementRandom& r) { return NextPoisson(r, 100); });
  return 0;
}

}  // namespace
}  // namespace plait::cpu

int main() {
  return plait::cpu::Main();
}
