// PushNode: the one way in which a call of an operator reaches the engine.

#ifndef PLAIT_RUN_PUSH_H_
#define PLAIT_RUN_PUSH_H_

#include <span>

#include "graph/op.h"
#include "ndarray/ndarray.h"

namespace plait {

// What a kernel call needs beside its arrays.
struct CallState {
  RandomStream random;
  bool training = false;
};

// Runs the first kernel of `op` that accepts the call, inline when it is small and its
// arrays are idle, else on the compute lane. Every array has memory (is not pending);
// outputs do not overlap inputs but in pairs that the operator allows. `fresh` says
// that nobody else can know the outputs yet.
void PushNode(const OpDef& op, const ParamsRef& params, std::span<const NDArray> in,
              std::span<const NDArray> out, const Specs& in_specs,
              const Specs& out_specs, bool fresh, const CallState& state);

// The first kernel that takes the call; throws kType when none does.
const OpDef::AnyKernel& ChooseKernel(const OpDef& op, const Params& params,
                                     const Specs& in, const Specs& out);
// Estimated time on one thread, in nanoseconds.
double EstimateCost(const OpDef& op, const Params& params, const Specs& in,
                    const Specs& out);

// The host language's place of the current call, for errors of operations that run
// later; empty when it is not known. Set by a front end.
using CallSiteFn = std::string (*)();
void SetCallSite(CallSiteFn fn);
std::string CallSite();

// The memory that the operation which runs on this thread holds: code of the host
// language may keep arrays on it. Empty elsewhere.
std::span<const Ref<Chunk>>& HeldChunks();

// The name of the layer that is being called (a Gluon block), for the profiler.
const char*& CurrentLayer();

// Reports an operation that runs inline from here to the end of the scope, if anybody
// observes the engine.
class InlineTimer {
 public:
  // layer: null stands for CurrentLayer().
  explicit InlineTimer(const char* name, const char* layer = nullptr);
  ~InlineTimer();
  InlineTimer(const InlineTimer&) = delete;
  InlineTimer& operator=(const InlineTimer&) = delete;

 private:
  const char* name_;  // null: nobody does
  const char* layer_;
  int64_t start_ = 0;
};

// An error of an operation with its operator and call site.
std::exception_ptr Describe(std::exception_ptr error, const std::string& op,
                            const std::string& site);

// Values that an array holds after a failure: NaN, or 0 for integers.
void FillFailed(void* data, DType dtype, int64_t size) noexcept;

// Operations whose estimated time on one thread is below this run inline: what a second
// core could save does not pay for handing the operation, and all that depends on it,
// to another thread. Longer ones give the host language's lock away meanwhile.
inline constexpr double kInlineNanoseconds = 80000;
inline constexpr double kBlockingNanoseconds = 40000;

}  // namespace plait

#endif  // PLAIT_RUN_PUSH_H_
