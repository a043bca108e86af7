// PushNode: choosing a kernel, and running it inline or on the compute lane.

#include "run/push.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <iostream>
#include <limits>
#include <memory>
#include <optional>

#include "base/blocking.h"
#include "base/options.h"
#include "engine/callback_lane.h"
#include "engine/engine.h"

namespace plait {
namespace {

CallSiteFn call_site = nullptr;

// An array of a call, kept alive without its tape: an operation may be destroyed on any
// thread, where no code of the host language should run.
struct Operand {
  Ref<Chunk> chunk;
  void* ptr;
  Shape shape;
  DType dtype;
};

Operand OperandOf(const NDArray& x) {
  return {x.body()->chunk, x.data(), x.shape(), x.dtype()};
}

View ViewOf(const Operand& x) {
  return {x.ptr, &x.shape, x.dtype};
}

class NodeOperation final : public Operation {
 public:
  NodeOperation(const OpDef& op, const OpDef::AnyKernel& kernel, ParamsRef params,
                const CallState& state)
      : op_(op),
        kernel_(kernel),
        params_(std::move(params)),
        state_(state),
        layer_(CurrentLayer()) {
    if (op.may_fail) site_ = CallSite();
  }

  void Run() override {
    SmallVector<View, 8> in, out;
    for (const Operand& x : inputs) in.push_back(ViewOf(x));
    for (const Operand& x : outputs) out.push_back(ViewOf(x));
    SmallVector<Ref<Chunk>, 8> chunks;
    if (IsCallback(lane)) {
      for (const auto* list : {&inputs, &outputs})
        for (const Operand& x : *list) chunks.push_back(x.chunk);
      HeldChunks() = chunks;
    }
    try {
      kernel_.run(params_->get(), {in, out, state_.random, state_.training, {}});
      HeldChunks() = {};
    } catch (...) {
      HeldChunks() = {};
      if (IsCallback(lane)) throw;  // the host language's own
      std::rethrow_exception(Describe(std::current_exception(), op_.name, site_));
    }
  }
  void Abandon() noexcept override {
    for (const Operand& x : outputs) FillFailed(x.ptr, x.dtype, x.shape.size());
  }
  const char* name() const override { return op_.name.c_str(); }
  const char* layer() const override { return layer_.c_str(); }

  SmallVector<Operand, 6> inputs, outputs;

 private:
  const OpDef& op_;
  const OpDef::AnyKernel& kernel_;
  ParamsRef params_;
  CallState state_;
  std::string layer_, site_;
};

int64_t Now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

using Vars = SmallVector<Var*, 8>;

void AddOnce(Vars& vars, Var* var) {
  if (std::find(vars.begin(), vars.end(), var) == vars.end()) vars.push_back(var);
}

// The inputs that a call changes.
SmallVector<int, 4> WrittenInputs(const OpDef& op, const Params& params,
                                  std::span<const NDArray> in, bool training) {
  SmallVector<int, 4> written;
  if (op.mutates.empty() && !op.writes) return written;
  for (size_t i = 0; i < in.size(); ++i) {
    if (op.Writes(params, static_cast<int>(i), training))
      written.push_back(static_cast<int>(i));
  }
  return written;
}

// Leaves each Var once. Few are compared one by one, many are sorted.
constexpr size_t kFewVars = 24;
void KeepOnce(Vars& vars) {
  if (vars.size() <= kFewVars) {
    Vars once;
    for (Var* var : vars) AddOnce(once, var);
    vars = std::move(once);
    return;
  }
  std::sort(vars.begin(), vars.end());
  const auto kept = std::unique(vars.begin(), vars.end()) - vars.begin();
  vars.resize(static_cast<size_t>(kept));
}
bool Contains(const Vars& vars, Var* var) {
  if (vars.size() > kFewVars) return std::binary_search(vars.begin(), vars.end(), var);
  return std::find(vars.begin(), vars.end(), var) != vars.end();
}

// The Vars that a call reads and writes; outputs that nobody can know need not be held.
void CollectVars(std::span<const NDArray> in, std::span<const NDArray> out, bool fresh,
                 std::span<const int> written, Vars& reads, Vars& writes) {
  if (!fresh) {
    for (const NDArray& x : out) writes.push_back(&x.body()->chunk->var());
  }
  for (int i : written) writes.push_back(&in[i].body()->chunk->var());
  if (writes.size() > 1) KeepOnce(writes);
  for (const NDArray& x : in) {
    Var* var = &x.body()->chunk->var();
    if (writes.empty() || !Contains(writes, var)) reads.push_back(var);
  }
  if (reads.size() > 1) KeepOnce(reads);
}

void RunInline(const OpDef& op, const OpDef::AnyKernel& kernel, const ParamsRef& params,
               std::span<const NDArray> in, std::span<const NDArray> out,
               const CallState& state, double cost, Vars& reads, Vars& writes) {
  Engine& engine = Engine::Get();
  SmallVector<View, 8> in_views, out_views;
  for (const NDArray& x : in) in_views.push_back({x.data(), &x.shape(), x.dtype()});
  for (const NDArray& x : out) out_views.push_back({x.data(), &x.shape(), x.dtype()});
  const InlineTimer timer(op.name.c_str());
  try {
    std::optional<ScopedBlocking> blocking;
    if (cost > kBlockingNanoseconds) blocking.emplace();
    kernel.run(params->get(), {in_views, out_views, state.random, state.training, {}});
  } catch (...) {
    for (const View& x : out_views) FillFailed(x.ptr, x.dtype, x.size());
    // Fresh outputs were not held; they carry the failure all the same.
    Vars failed = writes;
    for (const NDArray& x : out) {
      Var* var = &x.body()->chunk->var();
      if (std::find(failed.begin(), failed.end(), var) == failed.end()) {
        var->TryWrite();
        failed.push_back(var);
      }
    }
    engine.EndFailed(reads, failed,
                     Describe(std::current_exception(), op.name, CallSite()));
    return;
  }
  engine.End(reads, writes);
}

}  // namespace

const OpDef::AnyKernel& ChooseKernel(const OpDef& op, const Params& params,
                                     const Specs& in, const Specs& out) {
  static const bool verbose = GetOptionInt(Option::kVerbose) != 0;
  Check(!op.cpu.empty(), ErrorKind::kNotImplemented, op.name,
        ": has no kernel for the cpu");
  for (const OpDef::AnyKernel& kernel : op.cpu) {
    const char* reason =
        kernel.declines ? kernel.declines(params.get(), in, out) : nullptr;
    if (verbose) [[unlikely]] {
      std::cerr << "plait: " << op.name << " by " << kernel.name
                << (reason ? ": declined, " : "") << (reason ? reason : "") << '\n';
    }
    if (reason == nullptr) return kernel;
  }
  Fail(ErrorKind::kType, op.name, ": no kernel takes inputs of dtype ",
       in.empty() ? DType::kUnknown : in[0].dtype, " for an output of dtype ",
       out.empty() ? DType::kUnknown : out[0].dtype);
}

double EstimateCost(const OpDef& op, const Params& params, const Specs& in,
                    const Specs& out) {
  constexpr double kOverhead = 50, kPerByte = 0.03, kPerOperation = 0.01;
  constexpr int64_t kFew = 4096;  // bytes that no operator is long over
  int64_t bytes = 0;
  for (const Spec& x : in)
    bytes += x.shape.size() * static_cast<int64_t>(SizeOf(x.dtype));
  for (const Spec& x : out)
    bytes += x.shape.size() * static_cast<int64_t>(SizeOf(x.dtype));
  // What runs graphs may take long over few bytes.
  if (bytes <= kFew && !op.finish) return kOverhead;
  const double memory = kPerByte * static_cast<double>(bytes);
  if (!op.cost) return kOverhead + 1.3 * memory;
  return kOverhead + memory + kPerOperation * op.cost(params.get(), in, out);
}

InlineTimer::InlineTimer(const char* name, const char* layer)
    : name_(Engine::Get().observed() ? name : nullptr), layer_(layer) {
  if (name_ != nullptr) start_ = Now();
}

InlineTimer::~InlineTimer() {
  if (name_ == nullptr) return;
  Engine::Get().ReportInline(name_, layer_ != nullptr ? layer_ : CurrentLayer(),
                             Lane::kCompute, start_, Now());
}

void SetCallSite(CallSiteFn fn) {
  call_site = fn;
}
std::string CallSite() {
  return call_site ? call_site() : std::string();
}

std::span<const Ref<Chunk>>& HeldChunks() {
  thread_local std::span<const Ref<Chunk>> chunks;
  return chunks;
}

const char*& CurrentLayer() {
  thread_local const char* layer = "";
  return layer;
}

std::exception_ptr Describe(std::exception_ptr error, const std::string& op,
                            const std::string& site) {
  const std::string where = site.empty() ? "" : " (called at " + site + ")";
  try {
    std::rethrow_exception(error);
  } catch (const Error& e) {
    const std::string text = e.what();
    const bool named = text.rfind(op + ":", 0) == 0;
    return std::make_exception_ptr(
        Error(e.kind(), (named ? "" : op + ": ") + text + where));
  } catch (const std::bad_alloc&) {
    return std::make_exception_ptr(
        Error(ErrorKind::kMemory, op + ": out of memory" + where));
  } catch (const std::exception& e) {
    return std::make_exception_ptr(
        Error(ErrorKind::kRuntime, op + ": " + e.what() + where));
  } catch (...) {
    return error;  // the host language's own
  }
}

void FillFailed(void* data, DType dtype, int64_t size) noexcept {
  if (data == nullptr || size <= 0) return;
  if (!IsFloat(dtype)) {
    std::memset(data, 0, static_cast<size_t>(size) * SizeOf(dtype));
    return;
  }
  VisitFloat(dtype, [&]<typename T>() {
    std::fill_n(static_cast<T*>(data), size,
                static_cast<T>(std::numeric_limits<float>::quiet_NaN()));
  });
}

void PushNode(const OpDef& op, const ParamsRef& params, std::span<const NDArray> in,
              std::span<const NDArray> out, const Specs& in_specs,
              const Specs& out_specs, bool fresh, const CallState& state) {
  const OpDef::AnyKernel& kernel = ChooseKernel(op, *params, in_specs, out_specs);
  for (const NDArray& x : in) x.body()->chunk->SettleForRead();
  if (!fresh) {
    for (const NDArray& x : out) x.body()->chunk->SettleForWrite();
  }
  const SmallVector<int, 4> written = WrittenInputs(op, *params, in, state.training);
  for (int i : written) in[i].body()->chunk->SettleForWrite();
  Vars reads, writes;
  CollectVars(in, out, fresh, written, reads, writes);
  Engine& engine = Engine::Get();
  const double cost = EstimateCost(op, *params, in_specs, out_specs);
  const bool host = op.IsHost(*params);
  if (!host && cost <= kInlineNanoseconds && engine.TryBegin(reads, writes)) {
    RunInline(op, kernel, params, in, out, state, cost, reads, writes);
    return;
  }
  auto node = std::make_unique<NodeOperation>(op, kernel, params, state);
  if (host) {
    const NDArray& x = out.empty() ? in[0] : out[0];
    node->lane = CallbackLane(x.device().id);
  }
  for (const NDArray& x : in) node->inputs.push_back(OperandOf(x));
  for (const NDArray& x : out) {
    node->outputs.push_back(OperandOf(x));
    if (!fresh) continue;  // memory that was there before is not pending
    node->bytes += static_cast<size_t>(x.nbytes());
    AddOnce(writes, &x.body()->chunk->var());
  }
  engine.Push(std::move(node), reads, writes);
}

}  // namespace plait
