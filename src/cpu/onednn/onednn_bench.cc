// Speed of the heavy operators' functions: `onednn_bench [threads] [part of a name]`.
//
// Prints name|value|unit. Without an argument all cores are used.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "base/parallel.h"
#include "cpu/conv.h"
#include "cpu/gemm.h"
#include "cpu/norm.h"
#include "cpu/onednn/conv.h"
#include "cpu/pool.h"
#include "cpu/softmax.h"

namespace plait::cpu {
namespace {

std::string wanted;

template <typename T>
std::vector<T> Numbers(int64_t n) {
  std::vector<T> x(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) x[i] = T(static_cast<float>(i * 7 % 201 - 100) / 100);
  return x;
}

// The shortest time of a call in seconds, over at least 5 calls and 50 ms.
template <typename F>
double Seconds(F&& f) {
  using Clock = std::chrono::steady_clock;
  const auto since = [](Clock::time_point t) {
    return std::chrono::duration<double>(Clock::now() - t).count();
  };
  f();
  auto start = Clock::now();
  f();
  // Short calls are timed in batches.
  const int batch =
      std::clamp(static_cast<int>(1e-4 / (since(start) + 1e-9)), 1, 10000);
  double best = 1e9;
  const auto begin = Clock::now();
  for (int i = 0; i < 5 || since(begin) < 0.05; ++i) {
    start = Clock::now();
    for (int k = 0; k < batch; ++k) f();
    best = std::min(best, since(start) / batch);
  }
  return best;
}

bool Wanted(const std::string& name) {
  return name.find(wanted) != name.npos;
}

void Print(const std::string& name, double value, const char* unit) {
  std::printf("%s|%.4g|%s\n", name.c_str(), value, unit);
  std::fflush(stdout);
}

template <typename F>
void Time(const std::string& name, double flops, F&& f) {
  if (!Wanted(name)) return;
  const double t = Seconds(f);
  Print(name, t * 1e6, "us");
  if (flops > 0) Print(name, flops / t * 1e-9, "GFLOP/s");
}

template <typename T>
void Products() {
  const std::string dtype(Name(kDTypeOf<T>));
  const int64_t kSizes[][5] = {{0, 0, 4, 4, 4},       {0, 0, 16, 16, 16},
                               {0, 0, 32, 32, 32},    {0, 0, 64, 64, 64},
                               {0, 0, 128, 128, 128}, {0, 0, 512, 512, 512},
                               {0, 1, 1, 128, 784},   {0, 1, 32, 128, 784},
                               {0, 1, 128, 500, 800}, {1, 0, 500, 800, 128}};
  for (const auto& [ta, tb, m, n, k] : kSizes) {
    const auto a = Numbers<T>(m * k), b = Numbers<T>(k * n);
    std::vector<T> c(static_cast<size_t>(m * n));
    const std::string name = "gemm " + dtype + " " + std::to_string(m) + "x" +
                             std::to_string(n) + "x" + std::to_string(k) +
                             (ta ? " T" : " N") + (tb ? "T" : "N");
    Time(name, 2.0 * static_cast<double>(m * n * k), [&] {
      Gemm<T>(ta != 0, tb != 0, m, n, k, 1, a.data(), ta ? m : k, b.data(), tb ? k : n,
              0, c.data(), n);
    });
  }
}

struct Layer {
  const char* name;
  int64_t batch, in, size, out, kernel, stride, pad, groups;
};
constexpr Layer kLayers[] = {
    {"lenet 1", 128, 1, 28, 20, 5, 1, 0, 1},
    {"lenet 2", 128, 20, 12, 50, 5, 1, 0, 1},
    {"resnet stem", 8, 3, 224, 64, 7, 2, 3, 1},
    {"resnet 64 3x3", 8, 64, 56, 64, 3, 1, 1, 1},
    {"resnet 256 3x3", 8, 256, 14, 256, 3, 1, 1, 1},
    {"resnet 64 1x1", 8, 64, 56, 256, 1, 1, 0, 1},
    {"resnet 128 3x3 /2", 8, 128, 56, 128, 3, 2, 1, 1},
    {"depthwise 64", 8, 64, 56, 64, 3, 1, 1, 64},
};

template <typename T>
void Convolutions() {
  constexpr const char* kNames[] = {"auto", "direct", "winograd", "gemm"};
  for (const Layer& l : kLayers) {
    const int64_t x_shape[] = {l.batch, l.in, l.size, l.size};
    const int64_t kernel[] = {l.kernel, l.kernel}, stride[] = {l.stride, l.stride};
    const int64_t dilation[] = {1, 1}, pad[] = {l.pad, l.pad};
    const ConvProblem p =
        MakeConvProblem(x_shape, l.out, l.groups, kernel, stride, dilation, pad);
    const auto x = Numbers<T>(p.batch * p.in_channels * p.InSize());
    const auto w = Numbers<T>(l.out * l.in / l.groups * p.KernelSize());
    const auto bias = Numbers<T>(l.out);
    const auto dy = Numbers<T>(p.batch * p.out_channels * p.OutSize());
    std::vector<T> y = dy, dx = x, dw = w, db = bias;
    for (int a = 0; a < 4; ++a) {
      const auto algorithm = static_cast<ConvAlgorithm>(a);
      const auto run = [&](ConvPass pass, const char* what, auto&& f) {
        if (a != 0 && ChooseConv<T>(p, pass, algorithm) != algorithm) return;
        Time("conv " + std::string(Name(kDTypeOf<T>)) + " " + l.name + " " + what +
                 " " + kNames[a],
             2 * p.Work(), f);
      };
      run(ConvPass::kForward, "forward", [&] {
        ConvForward<T>(p, x.data(), w.data(), bias.data(), false, y.data(), algorithm);
      });
      run(ConvPass::kBackwardData, "data",
          [&] { ConvBackwardData<T>(p, dy.data(), w.data(), dx.data(), algorithm); });
      run(ConvPass::kBackwardWeight, "weight", [&] {
        ConvBackwardWeight<T>(p, x.data(), dy.data(), dw.data(), db.data(), algorithm);
      });
    }
  }
}

// What a call costs besides its work: a convolution of next to no work, in the layouts
// that oneDNN prefers.
void Overhead() {
  const int64_t x_shape[] = {1, 16, 3, 3}, kernel[] = {3, 3}, ones[] = {1, 1},
                zeros[] = {0, 0};
  const ConvProblem p = MakeConvProblem(x_shape, 16, 1, kernel, ones, ones, zeros);
  const DType f32 = DType::kFloat32;
  if (!onednn::HasConv(p, f32, ConvPass::kForward, ConvAlgorithm::kDirect)) return;
  const auto layouts =
      onednn::PreferredLayouts(p, f32, ConvPass::kForward, ConvAlgorithm::kDirect);
  const onednn::ConvDims dims(p);
  const auto x = Numbers<float>(onednn::LayoutBytes(layouts.x, dims.X(), f32) / 4);
  const auto w =
      Numbers<float>(onednn::LayoutBytes(layouts.weight, dims.Weight(), f32) / 4);
  auto y = Numbers<float>(onednn::LayoutBytes(layouts.y, dims.Y(), f32) / 4);
  Time("conv call in preferred layouts", 0, [&] {
    onednn::ConvForward(p, f32, ConvAlgorithm::kDirect, layouts, x.data(), w.data(),
                        nullptr, false, y.data());
  });
  Time("conv call with three reorders", 0, [&] {
    onednn::ConvForward(p, f32, ConvAlgorithm::kDirect, {}, x.data(), w.data(), nullptr,
                        false, y.data());
  });
}

void Pools() {
  const struct {
    const char* name;
    PoolPlanes p;
  } kPools[] = {{"2x2 on 24, lenet", {128 * 20, 24, 24, 12, 12, 2, 2, 2, 2, 0, 0}},
                {"2x2 on 8, lenet", {128 * 50, 8, 8, 4, 4, 2, 2, 2, 2, 0, 0}},
                {"3x3 /2 on 112", {8 * 64, 112, 112, 56, 56, 3, 3, 2, 2, 1, 1}}};
  for (const auto& [name, p] : kPools) {
    const auto x = Numbers<float>(p.planes * p.h * p.w);
    const auto dy = Numbers<float>(p.planes * p.out_h * p.out_w);
    auto y = dy, dx = x;
    Time(std::string("max pool ") + name + " forward", 0,
         [&, &q = p] { MaxPool(q, x.data(), y.data()); });
    Time(std::string("max pool ") + name + " backward", 0,
         [&, &q = p] { MaxPoolBackward(q, dy.data(), x.data(), dx.data()); });
  }
}

void Norms() {
  const int64_t kShapes[][3] = {{32, 64, 56 * 56}, {32, 256, 14 * 14}, {128, 500, 1}};
  for (const auto& [batch, channels, size] : kShapes) {
    const NormGroups n{channels, batch, channels * size, size, channels};
    const auto x = Numbers<float>(batch * channels * size), dy = x;
    const auto gamma = Numbers<float>(channels);
    const std::vector<float> inverse(gamma.size(), 1.0f);
    auto y = x, mean = gamma, var = gamma, dgamma = gamma, dbeta = gamma;
    const std::string name = "batch norm " + std::to_string(batch) + "x" +
                             std::to_string(channels) + "x" + std::to_string(size);
    Time(name + " forward", 0, [&] {
      NormForward<float>(n, 1e-3, x.data(), gamma.data(), gamma.data(), mean.data(),
                         var.data(), y.data());
    });
    Time(name + " backward", 0, [&] {
      NormBackward<float>(n, dy.data(), x.data(), gamma.data(), mean.data(),
                          inverse.data(), y.data(), dgamma.data(), dbeta.data());
    });
  }
  const int64_t rows = 512, n = 768;
  const auto x = Numbers<float>(rows * n), gamma = Numbers<float>(n);
  auto y = x, mean = x, inverse = x, dgamma = gamma, dbeta = gamma;
  Time("layer norm 512x768 forward", 0, [&] {
    LayerNormForward<float>(rows, n, 1e-5, x.data(), gamma.data(), gamma.data(),
                            mean.data(), inverse.data(), y.data());
  });
  Time("layer norm 512x768 backward", 0, [&] {
    LayerNormBackward<float>(rows, n, x.data(), x.data(), gamma.data(), mean.data(),
                             inverse.data(), y.data(), dgamma.data(), dbeta.data());
  });
}

void Softmaxes() {
  const SoftmaxSlices kShapes[] = {{4096, 1000, 1, 1, false},
                                   {4096, 1000, 1, 1, true},
                                   {128, 10, 1, 1, true},
                                   {12288, 128, 1, 1, false},
                                   {32, 21, 4096, 1, false}};
  for (const SoftmaxSlices& s : kShapes) {
    const auto x = Numbers<float>(s.outer * s.n * s.inner);
    auto y = x, dx = x;
    const std::string name = std::string(s.log ? "log " : "") + "softmax " +
                             std::to_string(s.outer) + "x" + std::to_string(s.n) + "x" +
                             std::to_string(s.inner);
    Time(name + " forward", 0, [&] { SoftmaxForward(s, x.data(), y.data()); });
    Time(name + " backward", 0,
         [&] { SoftmaxBackward(s, y.data(), x.data(), dx.data()); });
  }
}

void Run(int threads) {
  const ScopedComputeThreads scope(threads);
  Print("threads", threads, "");
  Products<float>();
  Products<double>();
  Products<Bfloat16>();
  Convolutions<float>();
  Convolutions<Bfloat16>();
  Overhead();
  Pools();
  Norms();
  Softmaxes();
}

}  // namespace
}  // namespace plait::cpu

int main(int argc, char** argv) {
  if (argc > 2) plait::cpu::wanted = argv[2];
  plait::cpu::Run(argc > 1 ? std::max(1, std::atoi(argv[1]))
                           : plait::AvailableThreads());
}
