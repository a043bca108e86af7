// plait.h: the library as a whole: errors, version, seeds, waits, memory, operators.

#include <algorithm>

#include "capi/handles.h"
#include "memory/storage.h"
#include "run/invoke.h"
#include "run/random.h"

namespace plait::capi {
namespace {

std::string& LastError() {
  thread_local std::string text;
  return text;
}

const std::vector<const OpDef*>& Operators() {
  static const std::vector<const OpDef*> all = AllOps();
  return all;
}

}  // namespace

void SetLastError(const char* text) noexcept {
  try {
    LastError() = text;
  } catch (...) {  // no memory for the text: the status must do
    LastError().clear();
  }
}

void Start() {
  static const bool started = (AttachToEngine(), true);
  static_cast<void>(started);
}

SymbolAttrs AttrsFrom(int count, const char* const* keys, const char* const* values,
                      const char* function) {
  NeedAll(keys, count, function, "keys");
  NeedAll(values, count, function, "values");
  SymbolAttrs attrs;
  for (int i = 0; i < count; ++i) {
    const std::string key = &Need(keys[i], function, "a key");
    Check(values[i] != nullptr, function, ": the value of ", key,
          " is NULL; a text was expected");
    Check(attrs.emplace(key, values[i]).second, ErrorKind::kType, function, ": ", key,
          " is given twice");
  }
  return attrs;
}

Shape ShapeFrom(const int64_t* sizes, int rank, bool may_be_unknown,
                const char* function) {
  Check(rank >= 0 && rank <= kMaxRank, function, ": rank is ", rank, "; 0 to ",
        kMaxRank, " was expected");
  NeedAll(sizes, rank, function, "sizes");
  const Shape shape(std::span<const int64_t>(sizes, static_cast<size_t>(rank)));
  int64_t total = 1;
  for (int64_t size : shape) {
    if (may_be_unknown && size == kUnknownSize) continue;
    Check(size >= 0, function, ": a size is ", size, "; 0 or more was expected");
    Check(!__builtin_mul_overflow(total, std::max<int64_t>(size, 1), &total), function,
          ": shape ", shape,
          " is too large; a product of sizes below 2^63 was expected");
  }
  return shape;
}

void CheckIndex(int index, size_t count, const char* function, const char* what) {
  Check(index >= 0 && static_cast<size_t>(index) < count, ErrorKind::kIndex, function,
        ": index ", index, " is out of range for ", count, " ", what);
}

}  // namespace plait::capi

using plait::capi::Guarded;
using plait::capi::Need;

const char* plait_last_error(void) {
  return plait::capi::LastError().c_str();
}

const char* plait_version(void) {
  return PLAIT_VERSION;
}

int plait_seed(uint64_t seed) {
  return Guarded([&] { plait::SeedRandom(seed); });
}

int plait_wait_all(void) {
  return Guarded([] { plait::WaitAll(); });
}

int plait_memory_get(int what, uint64_t* out) {
  return Guarded([&] {
    uint64_t& result = Need(out, "plait_memory_get", "out");
    plait::capi::CheckWhat(what, 5, "plait_memory_get");
    const plait::memory::Stats s = plait::memory::GetStats({});
    const uint64_t values[] = {s.live, s.peak, s.reserved, s.limit, s.allocations};
    result = values[what];
  });
}

int plait_memory_reset_peak(void) {
  return Guarded([] { plait::memory::ResetPeak({}); });
}

int plait_memory_set_limit(uint64_t bytes) {
  return Guarded([&] { plait::memory::SetLimit({}, bytes); });
}

int plait_memory_empty_cache(void) {
  return Guarded([] {
    plait::WaitAll();
    plait::memory::EmptyCache({});
  });
}

int plait_operator_count(int* out) {
  return Guarded([&] {
    Need(out, "plait_operator_count", "out") =
        static_cast<int>(plait::capi::Operators().size());
  });
}

int plait_operator_name(int index, const char** out) {
  return Guarded([&] {
    const auto& all = plait::capi::Operators();
    plait::capi::CheckIndex(index, all.size(), "plait_operator_name", "operators");
    Need(out, "plait_operator_name", "out") =
        all[static_cast<size_t>(index)]->name.c_str();
  });
}
