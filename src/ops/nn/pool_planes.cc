// The kernels of pooling on planes of floats; half types go there some planes at a
// time.

#include <algorithm>
#include <vector>

#include "base/parallel.h"
#include "cpu/pointwise.h"
#include "cpu/pool.h"
#include "ops/nn/channels_first.h"
#include "ops/nn/pool.h"

namespace plait {
namespace {

using P = PoolParams;
using cpu::PoolPlanes;

PoolPlanes PlanesOf(const P& p, const Shape& x, const Shape& y) {
  const PoolGeometry g = MakePoolGeometry(p, x, y);
  return {
      g.batch * g.channels, g.in[1],     g.in[2],     g.out[1], g.out[2], g.kernel[1],
      g.kernel[2],          g.stride[1], g.stride[2], g.pad[1], g.pad[2]};
}

// Calls run(planes, a, b, y) with floats of all planes, or of a few that fit into the
// caches. `b` may be null. Sizes of planes follow from whole views.
template <typename F>
void WithFloats(const PoolPlanes& p, const View& a, const View* b, const View& y,
                F&& run) {
  if (a.dtype == DType::kFloat32) {
    return run(p, a.data<float>(), b ? b->data<float>() : nullptr, y.data<float>());
  }
  if (p.planes == 0) return;
  constexpr int64_t kElements = 1 << 14;
  const int64_t na = a.size() / p.planes, nb = b ? b->size() / p.planes : 0,
                ny = y.size() / p.planes;
  const int64_t most = std::max<int64_t>(1, kElements / std::max<int64_t>(1, na + ny));
  const auto at = [](const View& v, int64_t element) {
    return static_cast<char*>(v.ptr) + element * static_cast<int64_t>(SizeOf(v.dtype));
  };
  ParallelFor(p.planes, most, [&](int64_t first, int64_t last) {
    const ScopedComputeThreads serial(1);
    std::vector<float> floats(static_cast<size_t>(most * (na + nb + ny)));
    float *const fa = floats.data(), *const fb = fa + most * na, *fy = fb + most * nb;
    for (int64_t i = first; i < last; i += most) {
      PoolPlanes part = p;
      part.planes = std::min(most, last - i);
      cpu::Convert(at(a, i * na), a.dtype, fa, DType::kFloat32, part.planes * na);
      if (b != nullptr)
        cpu::Convert(at(*b, i * nb), b->dtype, fb, DType::kFloat32, part.planes * nb);
      run(part, fa, b ? fb : nullptr, fy);
      cpu::Convert(fy, DType::kFloat32, at(y, i * ny), y.dtype, part.planes * ny);
    }
  });
}

}  // namespace

const char* DeclinesPoolPlanes(const P& p, const Specs& in, const Specs&) {
  if (in[0].dtype == DType::kFloat64 || !IsFloat(in[0].dtype)) return "not for floats";
  if (in[0].shape.rank() > 4) return "windows in three dimensions";
  if (p.pool_type == PoolType::kLp) return "lp";
  return nullptr;
}

void PoolPlanesForward(const P& p, const KernelArgs& args) {
  const ChannelsFirst x(p.channels_last(), args.in[0], true),
      y(p.channels_last(), args.out[0], false);
  WithFloats(
      PlanesOf(p, args.in[0].shape(), args.out[0].shape()), x.view(), nullptr, y.view(),
      [&](const PoolPlanes& planes, const float* xs, const float*, float* ys) {
        if (p.pool_type == PoolType::kMax) return cpu::MaxPool(planes, xs, ys);
        cpu::SumPool(planes, p.pool_type == PoolType::kAvg, p.include_pad(), xs, ys);
      });
  y.Store();
}

void PoolPlanesSpread(const P& p, const KernelArgs& args) {
  const ChannelsFirst dy(p.channels_last(), args.in[0], true),
      dx(p.channels_last(), args.out[0], false);
  WithFloats(PlanesOf(p, args.out[0].shape(), args.in[0].shape()), dy.view(), nullptr,
             dx.view(),
             [&](const PoolPlanes& planes, const float* from, const float*, float* to) {
               cpu::SumPoolBackward(planes, p.pool_type == PoolType::kAvg,
                                    p.include_pad(), from, to);
             });
  dx.Store();
}

void PoolPlanesMaxBackward(const P& p, const KernelArgs& args) {
  const ChannelsFirst dy(p.channels_last(), args.in[0], true),
      x(p.channels_last(), args.in[1], true), dx(p.channels_last(), args.out[0], false);
  WithFloats(PlanesOf(p, args.out[0].shape(), args.in[0].shape()), dy.view(), &x.view(),
             dx.view(),
             [](const PoolPlanes& planes, const float* from, const float* xs,
                float* to) { cpu::MaxPoolBackward(planes, from, xs, to); });
  dx.Store();
}

}  // namespace plait
