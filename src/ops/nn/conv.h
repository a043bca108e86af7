// What convolution and its relatives share: parameters, geometry, the three products.
//
// A convolution is linear in its data x and in its weight w. Its two gradients and
// deconvolution are sums over the same terms dy[..] * x[..] * w[..], so that three
// operators, each the gradient of the others, give derivatives of any order:
//   y = Forward(x, w),  x = Data(y, w),  w = Weight(y, x).

#ifndef PLAIT_OPS_NN_CONV_H_
#define PLAIT_OPS_NN_CONV_H_

#include <array>

#include "cpu/conv.h"
#include "graph/op.h"

namespace plait {

enum class CudnnTune { kNone, kFastest, kLimitedWorkspace, kOff };
enum class ConvLayout { kNone, kNcdhw, kNchw, kNcw, kNdhwc, kNhwc, kNwc };

struct ConvParams {
  Shape kernel;
  Shape stride, dilate, pad;  // empty: 1, 1, 0 along every axis
  int64_t num_filter = 0;
  int64_t num_group = 1;
  int64_t workspace = 1024;
  bool no_bias = false;
  CudnnTune cudnn_tune = CudnnTune::kNone;
  bool cudnn_off = false;
  ConvLayout layout = ConvLayout::kNone;
  Shape adj, target_shape;  // of deconvolution
  Shape result;             // of the gradients' operators: the shape they give

  bool channels_last() const { return layout >= ConvLayout::kNdhwc; }
  // Axes of x, y and the weight: of the channels, and the first one in space.
  int channel_axis() const { return channels_last() ? kernel.rank() + 1 : 1; }
  int space_axis() const { return channels_last() ? 1 : 2; }
};

// With fewer than three axes in space, the first ones have size 1.
struct ConvGeometry {
  using Triple = std::array<int64_t, 3>;
  int64_t batch = 0, groups = 1;
  int64_t in_channels = 0, out_channels = 0;  // in all groups together
  Triple in{1, 1, 1}, out{1, 1, 1}, kernel{1, 1, 1};
  Triple stride{1, 1, 1}, dilate{1, 1, 1}, pad{0, 0, 0};
  int rank = 0;  // of the space, as the user sees it

  int64_t in_size() const { return in[0] * in[1] * in[2]; }
  int64_t out_size() const { return out[0] * out[1] * out[2]; }
  int64_t kernel_size() const { return kernel[0] * kernel[1] * kernel[2]; }
  double flops() const {
    return 2.0 * static_cast<double>(batch) * out_channels * out_size() *
           (in_channels / groups) * kernel_size();
  }
};

// Checks the parameters that need no shapes; `op` names the operator in errors.
void CheckConvParams(const ConvParams& p, const char* op);
// One entry of stride, dilate or pad.
inline int64_t ConvEntry(const Shape& s, int axis, int64_t otherwise) {
  return s.rank() > 0 ? s[axis] : otherwise;
}
// REQUIRES: x is the data of a convolution and y its result, both known.
ConvGeometry MakeConvGeometry(const ConvParams& p, const Shape& x, const Shape& y);
// The gradient of the bias: the sum of dy over all axes but the channels.
Value SumOfChannels(const ConvParams& p, const Value& dy);

// The rows of parameters that convolution and deconvolution have in common.
std::vector<Param<ConvParams>> ConvParamList();

// As cpu/conv.h describes it.
cpu::ConvProblem ProblemOf(const ConvGeometry& g);

// Plain kernels, in the dtype of the arrays. `bias` may be null.
void PlainConvForward(const ConvGeometry& g, const View& x, const View& w,
                      const View* bias, const View& y);
void PlainConvData(const ConvGeometry& g, const View& y, const View& w,
                   const View* bias, const View& x);
void PlainConvWeight(const ConvGeometry& g, const View& y, const View& x,
                     const View& w);

// The same by the tuned kernels of cpu/conv.h.
// The same, with relu at the end.
void FastConvRelu(const ConvGeometry& g, const View& x, const View& w, const View* bias,
                  const View& y);
void PlainConvRelu(const ConvGeometry& g, const View& x, const View& w,
                   const View* bias, const View& y);
void FastConvForward(const ConvGeometry& g, const View& x, const View& w,
                     const View* bias, const View& y);
void FastConvData(const ConvGeometry& g, const View& y, const View& w, const View* bias,
                  const View& x);
void FastConvWeight(const ConvGeometry& g, const View& y, const View& x, const View& w);

// Applies the operators of the two gradients; `result` is the shape wanted.
Value ConvData(ConvParams p, const Value& y, const Value& w, const Shape& result);
Value ConvWeight(ConvParams p, const Value& y, const Value& x, const Shape& result);
Value ConvForward(ConvParams p, const Value& x, const Value& w);

}  // namespace plait

#endif  // PLAIT_OPS_NN_CONV_H_
