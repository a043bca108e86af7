// Convolution, forward and backward, of 1 to 3 spatial axes on plain NC(D)HW buffers.
//
// Thread safety: any thread; ComputeThreads() threads are used above a size. Arguments
// are not checked: the operators do that. Errors: kMemory for lack of scratch.

#ifndef PLAIT_CPU_CONV_H_
#define PLAIT_CPU_CONV_H_

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace plait::cpu {

// Spatial arrays are in the order depth, height, width; a convolution of fewer axes
// uses the last ones and leaves the others as they are here.
//
// Invariants: groups divides both numbers of channels; Out() > 0 on each axis, unless
// the batch is empty. The filter is not flipped (cross-correlation).
struct ConvProblem {
  int64_t rank = 2;  // spatial axes
  int64_t batch = 0, in_channels = 0, out_channels = 0, groups = 1;
  std::array<int64_t, 3> in = {1, 1, 1}, kernel = {1, 1, 1}, stride = {1, 1, 1},
                         dilation = {1, 1, 1}, pad_low = {0, 0, 0},
                         pad_high = {0, 0, 0};

  int64_t Out(int axis) const {
    return (in[axis] + pad_low[axis] + pad_high[axis] -
            dilation[axis] * (kernel[axis] - 1) - 1) /
               stride[axis] +
           1;
  }
  int64_t InSize() const { return in[0] * in[1] * in[2]; }
  int64_t OutSize() const { return Out(0) * Out(1) * Out(2); }
  int64_t KernelSize() const { return kernel[0] * kernel[1] * kernel[2]; }
  // Elements of the weight.
  int64_t WeightSize() const {
    return out_channels * (in_channels / groups) * KernelSize();
  }
  // Multiplications of one pass.
  double Work() const;
  bool operator==(const ConvProblem&) const = default;
};

// From the shape of x (batch, channels, spatial...) and one value a spatial axis.
ConvProblem MakeConvProblem(std::span<const int64_t> x, int64_t out_channels,
                            int64_t groups, std::span<const int64_t> kernel,
                            std::span<const int64_t> stride,
                            std::span<const int64_t> dilation,
                            std::span<const int64_t> pad);

enum class ConvAlgorithm : uint8_t {
  kAuto,      // what PLAIT_CONV asks for; kByRules by default
  kDirect,    // oneDNN, blocked layouts
  kWinograd,  // F(4, 3) of winograd.h: 3 x 3, stride 1, float; a little less exact
  kGemm,      // our own kernel
  kMeasured,  // the fastest on this machine (cpu/conv_memory.h); float only
  kByRules,   // the fastest by rules that were measured
};

// What PLAIT_CONV asks for instead of kAuto. Throws kValue for other words.
ConvAlgorithm AskedConv();

// What a pass will run: the choice of kAuto, and kGemm where the asked one is not
// available (build, processor, dtype or shape). kGemm of a half type goes by way of
// float, and the algorithm is chosen again there.
enum class ConvPass : uint8_t { kForward, kBackwardData, kBackwardWeight };
template <typename T>
ConvAlgorithm ChooseConv(const ConvProblem& p, ConvPass pass,
                         ConvAlgorithm asked = ConvAlgorithm::kAuto);

// The ways that a pass of float can run; the one of the rules is the first.
std::vector<ConvAlgorithm> ConvWays(const ConvProblem& p, ConvPass pass);

// T: float, double, Float16, Bfloat16. Halves add up in float.
//
// x (batch, in_channels, in...), weight (out_channels, in_channels / groups,
// kernel...), bias (out_channels) or nullptr, y (batch, out_channels, out...).
template <typename T>
void ConvForward(const ConvProblem& p, const T* x, const T* weight, const T* bias,
                 bool relu, T* y, ConvAlgorithm algorithm = ConvAlgorithm::kAuto);

// dx = the gradient of sum(y * dy) by x. Overwrites dx.
template <typename T>
void ConvBackwardData(const ConvProblem& p, const T* dy, const T* weight, T* dx,
                      ConvAlgorithm algorithm = ConvAlgorithm::kAuto);

// The same by weight, and by bias unless dbias is nullptr. Overwrites both.
template <typename T>
void ConvBackwardWeight(const ConvProblem& p, const T* x, const T* dy, T* dweight,
                        T* dbias, ConvAlgorithm algorithm = ConvAlgorithm::kAuto);

}  // namespace plait::cpu

#endif  // PLAIT_CPU_CONV_H_
