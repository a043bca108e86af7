// Autocast: the rules in force, and the casts of imperative calls.

#include "run/autocast.h"

#include <atomic>
#include <mutex>

#include "run/invoke.h"

namespace plait {
namespace {

std::atomic<bool> on{false};
std::mutex mutex;
std::shared_ptr<const PrecisionRules>& Rules() {
  static std::shared_ptr<const PrecisionRules> rules;
  return rules;
}

// Half types and float32: float64 was asked for by somebody.
bool Casts(DType dtype) {
  return dtype == DType::kFloat32 || dtype == DType::kFloat16 ||
         dtype == DType::kBfloat16;
}

NDArray As(const NDArray& x, DType dtype) {
  static const OpDef& cast = GetOp("amp_cast");
  static const auto params_of = [](const char* name) {
    const NamedAttr attr{"dtype", {std::string(name)}};
    return MakeParams(cast, {&attr, 1});
  };
  static const ParamsRef to_float = params_of("float32"),
                         to_float16 = params_of("float16"),
                         to_bfloat16 = params_of("bfloat16");
  const ParamsRef& params = dtype == DType::kFloat32   ? to_float
                            : dtype == DType::kFloat16 ? to_float16
                                                       : to_bfloat16;
  return Invoke(cast, params, {&x, 1})[0];
}

}  // namespace

void SetAutocast(std::shared_ptr<const PrecisionRules> rules) {
  std::lock_guard lock(mutex);
  on.store(rules != nullptr, std::memory_order_relaxed);
  Rules() = std::move(rules);
}

std::shared_ptr<const PrecisionRules> AutocastRules() {
  if (!on.load(std::memory_order_relaxed)) return nullptr;
  std::lock_guard lock(mutex);
  return Rules();
}

void Autocast(const PrecisionRules& rules, const OpDef& op, const Params& params,
              SmallVector<NDArray, 6>& in) {
  const Precision precision = rules.Of(op, params);
  if (precision == Precision::kAny) return;
  if (precision == Precision::kWidest) {
    if (op.is_pointwise()) return;
    bool wide = false;
    for (const NDArray& x : in) wide |= x && x.dtype() == DType::kFloat32;
    if (!wide) return;
  }
  const DType dtype = precision == Precision::kLow ? rules.target : DType::kFloat32;
  for (size_t i = 0; i < in.size(); ++i) {
    NDArray& x = in[i];
    if (x && Casts(x.dtype()) && x.dtype() != dtype && IsCastable(op, params, i))
      x = As(x, dtype);
  }
}

}  // namespace plait
