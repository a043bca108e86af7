// Our own Winograd against oneDNN's: `winograd_bench [threads] [part of a layer's
// name]`.
//
// Both in blocked layouts, so without reorders. Prints for each layer and pass the
// shortest times in ms: ours with the filters kept, ours with them transformed in each
// call, oneDNN's Winograd, oneDNN's direct kernel.

#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "base/parallel.h"
#include "cpu/conv.h"
#include "cpu/onednn/conv.h"
#include "cpu/scratch.h"
#include "cpu/winograd.h"

namespace plait::cpu {
namespace {

struct Layer {
  int64_t channels, size, batch;
};

using Call = std::function<void()>;

// Wall time, or with one thread the processor's, which neighbours disturb less.
double Now() {
  timespec t;
  clock_gettime(ComputeThreads() > 1 ? CLOCK_MONOTONIC : CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) * 1e3 + static_cast<double>(t.tv_nsec) * 1e-6;
}

// The shortest time of each call in ms. The calls take turns, so that a neighbour's
// work disturbs all of them alike.
std::vector<double> Shortest(const std::vector<Call>& calls) {
  std::vector<double> best(calls.size(), 0);
  for (const Call& call : calls) {
    if (call) call();
  }
  const double begin = Now();
  for (int i = 0; i < 4 || Now() - begin < 300; ++i) {
    for (size_t k = 0; k < calls.size(); ++k) {
      if (!calls[k]) continue;
      // The second of two calls finds its own data in the caches.
      calls[k]();
      const double start = Now();
      calls[k]();
      const double t = Now() - start;
      best[k] = best[k] == 0 ? t : std::min(best[k], t);
    }
  }
  return best;
}

// oneDNN's call in its own layouts, or nothing.
Call OneDnn(const ConvProblem& p, ConvPass pass, ConvAlgorithm algorithm, float* x,
            float* weight, float* bias, float* y) {
  const DType f32 = DType::kFloat32;
  if (!onednn::HasConv(p, f32, pass, algorithm)) return nullptr;
  const auto layouts = onednn::PreferredLayouts(p, f32, pass, algorithm);
  return [=] {
    switch (pass) {
      case ConvPass::kForward:
        return onednn::ConvForward(p, f32, algorithm, layouts, x, weight, bias, false,
                                   y);
      case ConvPass::kBackwardData:
        return onednn::ConvBackwardData(p, f32, algorithm, layouts, y, weight, x);
      case ConvPass::kBackwardWeight:
        return onednn::ConvBackwardWeight(p, f32, algorithm, layouts, x, y, weight,
                                          bias);
    }
  };
}

// Aligned as the arrays of graphs are.
class Numbers {
 public:
  Numbers(size_t n, float range) : scratch_(n * sizeof(float)) {
    for (size_t i = 0; i < n; ++i) {
      data()[i] = (static_cast<float>(i * 7 % 201) / 201 - 0.5f) * range;
    }
  }
  float* data() const { return scratch_.As<float>(); }

 private:
  Scratch scratch_;
};

void Bench(const Layer& l, const std::string& name) {
  const int64_t x_shape[] = {l.batch, l.channels, l.size, l.size};
  const int64_t kernel[] = {3, 3}, ones[] = {1, 1};
  const ConvProblem p =
      MakeConvProblem(x_shape, l.channels, 1, kernel, ones, ones, ones);
  const size_t n = static_cast<size_t>(l.batch * l.channels * l.size * l.size);
  const size_t filters = static_cast<size_t>(l.channels * l.channels);
  const Numbers x(n, 2), y(n, 2), bias(static_cast<size_t>(l.channels), 1);
  // oneDNN's filters may take more room than plain ones.
  const Numbers w(filters * 36, 0.1f);
  const char* const kNames[] = {"forward", "data", "weight"};
  for (const ConvPass pass :
       {ConvPass::kForward, ConvPass::kBackwardData, ConvPass::kBackwardWeight}) {
    const bool weight = pass == ConvPass::kBackwardWeight;
    const Numbers u(weight ? 0 : WinogradFilterBytes(p, pass) / sizeof(float), 0);
    if (!weight) WinogradFilters(p, pass, w.data(), u.data());
    const auto ours = [&](const float* kept) -> Call {
      return [&, kept] {
        if (pass == ConvPass::kForward) {
          WinogradForward<float>(p, x.data(), w.data(), kept, bias.data(), nullptr,
                                 false, y.data());
        } else if (weight) {
          WinogradBackwardWeight<float>(p, x.data(), y.data(), w.data(), bias.data());
        } else {
          WinogradBackwardData<float>(p, y.data(), w.data(), kept, x.data());
        }
      };
    };
    const auto t = Shortest({weight ? nullptr : ours(u.data()), ours(nullptr),
                             OneDnn(p, pass, ConvAlgorithm::kWinograd, x.data(),
                                    w.data(), bias.data(), y.data()),
                             OneDnn(p, pass, ConvAlgorithm::kDirect, x.data(), w.data(),
                                    bias.data(), y.data())});
    std::printf("%s|%s|%.3f|%.3f|%.3f|%.3f\n", name.c_str(),
                kNames[static_cast<int>(pass)], t[0], t[1], t[2], t[3]);
    std::fflush(stdout);
  }
}

void Run(int threads, const std::string& wanted) {
  const ScopedComputeThreads scope(threads);
  std::printf("layer|pass|kept|own|oneDNN Winograd|oneDNN direct\n");
  const Layer kLayers[] = {{64, 224, 1},  {64, 112, 1}, {128, 112, 1}, {128, 56, 1},
                           {256, 56, 1},  {256, 28, 1}, {512, 28, 1},  {512, 14, 1},
                           {64, 56, 1},   {128, 28, 1}, {256, 14, 1},  {512, 7, 1},
                           {64, 56, 8},   {64, 224, 4}, {128, 56, 16}, {256, 28, 16},
                           {512, 14, 16}, {64, 56, 16}, {128, 28, 16}, {256, 14, 16},
                           {512, 7, 16}};
  for (const Layer& l : kLayers) {
    const std::string name = std::to_string(l.channels) + "@" + std::to_string(l.size) +
                             " n" + std::to_string(l.batch);
    if (name.find(wanted) != name.npos) Bench(l, name);
  }
}

}  // namespace
}  // namespace plait::cpu

int main(int argc, char** argv) {
  plait::cpu::Run(
      argc > 1 ? std::max(1, std::atoi(argv[1])) : plait::AvailableThreads(),
      argc > 2 ? argv[2] : "");
}
