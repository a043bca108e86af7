// Arrays whose channels lie in blocks: (batch, channel blocks, space, lanes).
//
// Convolutions are fastest on them: a vector holds the channels of one pixel. The last
// block is filled up with zeros where the channels do not fill it. Elements are float32
// or bfloat16, sums float32. Thread safety: any thread; ComputeThreads() threads are
// used above a size.

#ifndef PLAIT_CPU_BLOCKED_H_
#define PLAIT_CPU_BLOCKED_H_

#include <cstdint>

#include "base/dtype.h"
#include "cpu/pool.h"

namespace plait::cpu {

// The float lanes of this processor's vectors: 16 with AVX-512, 8 with AVX2, 4 with
// NEON, 1 without vectors. Our own kernels of convolutions take blocks of this size.
int64_t FloatLanes();

// Channels of a block that all convolutions here want: FloatLanes(), or 0 where not all
// of them are there.
int64_t ChannelBlock();

struct BlockedArray {
  int64_t batch = 0, channels = 0, size = 0, block = 16;  // size: pixels of an image
  int64_t blocks() const { return (channels + block - 1) / block; }
};

// From and to (batch, channels, size).
void BlockChannels(const BlockedArray& a, const float* plain, float* blocked);
void UnblockChannels(const BlockedArray& a, const float* blocked, float* plain);
void BlockChannels(const BlockedArray& a, const Bfloat16* plain, Bfloat16* blocked);
void UnblockChannels(const BlockedArray& a, const Bfloat16* blocked, Bfloat16* plain);
void BlockChannels(const BlockedArray& a, const Float16* plain, Float16* blocked);
void UnblockChannels(const BlockedArray& a, const Float16* blocked, Float16* plain);

// Batch normalisation; compare cpu/norm.h. mean, var, inverse, gamma and beta have an
// element a channel; gamma may be null (ones). y is rectified with `relu`, NaN stays.
// T: float, Bfloat16 or Float16. REQUIRES: batch * size > 0.
template <typename T>
void BlockedNormForward(const BlockedArray& a, double eps, const T* x,
                        const float* gamma, const float* beta, bool relu, float* mean,
                        float* var, T* y);
template <typename T>
void BlockedNormApply(const BlockedArray& a, const T* x, const float* gamma,
                      const float* beta, const float* mean, const float* inverse,
                      bool relu, T* y);
// Where y is given, dy passes only where y > 0 (the gradient of the relu).
template <typename T>
void BlockedNormBackward(const BlockedArray& a, const T* dy, const T* y, const T* x,
                         const float* gamma, const float* mean, const float* inverse,
                         T* dx, float* dgamma, float* dbeta);

// Sums over the `window` (an odd number) nearest channels. With `normalise` y is
// x * (k + scale * sum(x^2))^-beta. y may be x.
struct LocalResponse {
  int64_t window = 1;
  bool normalise = false;
  float scale = 1, k = 0, beta = 0;
};
void BlockedChannelWindows(const BlockedArray& a, const LocalResponse& r,
                           const float* x, float* y);

// Pooling as in cpu/pool.h; a plane is one block of channels of one sample.
void BlockedMaxPool(const PoolPlanes& p, int64_t block, const float* x, float* y);
void BlockedMaxPoolBackward(const PoolPlanes& p, int64_t block, const float* dy,
                            const float* x, float* dx);
void BlockedSumPool(const PoolPlanes& p, int64_t block, bool average, bool include_pad,
                    const float* x, float* y);
void BlockedSumPoolBackward(const PoolPlanes& p, int64_t block, bool average,
                            bool include_pad, const float* dy, float* dx);
// The place of each maximum in its window, in row-major order; kNoMaximum: an empty
// window. pooled: what max pooling gave. The second adds dy up at these places.
inline constexpr uint8_t kNoMaximum = 255;
void BlockedPoolIndex(const PoolPlanes& p, int64_t block, const float* x,
                      const float* pooled, uint8_t* index);
void BlockedPoolIndexBackward(const PoolPlanes& p, int64_t block, const float* dy,
                              const uint8_t* index, float* dx);

// The same for the half types, a plane at a time in float32: each element is rounded
// once.
template <typename T>
void BlockedMaxPool(const PoolPlanes& p, int64_t block, const T* x, T* y);
template <typename T>
void BlockedMaxPoolBackward(const PoolPlanes& p, int64_t block, const T* dy, const T* x,
                            T* dx);
template <typename T>
void BlockedSumPool(const PoolPlanes& p, int64_t block, bool average, bool include_pad,
                    const T* x, T* y);
template <typename T>
void BlockedSumPoolBackward(const PoolPlanes& p, int64_t block, bool average,
                            bool include_pad, const T* dy, T* dx);
template <typename T>
void BlockedPoolIndex(const PoolPlanes& p, int64_t block, const T* x, const T* pooled,
                      uint8_t* index);
template <typename T>
void BlockedPoolIndexBackward(const PoolPlanes& p, int64_t block, const T* dy,
                              const uint8_t* index, T* dx);

}  // namespace plait::cpu

#endif  // PLAIT_CPU_BLOCKED_H_
