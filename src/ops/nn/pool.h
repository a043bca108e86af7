// What the operators of pooling share: parameters, geometry and the plain kernels.

#ifndef PLAIT_OPS_NN_POOL_H_
#define PLAIT_OPS_NN_POOL_H_

#include <array>
#include <optional>

#include "graph/op.h"

namespace plait {

enum class PoolType { kAvg, kLp, kMax, kSum };
enum class PoolConvention { kFull, kSame, kValid };
enum class PoolLayout { kNone, kNcdhw, kNchw, kNcw, kNdhwc, kNhwc, kNwc };

struct PoolParams {
  Shape kernel;
  PoolType pool_type = PoolType::kMax;
  bool global_pool = false;
  bool cudnn_off = false;
  PoolConvention pooling_convention = PoolConvention::kValid;
  Shape stride, pad;  // empty: 1 and 0 along every axis
  std::optional<int> p_value;
  std::optional<bool> count_include_pad;
  PoolLayout layout = PoolLayout::kNone;
  Shape result;  // of the gradients' operators: the shape they give

  bool channels_last() const { return layout >= PoolLayout::kNdhwc; }
  bool include_pad() const { return count_include_pad.value_or(true); }
};

// Of the operators that note where maxima are.
struct PoolIndexParams {
  Shape kernel, stride, pad;  // along rows and columns
  Shape result;               // of the gradient: the shape of the pooled array
};

// Windows over the space of x. With fewer than three axes, the first ones have size 1.
// Elements are at plane + position * step: a plane is one channel of one sample.
struct PoolGeometry {
  using Triple = std::array<int64_t, 3>;
  int64_t batch = 0, channels = 0;
  Triple in{1, 1, 1}, out{1, 1, 1}, kernel{1, 1, 1}, stride{1, 1, 1}, pad{0, 0, 0};
  bool channels_last = false;
  int rank = 0;  // of the space, as the user sees it

  int64_t in_size() const { return in[0] * in[1] * in[2]; }
  int64_t out_size() const { return out[0] * out[1] * out[2]; }
  int64_t step() const { return channels_last ? channels : 1; }
  int64_t Plane(int64_t n, int64_t c, int64_t size) const {
    return channels_last ? n * size * channels + c : (n * channels + c) * size;
  }
};
PoolGeometry MakePoolGeometry(const PoolParams& p, const Shape& x, const Shape& y);

// The part of a window that lies inside x, and what an average divides by.
struct PoolWindow {
  PoolGeometry::Triple first, last;
  int64_t divisor = 1;

  // Calls f(position in the plane) in row-major order.
  template <typename F>
  void ForEach(const PoolGeometry& g, F&& f) const {
    for (int64_t a = first[0]; a < last[0]; ++a)
      for (int64_t b = first[1]; b < last[1]; ++b)
        for (int64_t c = first[2]; c < last[2]; ++c) f((a * g.in[1] + b) * g.in[2] + c);
  }
};
PoolWindow WindowAt(const PoolGeometry& g, const PoolGeometry::Triple& at,
                    bool include_pad);

// Calls f(plane offset in x, plane offset in y, window, position in y's plane).
template <typename F>
void ForEachWindow(const PoolGeometry& g, int64_t n, int64_t c, bool include_pad,
                   F&& f) {
  const int64_t xs = g.Plane(n, c, g.in_size()), ys = g.Plane(n, c, g.out_size());
  int64_t i = 0;
  PoolGeometry::Triple at;
  for (at[0] = 0; at[0] < g.out[0]; ++at[0])
    for (at[1] = 0; at[1] < g.out[1]; ++at[1])
      for (at[2] = 0; at[2] < g.out[2]; ++at[2])
        f(xs, ys, WindowAt(g, at, include_pad), i++);
}

void PlainPool(const PoolParams& p, const PoolGeometry& g, const View& x,
               const View& y);
// The gradients for x: of sum and average, and of the maximum, which goes to the first
// largest element of each window (NaN counts as largest).
void PlainPoolSpread(const PoolParams& p, const PoolGeometry& g, const View& dy,
                     const View& dx);
void PlainPoolMaxBackward(const PoolGeometry& g, const View& dy, const View& x,
                          const View& dx);
// y = u at the place of each window's largest x: the gradient of the above for dy.
void PlainPoolTake(const PoolGeometry& g, const View& u, const View& x, const View& y);

// The fast ones, for one and two dimensions.
const char* DeclinesPoolPlanes(const PoolParams& p, const Specs& in, const Specs& out);
void PoolPlanesForward(const PoolParams& p, const KernelArgs& args);
void PoolPlanesSpread(const PoolParams& p, const KernelArgs& args);
void PoolPlanesMaxBackward(const PoolParams& p, const KernelArgs& args);

}  // namespace plait

#endif  // PLAIT_OPS_NN_POOL_H_
