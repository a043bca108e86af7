// Blocked values: who waits for the plain form, and making it.

#include "run/blocked_value.h"

#include <mutex>
#include <string>
#include <typeinfo>
#include <utility>
#include <vector>

#include "base/options.h"
#include "cpu/blocked.h"
#include "graph/op.h"
#include "run/blocking_lock.h"
#include "run/invoke.h"

namespace plait {
namespace {

NDArray Reordered(const char* name, const NDArray& x, int64_t block, int64_t channels) {
  const OpDef& op = GetOp(name);
  const NamedAttr attrs[] = {{"block", AttrCodec<int64_t>::Encode(block)},
                             {"channels", AttrCodec<int64_t>::Encode(channels)}};
  return InvokeKernel(op, MakeParams(op, attrs), {&x, 1})[0];
}

// The blocks of one value, and the bodies that wait for its plain form: one chunk for
// all of them. Values are never destroyed but used again: somebody may still follow a
// body's `pending` when another thread has put it in order, and then at worst flushes
// another value, which is harmless.
class BlockedValue final : public Pending {
 public:
  static NDArray New(NDArray blocks, const Shape& shape) {
    auto body = MakeRef<ArrayBody>(shape, blocks.dtype(), blocks.device());
    BlockedValue* value = Take();
    {
      const BlockingLock lock(value->mutex_);
      value->blocks_ = std::move(blocks);
      value->Own(body.get());
    }
    return NDArray(std::move(body));
  }

  static BlockedValue* Of(const ArrayBody* body) {
    Pending* p = body->pending.load(std::memory_order_acquire);
    if (p == nullptr) return nullptr;
    const Pending& pending = *p;
    return typeid(pending) == typeid(BlockedValue) ? static_cast<BlockedValue*>(p)
                                                   : nullptr;
  }

  // Where there is no memory, all stays as it is.
  void Flush() override {
    NDArray plain, blocks;  // released after the lock
    {
      const BlockingLock lock(mutex_);
      if (owners_ == nullptr) return;
      const Shape& shape = owners_->shape;
      plain = Reordered("_unblock", blocks_, blocks_.shape()[4], shape[1]);
      blocks = std::move(blocks_);
      for (ArrayBody* b = std::exchange(owners_, nullptr); b != nullptr;) {
        b->Place(plain.body()->chunk);
        ArrayBody* const next = std::exchange(b->next_owner, nullptr);
        b->pending.store(nullptr, std::memory_order_release);
        b = next;
      }
    }
    GiveBack(this);
  }

  void Forget(ArrayBody* array) noexcept override {
    NDArray blocks;
    {
      const BlockingLock lock(mutex_);
      if (array->pending.load(std::memory_order_relaxed) != this) return;
      ArrayBody** link = &owners_;
      while (*link != array) link = &(*link)->next_owner;
      *link = array->next_owner;
      array->pending.store(nullptr, std::memory_order_relaxed);
      if (owners_ != nullptr) return;
      blocks = std::move(blocks_);
    }
    GiveBack(this);
  }

  NDArray Get(const ArrayBody* body) {
    const BlockingLock lock(mutex_);
    return body->pending.load(std::memory_order_relaxed) == this ? blocks_ : NDArray();
  }

  Ref<ArrayBody> Share(const ArrayBody* body) {
    const BlockingLock lock(mutex_);
    if (body->pending.load(std::memory_order_relaxed) != this) return nullptr;
    auto twin = MakeRef<ArrayBody>(body->shape, body->dtype, body->device);
    Own(twin.get());
    return twin;
  }

 private:
  struct Free {
    std::mutex mutex;
    std::vector<BlockedValue*> values;
  };
  static Free& GetFree() {
    static auto* one = new Free;
    return *one;
  }
  static BlockedValue* Take() {
    Free& free = GetFree();
    const std::lock_guard lock(free.mutex);
    if (free.values.empty()) {
      // Room for its return, which must not fail.
      free.values.reserve(++made_);
      return new BlockedValue;
    }
    BlockedValue* const value = free.values.back();
    free.values.pop_back();
    return value;
  }
  static void GiveBack(BlockedValue* value) noexcept {
    Free& free = GetFree();
    const std::lock_guard lock(free.mutex);
    free.values.push_back(value);
  }

  void Own(ArrayBody* body) {
    body->next_owner = owners_;
    owners_ = body;
    body->pending.store(this, std::memory_order_release);
  }

  static inline size_t made_ = 0;  // under Free::mutex

  std::mutex mutex_;
  NDArray blocks_;
  ArrayBody* owners_ = nullptr;  // a list through next_owner
};

}  // namespace

NDArray MakeBlocked(NDArray blocks, const Shape& shape) {
  return BlockedValue::New(std::move(blocks), shape);
}

NDArray BlocksOf(const NDArray& x) {
  BlockedValue* const value = BlockedValue::Of(x.body());
  return value != nullptr ? value->Get(x.body()) : NDArray();
}

Ref<ArrayBody> ShareBlocked(ArrayBody* array) {
  BlockedValue* const value = BlockedValue::Of(array);
  return value != nullptr ? value->Share(array) : nullptr;
}

int64_t ImperativeBlock() {
  static const int64_t block = [] {
    const std::string disabled = ',' + GetOption(Option::kDisable) + ',';
    return disabled.find(",blocked,") == std::string::npos ? cpu::ChannelBlock() : 0;
  }();
  return LazyEnabled() ? block : 0;
}

NDArray Block(const NDArray& plain) {
  return Reordered("_block", plain, cpu::ChannelBlock(), plain.shape()[1]);
}

}  // namespace plait
