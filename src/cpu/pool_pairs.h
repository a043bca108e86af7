// Pooling over windows of 2 x 2 at stride 2 without padding, the commonest case.

#ifndef PLAIT_CPU_POOL_PAIRS_H_
#define PLAIT_CPU_POOL_PAIRS_H_

#include "cpu/pool.h"

namespace plait::cpu::pairs {

// Whether the functions here are for `p`, and this processor has what they need.
bool Fits(const PoolPlanes& p);

// As their namesakes in cpu/pool.h, for planes [first, last), times `factor`. Pointers
// are to the first plane of all. REQUIRES: Fits(p).
void MaxPool(const PoolPlanes& p, int64_t first, int64_t last, const float* x,
             float* y);
void SumPool(const PoolPlanes& p, float factor, int64_t first, int64_t last,
             const float* x, float* y);
void MaxPoolBackward(const PoolPlanes& p, int64_t first, int64_t last, const float* dy,
                     const float* x, float* dx);
void SumPoolBackward(const PoolPlanes& p, float factor, int64_t first, int64_t last,
                     const float* dy, float* dx);

}  // namespace plait::cpu::pairs

#endif  // PLAIT_CPU_POOL_PAIRS_H_
