// Invoke: inference, outputs, and the choice between lazy and pushed.

#include "run/invoke.h"

#include "base/options.h"
#include "engine/engine.h"
#include "graph/trace.h"
#include "memory/storage.h"
#include "run/blocked_invoke.h"
#include "run/push.h"
#include "run/random.h"
#include "run/tape.h"

namespace plait {
namespace {

// A pointwise call of more arrays than a program holds goes to the operator's kernel.
constexpr size_t kMaxLazyInputs = 12;

void CheckInputs(const OpDef& op, const Params& params, std::span<const NDArray> in) {
  size_t expected = op.inputs.size();
  if (op.optional_inputs) {
    expected = 0;
    for (bool present : op.optional_inputs(params.get())) expected += present;
  }
  if (!op.variable_inputs && in.size() != expected) [[unlikely]] {
    std::string names;
    for (const InputDef& def : op.inputs)
      names += (names.empty() ? "" : ", ") + std::string(def.name);
    Fail(ErrorKind::kType, op.name, ": got ", in.size(), " arrays; ", expected, " (of ",
         names.empty() ? "none" : names, ") were expected");
  }
  for (size_t i = 0; i < in.size(); ++i) {
    if (!in[i]) [[unlikely]]
      Fail(ErrorKind::kType, op.name, ": input ", i,
           " is no array; an NDArray was expected");
  }
}

// May the output take the memory of `dest` directly?
bool FitsDirectly(const OpDef& op, const NDArray& dest, int index, const Spec& spec,
                  std::span<const NDArray> in) {
  if (dest.dtype() != spec.dtype) return false;
  for (size_t i = 0; i < in.size(); ++i) {
    if (!dest.SharesMemory(in[i])) continue;
    const bool same =
        dest.body()->offset == in[i].body()->offset && dest.shape() == in[i].shape();
    if (!same || !op.InPlace(static_cast<int>(i), index)) return false;
  }
  return true;
}

}  // namespace

Arrays InvokeKernel(const OpDef& op, const ParamsRef& params,
                    std::span<const NDArray> in, std::span<const NDArray> out) {
  Specs in_specs, out_specs(op.CountOutputs(*params));
  for (const NDArray& x : in) in_specs.push_back({x.shape(), x.dtype()});
  // What has no inputs may leave it to `out` what its result is.
  for (size_t i = 0; in.empty() && i < out.size() && i < out_specs.size(); ++i) {
    if (out[i]) out_specs[i] = {out[i].shape(), out[i].dtype()};
  }
  InferAll(op, *params, in_specs, out_specs);
  for (const NDArray& x : in) x.body()->Materialize();

  const Device device = in.empty() ? CreationDevice() : in[0].device();
  Arrays results;
  bool fresh = true;
  for (size_t i = 0; i < out_specs.size(); ++i) {
    if (i < out.size() && out[i]) {
      Check(out[i].shape() == out_specs[i].shape, op.name, ": out has shape ",
            out[i].shape(), "; shape ", out_specs[i].shape, " was expected");
      if (FitsDirectly(op, out[i], static_cast<int>(i), out_specs[i], in)) {
        out[i].body()->Materialize();
        results.push_back(out[i]);
        fresh = false;
        continue;
      }
    }
    results.push_back(NDArray::Empty(out_specs[i].shape, out_specs[i].dtype, device));
  }
  CallState state;
  if (op.uses_training) state.training = Training();
  if (op.random && (!op.draws || op.draws(params->get(), state.training)))
    state.random = NextRandomStream(device);
  PushNode(op, params, in, results, in_specs, out_specs, fresh, state);
  for (size_t i = 0; i < out.size() && i < results.size(); ++i) {
    if (!out[i] || out[i].body() == results[i].body()) continue;
    CopyInto(results[i], out[i]);
    results[i] = out[i];
  }
  return results;
}

namespace {

// A reduction of an array that is still to be computed runs at the end of its program,
// so that the array need not be written. No result when that cannot be.
Arrays InvokeReduction(const OpDef& op, const Params& params, const NDArray& x,
                       std::span<const NDArray> out) {
  const Pending* pending = x.body()->pending.load(std::memory_order_acquire);
  if (pending == nullptr || !LazyEnabled()) return {};
  LazyProgram& program = LazyProgram::OfThisThread();
  if (pending != &program) return {};
  Specs in_specs, out_specs(1);
  in_specs.push_back({x.shape(), x.dtype()});
  InferAll(op, params, in_specs, out_specs);
  const bool overwrites = !out.empty() && out[0];
  Check(!overwrites || out[0].shape() == out_specs[0].shape, op.name,
        ": out has shape ", overwrites ? out[0].shape() : Shape(), "; shape ",
        out_specs[0].shape, " was expected");
  Arrays results;
  NDArray y = program.AppendReduction(op, params, x, out_specs[0]);
  if (!y) return results;
  if (overwrites) {
    CopyInto(y, out[0]);
    y = out[0];
  }
  results.push_back(std::move(y));
  return results;
}

// A pointwise operator may have a kernel too, for the calls that this does not decline.
bool GoesToKernel(const OpDef& op, const Params& params, std::span<const NDArray> in) {
  if (in.size() > kMaxLazyInputs) return true;
  if (op.pointwise_if || op.cpu.empty() || !op.cpu[0].declines) return false;
  Specs specs;
  for (const NDArray& x : in) specs.push_back({x.shape(), x.dtype()});
  return PrefersKernel(op, params, specs);
}

class ImperativeInvoker final : public Invoker {
 public:
  Values Invoke(const OpDef& op, const ParamsRef& params,
                std::span<const Value> inputs) override {
    SmallVector<NDArray, 4> in;
    for (const Value& x : inputs) in.push_back(x.array());
    Values values;
    for (NDArray& y : plait::Invoke(op, params, in))
      values.push_back(Value(std::move(y)));
    return values;
  }
};

const bool kInvokerSet = [] {
  static ImperativeInvoker invoker;
  SetInvoker(&invoker);
  return true;
}();

}  // namespace

Device& CreationDevice() {
  thread_local Device device;
  return device;
}

bool& LazyEnabled() {
  thread_local bool enabled = GetOptionInt(Option::kLazy) != 0;
  return enabled;
}

Arrays InvokeUnrecorded(const OpDef& op, const ParamsRef& params,
                        std::span<const NDArray> in, std::span<const NDArray> out) {
  if (op.IsPointwise(*params) && !in.empty() && !GoesToKernel(op, *params, in)) {
    LazyProgram& program = LazyProgram::OfThisThread();
    Arrays results = program.Append(op, *params, in, out);
    if (!LazyEnabled()) program.Flush();
    return results;
  }
  if (op.reduce) {
    Arrays results = InvokeReduction(op, *params, in[0], out);
    if (!results.empty()) return results;
  }
  return InvokeKernel(op, params, in, out);
}

Arrays Invoke(const OpDef& op, const ParamsRef& params, std::span<const NDArray> in,
              std::span<const NDArray> out) {
  CheckInputs(op, *params, in);
  if (Tracer* tracer = Tracer::Current()) [[unlikely]]
    return tracer->Invoke(op, params, in, out);
  Arrays results;
  if (MayUseBlocks(in, out)) results = InvokeOnBlocks(op, params, in);
  if (results.empty()) results = InvokeUnrecorded(op, params, in, out);
  if (Recording()) RecordCall(op, params, in, results, Training());
  return results;
}

void CopyInto(const NDArray& src, const NDArray& dst) {
  static const OpDef& copy = GetOp("_copy");
  Check(src.shape() == dst.shape(), "copy: src has shape ", src.shape(),
        " and dst has shape ", dst.shape(), "; equal shapes were expected");
  LazyProgram& program = LazyProgram::OfThisThread();
  program.Append(copy, *copy.defaults, {&src, 1}, {&dst, 1});
  if (!LazyEnabled()) program.Flush();
}

void AttachToEngine() {
  Engine::Get().SetUsedBytes([] { return memory::GetStats(Device{}).live; });
}

void WaitAll() {
  LazyProgram::FlushAll();
  Engine::Get().WaitAll();
}

}  // namespace plait
