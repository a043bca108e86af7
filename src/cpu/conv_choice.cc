// Which kernel is the fastest for a convolution.

#include <type_traits>

#include "base/dtype.h"
#include "cpu/conv.h"
#ifdef PLAIT_USE_ONEDNN
#include "cpu/onednn/conv.h"
#endif

namespace plait::cpu {

#ifdef PLAIT_USE_ONEDNN
namespace {

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

// F(4, 3) multiplies half as often, but transforms filters and images; few pixels do
// not pay for the filters, few channels not for the images.
bool WinogradWins(const ConvProblem& p) {
  const Layer layer(p);
  return p.rank == 2 && p.groups == 1 && p.kernel[1] == 3 && p.kernel[2] == 3 &&
         !layer.strided && layer.in >= 32 && layer.out >= 32 && layer.pixels >= 1000 &&
         layer.waste <= 1.5;
}

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

// The gradients of very many filters take more memory than they save time: 36 numbers
// for each filter and each thread, twice.
bool WinogradIsSmall(const ConvProblem& p, ConvPass pass) {
  constexpr int64_t kMostFilters = 1 << 17;
  return pass != ConvPass::kBackwardWeight ||
         p.in_channels * p.out_channels <= kMostFilters;
}

template <typename T>
bool Wins(ConvAlgorithm algorithm, const ConvProblem& p, ConvPass pass) {
  if (algorithm == ConvAlgorithm::kWinograd) {
    return !std::is_same_v<T, Bfloat16> && WinogradWins(p) && WinogradIsSmall(p, pass);
  }
  return std::is_same_v<T, Bfloat16> ? Bfloat16DirectWins(p, pass)
                                     : DirectWins(p, pass);
}
}  // namespace
#endif

template <typename T>
ConvAlgorithm ChooseConv(const ConvProblem& p, ConvPass pass, ConvAlgorithm asked) {
#ifdef PLAIT_USE_ONEDNN
  if constexpr (!std::is_same_v<T, double>) {
    if (asked == ConvAlgorithm::kGemm || p.Work() == 0) return ConvAlgorithm::kGemm;
    if (asked != ConvAlgorithm::kAuto) {
      return onednn::HasConv(p, DirectDType<T>(), pass, asked) ? asked
                                                               : ConvAlgorithm::kGemm;
    }
    for (const ConvAlgorithm algorithm :
         {ConvAlgorithm::kWinograd, ConvAlgorithm::kDirect}) {
      if (Wins<T>(algorithm, p, pass) &&
          onednn::HasConv(p, DirectDType<T>(), pass, algorithm)) {
        return algorithm;
      }
    }
  }
#endif
  (void)p;
  (void)pass;
  (void)asked;
  return ConvAlgorithm::kGemm;
}

template ConvAlgorithm ChooseConv<float>(const ConvProblem&, ConvPass, ConvAlgorithm);
template ConvAlgorithm ChooseConv<double>(const ConvProblem&, ConvPass, ConvAlgorithm);
template ConvAlgorithm ChooseConv<Float16>(const ConvProblem&, ConvPass, ConvAlgorithm);
template ConvAlgorithm ChooseConv<Bfloat16>(const ConvProblem&, ConvPass,
                                            ConvAlgorithm);

}  // namespace plait::cpu
