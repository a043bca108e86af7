// Pooling of blocked arrays of half types: planes as floats, one after the other.

#include <algorithm>

#include "base/parallel.h"
#include "cpu/blocked.h"
#include "cpu/pointwise.h"
#include "cpu/scratch.h"

namespace plait::cpu {
namespace {

constexpr DType kFloat = DType::kFloat32;

// One plane and its pooled one, as floats and in the arrays.
struct Planes {
  Planes(const PoolPlanes& p, int64_t block)
      : one(p), x(p.h * p.w * block), y(p.out_h * p.out_w * block) {
    one.planes = 1;
  }
  // Calls f(plane, floats of x, of y, of a third array like x or y).
  template <typename F>
  void ForEach(int64_t planes, F&& f) const {
    const int64_t grain = std::max<int64_t>(1, (1 << 14) / std::max<int64_t>(1, x));
    ParallelFor(planes, grain, [&](int64_t first, int64_t last) {
      // The kernels are not to share out a single plane.
      const ScopedComputeThreads alone(1);
      const Scratch scratch(Scratch::Bytes<float>(2 * (x + y)));
      float* const at = scratch.As<float>();
      for (int64_t i = first; i < last; ++i) f(i, at, at + x, at + x + y);
    });
  }
  PoolPlanes one;
  int64_t x, y;
};

template <typename T>
void Widen(const T* from, float* to, int64_t n) {
  Convert(from, kDTypeOf<T>, to, kFloat, n);
}
template <typename T>
void Narrow(const float* from, T* to, int64_t n) {
  Convert(from, kFloat, to, kDTypeOf<T>, n);
}

}  // namespace

template <typename T>
void BlockedMaxPool(const PoolPlanes& p, int64_t block, const T* x, T* y) {
  const Planes s(p, block);
  s.ForEach(p.planes, [&](int64_t i, float* xf, float* yf, float*) {
    Widen(x + i * s.x, xf, s.x);
    BlockedMaxPool(s.one, block, xf, yf);
    Narrow(yf, y + i * s.y, s.y);
  });
}
template <typename T>
void BlockedMaxPoolBackward(const PoolPlanes& p, int64_t block, const T* dy, const T* x,
                            T* dx) {
  const Planes s(p, block);
  s.ForEach(p.planes, [&](int64_t i, float* xf, float* yf, float* dxf) {
    Widen(x + i * s.x, xf, s.x);
    Widen(dy + i * s.y, yf, s.y);
    BlockedMaxPoolBackward(s.one, block, yf, xf, dxf);
    Narrow(dxf, dx + i * s.x, s.x);
  });
}
template <typename T>
void BlockedSumPool(const PoolPlanes& p, int64_t block, bool average, bool include_pad,
                    const T* x, T* y) {
  const Planes s(p, block);
  s.ForEach(p.planes, [&](int64_t i, float* xf, float* yf, float*) {
    Widen(x + i * s.x, xf, s.x);
    BlockedSumPool(s.one, block, average, include_pad, xf, yf);
    Narrow(yf, y + i * s.y, s.y);
  });
}
template <typename T>
void BlockedSumPoolBackward(const PoolPlanes& p, int64_t block, bool average,
                            bool include_pad, const T* dy, T* dx) {
  const Planes s(p, block);
  s.ForEach(p.planes, [&](int64_t i, float* xf, float* yf, float*) {
    Widen(dy + i * s.y, yf, s.y);
    BlockedSumPoolBackward(s.one, block, average, include_pad, yf, xf);
    Narrow(xf, dx + i * s.x, s.x);
  });
}
template <typename T>
void BlockedPoolIndex(const PoolPlanes& p, int64_t block, const T* x, const T* pooled,
                      uint8_t* index) {
  const Planes s(p, block);
  s.ForEach(p.planes, [&](int64_t i, float* xf, float* yf, float*) {
    Widen(x + i * s.x, xf, s.x);
    Widen(pooled + i * s.y, yf, s.y);
    BlockedPoolIndex(s.one, block, xf, yf, index + i * s.y);
  });
}
template <typename T>
void BlockedPoolIndexBackward(const PoolPlanes& p, int64_t block, const T* dy,
                              const uint8_t* index, T* dx) {
  const Planes s(p, block);
  s.ForEach(p.planes, [&](int64_t i, float* xf, float* yf, float*) {
    Widen(dy + i * s.y, yf, s.y);
    BlockedPoolIndexBackward(s.one, block, yf, index + i * s.y, xf);
    Narrow(xf, dx + i * s.x, s.x);
  });
}

template void BlockedMaxPool(const PoolPlanes&, int64_t, const Bfloat16*, Bfloat16*);
template void BlockedMaxPoolBackward(const PoolPlanes&, int64_t, const Bfloat16*,
                                     const Bfloat16*, Bfloat16*);
template void BlockedSumPool(const PoolPlanes&, int64_t, bool, bool, const Bfloat16*,
                             Bfloat16*);
template void BlockedSumPoolBackward(const PoolPlanes&, int64_t, bool, bool,
                                     const Bfloat16*, Bfloat16*);
template void BlockedPoolIndex(const PoolPlanes&, int64_t, const Bfloat16*,
                               const Bfloat16*, uint8_t*);
template void BlockedPoolIndexBackward(const PoolPlanes&, int64_t, const Bfloat16*,
                                       const uint8_t*, Bfloat16*);
template void BlockedMaxPool(const PoolPlanes&, int64_t, const Float16*, Float16*);
template void BlockedMaxPoolBackward(const PoolPlanes&, int64_t, const Float16*,
                                     const Float16*, Float16*);
template void BlockedSumPool(const PoolPlanes&, int64_t, bool, bool, const Float16*,
                             Float16*);
template void BlockedSumPoolBackward(const PoolPlanes&, int64_t, bool, bool,
                                     const Float16*, Float16*);
template void BlockedPoolIndex(const PoolPlanes&, int64_t, const Float16*,
                               const Float16*, uint8_t*);
template void BlockedPoolIndexBackward(const PoolPlanes&, int64_t, const Float16*,
                                       const uint8_t*, Float16*);

}  // namespace plait::cpu
