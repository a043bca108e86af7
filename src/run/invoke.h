// Invoke: runs an operator imperatively, lazily where it is pointwise, and records it.

#ifndef PLAIT_RUN_INVOKE_H_
#define PLAIT_RUN_INVOKE_H_

#include <span>

#include "graph/op.h"
#include "ndarray/ndarray.h"
#include "run/lazy.h"

namespace plait {

// All outputs, hidden ones too. `out` is empty, or has for each visible output an array
// that is overwritten (shape must match; the result is cast to its dtype) or an empty
// handle. Throws at once for wrong shapes, dtypes and parameters; errors that only a
// kernel finds are thrown at the first wait.
Arrays Invoke(const OpDef& op, const ParamsRef& params, std::span<const NDArray> in,
              std::span<const NDArray> out = {});

// The same without a look at what is recorded or traced, and without the check of
// whether there are as many inputs as the operator takes.
Arrays InvokeUnrecorded(const OpDef& op, const ParamsRef& params,
                        std::span<const NDArray> in, std::span<const NDArray> out = {});
// Always by a kernel of the operator.
Arrays InvokeKernel(const OpDef& op, const ParamsRef& params,
                    std::span<const NDArray> in, std::span<const NDArray> out = {});

// Tells the engine how much memory arrays use, so that it can bound what runs ahead. A
// front end calls it once, at its start.
void AttachToEngine();

// Waits for everything, also what is still lazy in any thread; throws the first
// failure.
void WaitAll();

// Whether pointwise calls wait to be fused; the calling thread's own switch.
bool& LazyEnabled();

// Where operators without input arrays put their results; the calling thread's own.
Device& CreationDevice();

// Copies src into dst (same shape), casting; asynchronous.
void CopyInto(const NDArray& src, const NDArray& dst);

}  // namespace plait

#endif  // PLAIT_RUN_INVOKE_H_
