// Blocked values: who waits for the plain form, and making it.

#include "run/blocked_value.h"

#include <mutex>
#include <new>
#include <string>
#include <typeinfo>
#include <utility>
#include <vector>

#include "base/options.h"
#include "cpu/blocked.h"
#include "engine/fork.h"
#include "graph/op.h"
#include "memory/storage.h"
#include "run/invoke.h"

namespace plait {
namespace {

NDArray Reordered(const char* name, const NDArray& x, int64_t block, int64_t channels) {
  const OpDef& op = GetOp(name);
  const NamedAttr attrs[] = {{"block", AttrCodec<int64_t>::Encode(block)},
                             {"channels", AttrCodec<int64_t>::Encode(channels)}};
  return InvokeKernel(op, MakeParams(op, attrs), {&x, 1})[0];
}

class BlockedValue;

// What all values share. Under the mutex nobody waits, computes or lets go of arrays,
// so that one for all of them will do and forks can take it.
class AllValues final : public ForkAware {
 public:
  std::mutex mutex;
  std::vector<BlockedValue*> free;  // to be used again
  size_t made = 0;

  static AllValues& Get() {
    static auto* one = new AllValues;
    return *one;
  }
  void BeforeFork() override { mutex.lock(); }
  void AfterForkInParent() override { mutex.unlock(); }
  void AfterForkInChild() override { new (&mutex) std::mutex; }
};
using Lock = std::lock_guard<std::mutex>;

// At load, and the pool of memory before: before a fork the engine comes to rest first,
// then this locks, and the pool last.
[[maybe_unused]] const bool kRegistered = [] {
  memory::EmptyCache(Device{});
  RegisterForFork(&AllValues::Get());
  return true;
}();

// The blocks of one value, and the bodies that wait for its plain form: one chunk for
// all of them. Values are never destroyed but used again: somebody may still follow a
// body's `pending` when another thread has put it in order, and then at worst flushes
// another value, which is harmless.
class BlockedValue final : public Pending {
 public:
  static NDArray New(NDArray blocks, const Shape& shape) {
    auto body = MakeRef<ArrayBody>(shape, blocks.dtype(), blocks.device());
    const Lock lock(all_.mutex);
    BlockedValue* value = Take();
    value->blocks_ = std::move(blocks);
    value->Own(body.get());
    return NDArray(std::move(body));
  }

  static BlockedValue* Of(const ArrayBody* body) {
    Pending* p = body->pending.load(std::memory_order_acquire);
    if (p == nullptr) return nullptr;
    const Pending& pending = *p;
    return typeid(pending) == typeid(BlockedValue) ? static_cast<BlockedValue*>(p)
                                                   : nullptr;
  }

  // Where there is no memory, all stays as it is. The copy is pushed without the lock,
  // as the engine may wait there until others have run, who may look at this value. So
  // two threads may both make one; that of the first is taken.
  void Flush() override {
    NDArray plain, blocks;
    int64_t channels = 0;
    {
      const Lock lock(all_.mutex);
      if (owners_ == nullptr) return;
      blocks = blocks_;
      channels = owners_->shape[1];
    }
    plain = Reordered("_unblock", blocks, blocks.shape()[4], channels);
    NDArray released;  // after the lock
    const Lock lock(all_.mutex);
    // Blocks that are held here are no other value's.
    if (blocks_.body() != blocks.body()) return;
    released = std::move(blocks_);
    for (ArrayBody* b = std::exchange(owners_, nullptr); b != nullptr;) {
      b->Place(plain.body()->chunk);
      ArrayBody* const next = std::exchange(b->next_owner, nullptr);
      b->pending.store(nullptr, std::memory_order_release);
      b = next;
    }
    GiveBack();
  }

  void Forget(ArrayBody* array) noexcept override {
    NDArray blocks;  // released after the lock
    const Lock lock(all_.mutex);
    if (array->pending.load(std::memory_order_relaxed) != this) return;
    ArrayBody** link = &owners_;
    while (*link != array) link = &(*link)->next_owner;
    *link = array->next_owner;
    array->pending.store(nullptr, std::memory_order_relaxed);
    if (owners_ != nullptr) return;
    blocks = std::move(blocks_);
    GiveBack();
  }

  NDArray Get(const ArrayBody* body) {
    const Lock lock(all_.mutex);
    return body->pending.load(std::memory_order_relaxed) == this ? blocks_ : NDArray();
  }

  Ref<ArrayBody> Share(const ArrayBody* body) {
    auto twin = MakeRef<ArrayBody>(body->shape, body->dtype, body->device);
    const Lock lock(all_.mutex);
    if (body->pending.load(std::memory_order_relaxed) != this) return nullptr;
    Own(twin.get());
    return twin;
  }

 private:
  // REQUIRES, of these: the lock is held.
  static BlockedValue* Take() {
    if (all_.free.empty()) {
      // Room for its return, which must not fail.
      all_.free.reserve(++all_.made);
      return new BlockedValue;
    }
    BlockedValue* const value = all_.free.back();
    all_.free.pop_back();
    return value;
  }
  void GiveBack() noexcept { all_.free.push_back(this); }

  void Own(ArrayBody* body) {
    body->next_owner = owners_;
    owners_ = body;
    body->pending.store(this, std::memory_order_release);
  }

  static inline AllValues& all_ = AllValues::Get();

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
