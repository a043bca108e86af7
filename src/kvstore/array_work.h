// Work of stores on arrays, pushed to the engine.

#ifndef PLAIT_KVSTORE_ARRAY_WORK_H_
#define PLAIT_KVSTORE_ARRAY_WORK_H_

#include <functional>
#include <span>

#include "kvstore/codec.h"
#include "ndarray/ndarray.h"

namespace plait {

// Runs `work` when the arrays allow it. Flushes what is lazy of them.
void PushWork(const char* name, std::span<const NDArray> reads,
              std::span<const NDArray> writes, int priority,
              std::function<void()> work);

// y = x, cast to y's dtype; y = the sum of all, which may be on several devices.
void CopyArray(const NDArray& x, const NDArray& y);
void SumArrays(std::span<const NDArray> arrays, const NDArray& y);

// The codes of a whole array; the residual is made when it is first needed.
NDArray Encoded(const Codec& codec, const NDArray& x, NDArray& residual, int priority);
// y = the sum of what codes of arrays say.
void Decode(const Codec& codec, std::span<const NDArray> codes, const NDArray& y,
            int priority);

// All elements in a row, or some of them; views.
NDArray Flat(const NDArray& x);
NDArray PartOf(const NDArray& x, const Ranges::Part& part);

}  // namespace plait

#endif  // PLAIT_KVSTORE_ARRAY_WORK_H_
