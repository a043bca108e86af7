// Which kernel is the fastest for a convolution.

#include <algorithm>
#include <span>
#include <type_traits>
#include <vector>

#include "base/dtype.h"
#include "base/error.h"
#include "base/options.h"
#include "cpu/conv.h"
#include "cpu/conv_memory.h"
#include "cpu/scratch.h"
#include "cpu/winograd.h"
#ifdef PLAIT_USE_ONEDNN
#include "cpu/onednn/conv.h"
#endif

namespace plait::cpu {

namespace {

// Winograd's transforms want channels that fill the blocks and more than a few tiles,
// those of filters and of their gradients most of all.
bool WinogradWins(const ConvProblem& p, ConvPass pass) {
  const int64_t block = FloatLanes(), h = p.Out(1), w = p.Out(2);
  const auto blocks = [=](int64_t n) { return (n + block - 1) / block * block; };
  const double waste =
      static_cast<double>(blocks(p.in_channels) * blocks(p.out_channels)) /
      static_cast<double>(p.in_channels * p.out_channels);
  const int64_t tiles = p.batch * ((h + 3) / 4) * ((w + 3) / 4);
  return p.in_channels >= 12 && p.out_channels >= 12 && waste <= 2.5 &&
         std::min(h, w) >= 4 && tiles >= (pass == ConvPass::kBackwardWeight ? 8 : 4);
}

template <typename T>
bool ChoosesWinograd(const ConvProblem& p, ConvPass pass, ConvAlgorithm asked) {
  if (std::is_same_v<T, Bfloat16> || !HasWinograd(p)) return false;
  return asked == ConvAlgorithm::kWinograd ||
         (asked == ConvAlgorithm::kAuto && WinogradWins(p, pass));
}

#ifdef PLAIT_USE_ONEDNN
template <typename T>
constexpr DType DirectDType() {
  return std::is_same_v<T, Bfloat16> ? DType::kBfloat16 : DType::kFloat32;
}

// Measured on one core of a Zen 5 (AVX-512) with reorders from and to plain buffers,
// over the layers of LeNet, ResNet, VGG, AlexNet and MobileNet;
// docs/design/cpu-onednn.md has the figures. A layer is described by what oneDNN's
// blocks of 16 channels make of it.
struct Layer {
  explicit Layer(const ConvProblem& p)
      : in(p.in_channels / p.groups),
        out(p.out_channels / p.groups),
        pixels(p.batch * p.OutSize()) {
    const auto blocks = [](int64_t n) { return (n + 15) / 16 * 16; };
    waste =
        static_cast<double>(blocks(in) * blocks(out)) / static_cast<double>(in * out);
    for (int i = 0; i < 3; ++i) {
      pointwise = pointwise && p.kernel[i] == 1 && p.stride[i] == 1;
      strided = strided || p.stride[i] > 1;
    }
    depthwise = in == 1 && out == 1 && p.groups >= 8;
  }
  int64_t in, out, pixels;
  double waste;
  bool pointwise = true, strided = false, depthwise;
};

// Our own kernel needs no reorder and wastes nothing on odd channels; oneDNN's is a
// tenth faster where both do not matter, and has better ways for strides.
bool DirectWins(const ConvProblem& p, ConvPass pass) {
  const Layer layer(p);
  if (layer.depthwise) return true;
  if (layer.pointwise) return false;
  const bool image = layer.in <= 4 && layer.out % 16 == 0;
  switch (pass) {
    case ConvPass::kForward:
      return (layer.in >= 32 && layer.waste <= 1.1) ||
             (image && layer.strided && p.KernelSize() >= 25);
    case ConvPass::kBackwardData:
      return layer.in >= 16 && layer.waste <= 1.1;
    case ConvPass::kBackwardWeight:
      return image || (layer.in >= 16 && layer.waste <= 1.1 && layer.pixels >= 1000);
  }
  return false;
}

// Half the memory and AVX-512's products of bfloat16: our own way is by float.
bool Bfloat16DirectWins(const ConvProblem& p, ConvPass pass) {
  const Layer layer(p);
  if (HasWinograd(p) && WinogradWins(p, pass)) return false;
  switch (pass) {
    case ConvPass::kForward:
      return layer.in > 4 || layer.strided || layer.depthwise;
    case ConvPass::kBackwardData:
      return layer.in >= 8 || layer.depthwise;
    case ConvPass::kBackwardWeight:
      return layer.depthwise || (!layer.pointwise && layer.waste <= 1.5) ||
             layer.in <= 4;
  }
  return false;
}

template <typename T>
bool ChoosesDirect(const ConvProblem& p, ConvPass pass, ConvAlgorithm asked) {
  const bool wanted = asked == ConvAlgorithm::kDirect ||
                      (asked == ConvAlgorithm::kAuto &&
                       (std::is_same_v<T, Bfloat16> ? Bfloat16DirectWins(p, pass)
                                                    : DirectWins(p, pass)));
  return wanted && onednn::HasConv(p, DirectDType<T>(), pass, ConvAlgorithm::kDirect);
}
#endif

}  // namespace

ConvAlgorithm AskedConv() {
  static const ConvAlgorithm asked = [] {
    const std::string& word = GetOption(Option::kConv);
    if (word == "auto") return ConvAlgorithm::kAuto;
    if (word == "direct") return ConvAlgorithm::kDirect;
    if (word == "winograd") return ConvAlgorithm::kWinograd;
    if (word == "measure" || word.starts_with("measure:"))
      return ConvAlgorithm::kMeasured;
    Check(word == "gemm", "PLAIT_CONV is ", word,
          "; auto, direct, winograd, gemm, measure or measure:FILE was expected");
    return ConvAlgorithm::kGemm;
  }();
  return asked;
}

namespace {

// The way that is the fastest here, on arrays of its own.
size_t Measure(const ConvProblem& whole, ConvPass pass,
               std::span<const ConvAlgorithm> ways) {
  ConvProblem p = whole;
  p.batch = MeasuredBatch(p);
  const int64_t x_size = p.batch * p.in_channels * p.InSize(),
                y_size = p.batch * p.out_channels * p.OutSize(),
                w_size = p.WeightSize();
  const Scratch x(Scratch::Bytes<float>(x_size)), y(Scratch::Bytes<float>(y_size)),
      w(Scratch::Bytes<float>(w_size));
  std::fill_n(x.As<float>(), x_size, 0.5f);
  std::fill_n(y.As<float>(), y_size, 0.5f);
  std::fill_n(w.As<float>(), w_size, 0.5f);
  float *xs = x.As<float>(), *ys = y.As<float>(), *ws = w.As<float>();
  return Fastest(ways.size(), [&](size_t i) {
    switch (pass) {
      case ConvPass::kForward:
        return ConvForward<float>(p, xs, ws, nullptr, false, ys, ways[i]);
      case ConvPass::kBackwardData:
        return ConvBackwardData<float>(p, ys, ws, xs, ways[i]);
      case ConvPass::kBackwardWeight:
        return ConvBackwardWeight<float>(p, xs, ys, ws, nullptr, ways[i]);
    }
  });
}

ConvAlgorithm MeasuredChoice(const ConvProblem& p, ConvPass pass) {
  const std::vector<ConvAlgorithm> ways = ConvWays(p, pass);
  if (ways.size() == 1) return ways[0];
  static constexpr const char* kNames[] = {"auto", "direct", "winograd", "gemm"};
  std::vector<const char*> names;
  for (ConvAlgorithm way : ways) names.push_back(kNames[static_cast<int>(way)]);
  return ways[Remembered(p, pass, "plain", names,
                         [&] { return Measure(p, pass, ways); })];
}

}  // namespace

std::vector<ConvAlgorithm> ConvWays(const ConvProblem& p, ConvPass pass) {
  std::vector<ConvAlgorithm> ways = {
      ChooseConv<float>(p, pass, ConvAlgorithm::kByRules)};
  for (ConvAlgorithm way :
       {ConvAlgorithm::kDirect, ConvAlgorithm::kWinograd, ConvAlgorithm::kGemm}) {
    if (ways[0] != way && ChooseConv<float>(p, pass, way) == way) ways.push_back(way);
  }
  return ways;
}

template <typename T>
ConvAlgorithm ChooseConv(const ConvProblem& p, ConvPass pass, ConvAlgorithm asked) {
  if (asked == ConvAlgorithm::kAuto) asked = AskedConv();
  if (asked == ConvAlgorithm::kMeasured && std::is_same_v<T, float> && p.Work() > 0)
    return MeasuredChoice(p, pass);
  // Of here on kAuto means the rules.
  if (asked == ConvAlgorithm::kMeasured || asked == ConvAlgorithm::kByRules)
    asked = ConvAlgorithm::kAuto;
  if (p.Work() == 0) return ConvAlgorithm::kGemm;
  if (ChoosesWinograd<T>(p, pass, asked)) return ConvAlgorithm::kWinograd;
#ifdef PLAIT_USE_ONEDNN
  if constexpr (!std::is_same_v<T, double>) {
    if (ChoosesDirect<T>(p, pass, asked)) return ConvAlgorithm::kDirect;
  }
#endif
  return ConvAlgorithm::kGemm;
}

template ConvAlgorithm ChooseConv<float>(const ConvProblem&, ConvPass, ConvAlgorithm);
template ConvAlgorithm ChooseConv<double>(const ConvProblem&, ConvPass, ConvAlgorithm);
template ConvAlgorithm ChooseConv<Float16>(const ConvProblem&, ConvPass, ConvAlgorithm);
template ConvAlgorithm ChooseConv<Bfloat16>(const ConvProblem&, ConvPass,
                                            ConvAlgorithm);

}  // namespace plait::cpu
