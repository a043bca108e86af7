// Work of stores on arrays: copies, sums, codes.

#include "kvstore/array_work.h"

#include <cstring>
#include <utility>
#include <vector>

#include "base/parallel.h"
#include "base/small_vector.h"
#include "engine/engine.h"
#include "graph/op.h"
#include "run/invoke.h"
#include "run/tape.h"

namespace plait {
namespace {

// Calls of operators that run by themselves and are not recorded.
class ByItself {
 public:
  ByItself()
      : recording_(std::exchange(Recording(), false)),
        lazy_(std::exchange(LazyEnabled(), false)) {}
  ~ByItself() {
    Recording() = recording_;
    LazyEnabled() = lazy_;
  }
  ByItself(const ByItself&) = delete;
  ByItself& operator=(const ByItself&) = delete;

 private:
  bool recording_, lazy_;
};

class ArrayOperation final : public Operation {
 public:
  ArrayOperation(const char* name, std::function<void()> work)
      : name_(name), work_(std::move(work)) {}
  void Run() override { work_(); }
  const char* name() const override { return name_; }
  SmallVector<Ref<Chunk>, 4> held;

 private:
  const char* name_;
  std::function<void()> work_;
};

constexpr int64_t kGrain = 1 << 16;  // bytes or elements for a thread

}  // namespace

void PushWork(const char* name, std::span<const NDArray> reads,
              std::span<const NDArray> writes, int priority,
              std::function<void()> work) {
  auto op = std::make_unique<ArrayOperation>(name, std::move(work));
  op->priority = priority;
  SmallVector<Var*, 4> read_vars, write_vars;
  for (const NDArray& x : reads) {
    x.chunk().SettleForRead();
    read_vars.push_back(&x.var());
    op->held.push_back(x.body()->chunk);
  }
  for (const NDArray& x : writes) {
    x.chunk().SettleForWrite();
    write_vars.push_back(&x.var());
    op->held.push_back(x.body()->chunk);
  }
  Engine::Get().Push(std::move(op), read_vars, write_vars);
}

void CopyArray(const NDArray& x, const NDArray& y) {
  if (x.body() == y.body()) return;
  const ByItself by_itself;
  if (x.dtype() != y.dtype() || x.nbytes() < kGrain) return CopyInto(x, y);
  x.chunk();  // has memory from here on
  y.chunk();
  PushWork("copy", {&x, 1}, {&y, 1}, 0,
           [from = x.data<char>(), to = y.data<char>(), bytes = x.nbytes()] {
             ParallelFor(bytes, kGrain, [&](int64_t first, int64_t last) {
               std::memcpy(to + first, from + first, static_cast<size_t>(last - first));
             });
           });
}

void SumArrays(std::span<const NDArray> arrays, const NDArray& y) {
  static const OpDef& add_n = GetOp("add_n");
  static const ParamsRef params = MakeParams(add_n, {});
  const ByItself by_itself;
  Invoke(add_n, params, arrays, {&y, 1});
}

NDArray Encoded(const Codec& codec, const NDArray& x, NDArray& residual, int priority) {
  const NDArray codes =
      NDArray::Empty({codec.Bytes(x.size())}, DType::kUint8, x.device());
  x.chunk();
  std::vector<NDArray> writes{codes};
  const bool first = codec.has_residual() && !residual;
  if (first) {
    residual = NDArray::Empty({x.size()}, codec.residual_dtype(), x.device());
  }
  void* rest = nullptr;
  if (codec.has_residual()) {
    writes.push_back(residual);
    rest = residual.data();
  }
  const auto rest_bytes = first ? static_cast<size_t>(residual.nbytes()) : 0;
  PushWork("kvstore_encode", {&x, 1}, writes, priority,
           [codec, from = x.data<char>(), rest, rest_bytes, to = codes.data<char>(),
            n = x.size()] {
             if (rest_bytes > 0) std::memset(rest, 0, rest_bytes);
             const auto size = static_cast<int64_t>(SizeOf(codec.dtype));
             const auto rest_size =
                 static_cast<int64_t>(SizeOf(codec.residual_dtype()));
             const int64_t units = (n + kUnit - 1) / kUnit;
             ParallelFor(units, 64, [&](int64_t begin, int64_t end) {
               const int64_t at = begin * kUnit, last = std::min(n, end * kUnit);
               char* part = rest == nullptr ? nullptr
                                            : static_cast<char*>(rest) + at * rest_size;
               codec.Encode(from + at * size, part, to + codec.Bytes(at), last - at);
             });
           });
  return codes;
}

void Decode(const Codec& codec, std::span<const NDArray> codes, const NDArray& y,
            int priority) {
  y.chunk();
  std::vector<const char*> parts;
  for (const NDArray& x : codes) parts.push_back(x.data<char>());
  PushWork("kvstore_decode", codes, {&y, 1}, priority,
           [codec, parts, to = y.data<char>(), n = y.size()] {
             const auto size = static_cast<int64_t>(SizeOf(codec.dtype));
             const int64_t units = (n + kUnit - 1) / kUnit;
             ParallelFor(units, 64, [&](int64_t begin, int64_t end) {
               const int64_t at = begin * kUnit, last = std::min(n, end * kUnit);
               std::vector<const void*> from;
               for (const char* part : parts) from.push_back(part + codec.Bytes(at));
               codec.Sum(from, to + at * size, last - at);
             });
           });
}

NDArray Flat(const NDArray& x) {
  return x.Reshape({x.size()});
}

NDArray PartOf(const NDArray& x, const Ranges::Part& part) {
  return x.View({part.size()}, part.first);
}

}  // namespace plait
