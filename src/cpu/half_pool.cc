// Pooling of blocked arrays of bfloat16: planes as floats, one after the other.

#include <algorithm>

#include "base/parallel.h"
#include "cpu/blocked.h"
#include "cpu/pointwise.h"
#include "cpu/scratch.h"

namespace plait::cpu {
namespace {

constexpr DType kHalf = DType::kBfloat16, kFloat = DType::kFloat32;

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

void Widen(const Bfloat16* from, float* to, int64_t n) {
  Convert(from, kHalf, to, kFloat, n);
}
void Narrow(const float* from, Bfloat16* to, int64_t n) {
  Convert(from, kFloat, to, kHalf, n);
}

}  // namespace

void BlockedMaxPool(const PoolPlanes& p, int64_t block, const Bfloat16* x,
                    Bfloat16* y) {
  const Planes s(p, block);
  s.ForEach(p.planes, [&](int64_t i, float* xf, float* yf, float*) {
    Widen(x + i * s.x, xf, s.x);
    BlockedMaxPool(s.one, block, xf, yf);
    Narrow(yf, y + i * s.y, s.y);
  });
}
void BlockedMaxPoolBackward(const PoolPlanes& p, int64_t block, const Bfloat16* dy,
                            const Bfloat16* x, Bfloat16* dx) {
  const Planes s(p, block);
  s.ForEach(p.planes, [&](int64_t i, float* xf, float* yf, float* dxf) {
    Widen(x + i * s.x, xf, s.x);
    Widen(dy + i * s.y, yf, s.y);
    BlockedMaxPoolBackward(s.one, block, yf, xf, dxf);
    Narrow(dxf, dx + i * s.x, s.x);
  });
}
void BlockedSumPool(const PoolPlanes& p, int64_t block, bool average, bool include_pad,
                    const Bfloat16* x, Bfloat16* y) {
  const Planes s(p, block);
  s.ForEach(p.planes, [&](int64_t i, float* xf, float* yf, float*) {
    Widen(x + i * s.x, xf, s.x);
    BlockedSumPool(s.one, block, average, include_pad, xf, yf);
    Narrow(yf, y + i * s.y, s.y);
  });
}
void BlockedSumPoolBackward(const PoolPlanes& p, int64_t block, bool average,
                            bool include_pad, const Bfloat16* dy, Bfloat16* dx) {
  const Planes s(p, block);
  s.ForEach(p.planes, [&](int64_t i, float* xf, float* yf, float*) {
    Widen(dy + i * s.y, yf, s.y);
    BlockedSumPoolBackward(s.one, block, average, include_pad, yf, xf);
    Narrow(xf, dx + i * s.x, s.x);
  });
}
void BlockedPoolIndex(const PoolPlanes& p, int64_t block, const Bfloat16* x,
                      const Bfloat16* pooled, uint8_t* index) {
  const Planes s(p, block);
  s.ForEach(p.planes, [&](int64_t i, float* xf, float* yf, float*) {
    Widen(x + i * s.x, xf, s.x);
    Widen(pooled + i * s.y, yf, s.y);
    BlockedPoolIndex(s.one, block, xf, yf, index + i * s.y);
  });
}
void BlockedPoolIndexBackward(const PoolPlanes& p, int64_t block, const Bfloat16* dy,
                              const uint8_t* index, Bfloat16* dx) {
  const Planes s(p, block);
  s.ForEach(p.planes, [&](int64_t i, float* xf, float* yf, float*) {
    Widen(dy + i * s.y, yf, s.y);
    BlockedPoolIndexBackward(s.one, block, yf, index + i * s.y, xf);
    Narrow(xf, dx + i * s.x, s.x);
  });
}

}  // namespace plait::cpu
